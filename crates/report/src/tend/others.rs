// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that fork otherwise than for a snapshot.

use cowlab_analysis::picked::Picked;

use super::{NOBODY, Tended};
use crate::cells::MISSING;
use crate::document::Table;
use crate::rows::Rows;

/// The pre-forking Python server; `None` where it was not measured.
pub(super) fn prefork(samples: &Picked) -> Option<Table> {
    let caption = "A pre-forking Python server, tended before its first fork: the stop at its \
                   forks, its workers' requests, and the anonymous memory of all its processes \
                   half way; medians of the rounds' medians";
    let sizes = samples.words("size_bytes").into_iter();
    let each = sizes.flat_map(|size| Tended::all(&samples.with("size_bytes", size)));
    let each: Vec<Tended> = each.collect();
    let forks = |of: &Tended| of.samples.values("fork_ns");
    let table = Rows::of("tend-prefork", caption, &each)
        .text("Policy", |of| of.policy)
        .number("Memory loaded", "bytes", MISSING, |of| {
            of.samples.numbers("size_bytes").first().map(|size| *size as f64)
        })
        .count("Forks", |of| forks(of).len() as u64)
        .of_rounds("Stop, median (95% interval)", "fork_ns", |of| of.samples.clone())
        .number("longest", "ns", MISSING, |of| forks(of).into_iter().reduce(f64::max))
        .of_rounds("A request, p50", "request_ns", |of| of.samples.with("quantile", "p50"))
        .of_rounds("p99", "request_ns", |of| of.samples.with("quantile", "p99"))
        .of_rounds("Sum of PSS", "pss_sum_bytes", |of| of.samples.clone())
        .unit("First pass, CPU time", "ns", Tended::first_pass)
        .number("CPU time of tending since", "ns", NOBODY, |of| of.median("tending_cpu_ns"));
    (!each.is_empty()).then(|| table.table())
}

/// PostgreSQL; `None` where it was not measured.
pub(super) fn postgres(samples: &Picked) -> Option<Table> {
    let caption = "PostgreSQL, which forks for each connection: the time until a query may be sent";
    let each = Tended::all(samples);
    let table = Rows::of("tend-postgres", caption, &each)
        .text("Policy", |of| of.policy)
        .text("Connections at a time", |of| of.samples.words("connections").join(", "))
        .of_rounds("p50", "connect_ns", |of| of.samples.with("quantile", "p50"))
        .of_rounds("p99", "connect_ns", |of| of.samples.with("quantile", "p99"))
        .of_rounds("max", "connect_ns", |of| of.samples.with("quantile", "max"))
        .number("Stop at fork, predicted", "ns", "needs a machine profile", |of| {
            of.median("predicted_fork_ns")
        })
        .number("CPU time of tending", "ns", NOBODY, |of| of.median("tending_cpu_ns"));
    (!each.is_empty()).then(|| table.table())
}
