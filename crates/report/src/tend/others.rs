// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that fork otherwise than for a snapshot.

use cowlab_analysis::samples::Samples;
use cowlab_schema::{Quantile, tend as names};

use super::{NOBODY, Tended};
use crate::Rows;
use crate::cells::{MISSING, OfSamples};
use crate::document::Table;

/// The pre-forking Python server; `None` where it was not measured.
pub(super) fn prefork(samples: &Samples) -> Option<Table> {
    let caption = "A pre-forking Python server, tended before its first fork: the stop at its \
                   forks, its workers' requests, and the anonymous memory of all its processes \
                   half way; medians of the rounds' medians";
    let sizes = samples.by(names::SIZE_BYTES).into_iter();
    let each: Vec<Tended> = sizes.flat_map(|(_, samples)| Tended::all(&samples)).collect();
    let table = Rows::of("tend-prefork", caption, &each)
        .text("Policy", Tended::name)
        .number("Memory loaded", "bytes", MISSING, |of| {
            of.samples.numbers(names::SIZE_BYTES).first().map(|size| *size as f64)
        })
        .count("Forks", |of| of.samples.values(names::FORK_NS).len() as u64)
        .of_rounds("Stop, median (95% interval)", names::FORK_NS, |of| of.samples.clone())
        .number("longest", "ns", MISSING, |of| of.samples.largest(names::FORK_NS))
        .of_rounds("A request, p50", names::REQUEST_NS, |of| {
            of.samples.with(names::QUANTILE, Quantile::P50)
        })
        .of_rounds("p99", names::REQUEST_NS, |of| of.samples.with(names::QUANTILE, Quantile::P99))
        .of_rounds("Sum of PSS", names::PSS_SUM_BYTES, |of| of.samples.clone())
        .unit("First pass, CPU time", "ns", Tended::first_pass)
        .number("CPU time of tending since", "ns", NOBODY, |of| of.median(names::TENDING_CPU_NS));
    (!each.is_empty()).then(|| table.table())
}

/// PostgreSQL; `None` where it was not measured.
pub(super) fn postgres(samples: &Samples) -> Option<Table> {
    let caption = "PostgreSQL, which forks for each connection: the time until a query may be sent";
    let each = Tended::all(samples);
    let table = Rows::of("tend-postgres", caption, &each)
        .text("Policy", Tended::name)
        .text("Connections at a time", |of| of.samples.words(names::CONNECTIONS).join(", "))
        .of_rounds("p50", names::CONNECT_NS, |of| of.samples.with(names::QUANTILE, Quantile::P50))
        .of_rounds("p99", names::CONNECT_NS, |of| of.samples.with(names::QUANTILE, Quantile::P99))
        .of_rounds("max", names::CONNECT_NS, |of| of.samples.with(names::QUANTILE, Quantile::Max))
        .number("Stop at fork, predicted", "ns", "needs a machine profile", |of| {
            of.median(names::PREDICTED_FORK_NS)
        })
        .number("CPU time of tending", "ns", NOBODY, |of| of.median(names::TENDING_CPU_NS));
    (!each.is_empty()).then(|| table.table())
}
