// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Throughputs, latencies, and what snapshots copy.

use cowlab_analysis::compared::{
    change, counted_waste, estimated_waste, lost, precopied, won_back,
};
use cowlab_analysis::configuration::Configuration;
use cowlab_analysis::samples::Samples;
use cowlab_schema::redis::{self as names, CLOSED, PART, Part, QUANTILE, Snapshots};
use cowlab_schema::{Metric, Quantile};

use super::{Measured, SECTION};
use crate::Rows;
use crate::cells::{self, MISSING, NOTHING_AHEAD, OfSamples};
use crate::document::{Cell, Table};

pub(super) fn all(measured: &Measured) -> [Table; 3] {
    let all: Vec<Configuration> = measured.configurations.iter().collect();
    [throughput(measured, &all), latency(measured, &all), memory(measured, &all)]
}

fn throughput(measured: &Measured, all: &[Configuration]) -> Table {
    let of = |kind| move |one: &Configuration| measured.phase(one, CLOSED, kind);
    let won = |one: &Configuration| {
        let whole = measured.plain(one, CLOSED, Snapshots::None);
        let [plain, own] = [measured.plain(one, CLOSED, Snapshots::Save), of(Snapshots::Save)(one)]
            .map(|case| lost(&whole, &case));
        cells::unless_itself(measured.configurations.is_base(one), || {
            cells::estimate_or_reason(won_back(&plain, &own), "fraction")
        })
    };
    let caption = "Updates of the closed loop; medians of the rounds with 95% intervals";
    Rows::of(SECTION.to_owned() + "-throughput", caption, all)
        .text("Configuration", |one| measured.configurations.name(one))
        .metric("Without snapshots", names::THROUGHPUT_PER_S, of(Snapshots::None))
        .metric("BGSAVE", names::THROUGHPUT_PER_S, of(Snapshots::Save))
        .unit("against plain", "fraction", |one| {
            let plain = measured.plain(one, CLOSED, Snapshots::Save);
            beside(measured, one, &plain, &of(Snapshots::Save)(one), names::THROUGHPUT_PER_S)
        })
        .unit("Won back", "fraction", won)
        .metric("While one is taken", names::SNAPSHOT_THROUGHPUT_PER_S, of(Snapshots::Save))
        .metric("AOF rewrite", names::THROUGHPUT_PER_S, of(Snapshots::Rewrite))
        .table()
}

fn latency(measured: &Measured, all: &[Configuration]) -> Table {
    let loads = measured.loads();
    let each: Vec<(&str, &Configuration)> =
        loads.iter().flat_map(|load| all.iter().map(move |one| (*load, one))).collect();
    let at = |quantile| {
        move |(load, one): &(&str, &Configuration)| {
            measured
                .phase(one, load, Snapshots::Save)
                .with(PART, Part::Snapshot)
                .with(QUANTILE, quantile)
        }
    };
    let caption = "An update, in phases with BGSAVE: those that met a snapshot; beside them p99 of \
                   a phase without";
    Rows::of(SECTION.to_owned() + "-latency", caption, &each)
        .text("Configuration", |(_, one)| measured.configurations.name(one))
        .text("Load", |(load, _)| (*load).to_owned())
        .metric("p99, no snapshots", names::LATENCY_NS, |(load, one)| {
            measured
                .phase(one, load, Snapshots::None)
                .with(PART, Part::All)
                .with(QUANTILE, Quantile::P99)
        })
        .metric("p50", names::LATENCY_NS, at(Quantile::P50))
        .metric("p99", names::LATENCY_NS, at(Quantile::P99))
        .unit("against plain", "fraction", |of @ (load, one)| {
            let plain = measured.plain(one, load, Snapshots::Save);
            let plain = plain.with(PART, Part::Snapshot).with(QUANTILE, Quantile::P99);
            beside(measured, one, &plain, &at(Quantile::P99)(of), names::LATENCY_NS)
        })
        .metric("p99.9", names::LATENCY_NS, at(Quantile::P99_9))
        .metric("max", names::LATENCY_NS, at(Quantile::Max))
        .table()
}

fn memory(measured: &Measured, all: &[Configuration]) -> Table {
    let save = |one: &Configuration| measured.phase(one, CLOSED, Snapshots::Save);
    let plain = |one: &Configuration| measured.plain(one, CLOSED, Snapshots::Save);
    let caption = "Snapshots of the closed loop: the fork, what was copied, and what server and \
                   child occupied";
    Rows::of(SECTION.to_owned() + "-memory", caption, all)
        .text("Configuration", |one| measured.configurations.name(one))
        .metric("In huge pages before", names::HUGE_BYTES, save)
        .metric("Fork", names::FORK_NS, save)
        .metric("Copied, by INFO", names::COW_BYTES, save)
        .metric("Sum of PSS", names::PSS_SUM_BYTES, save)
        .unit("against plain", "fraction", |one| {
            beside(measured, one, &plain(one), &save(one), names::PSS_SUM_BYTES)
        })
        .number("Copied ahead", "fraction", NOTHING_AHEAD, |one| precopied(&save(one)))
        .number("Unnecessary, estimated", "fraction", NOTHING_AHEAD, |one| {
            estimated_waste(&plain(one), &save(one))
        })
        // What became of a copy is known in the phase after it.
        .number("never written", "fraction", NOTHING_AHEAD, |one| {
            counted_waste(&one.of(&measured.samples))
        })
        .table()
}

/// A metric's change against plain copy-on-write.
fn beside(
    measured: &Measured,
    one: &Configuration,
    plain: &Samples,
    own: &Samples,
    metric: Metric,
) -> Cell {
    cells::unless_itself(measured.configurations.is_base(one), || {
        cells::estimate(change(plain, own, metric), "fraction", MISSING)
    })
}
