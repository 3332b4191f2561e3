// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Throughputs, latencies, and what snapshots copy.

use cowlab_analysis::compared::{
    change, counted_waste, estimated_waste, lost, precopied, won_back,
};
use cowlab_analysis::configuration::Configuration;
use cowlab_analysis::picked::Picked;

use super::{CLOSED, Measured, NONE, REWRITE, SAVE, SECTION};
use crate::cells::{self, ITSELF, MISSING, NOTHING_AHEAD};
use crate::configuration::Names as _;
use crate::document::{Cell, Table};
use crate::rows::Rows;

pub(super) fn all(measured: &Measured) -> [Table; 3] {
    let all: Vec<Configuration> = measured.configurations.iter().collect();
    [throughput(measured, &all), latency(measured, &all), memory(measured, &all)]
}

fn throughput(measured: &Measured, all: &[Configuration]) -> Table {
    let of = |kind: &'static str| move |one: &Configuration| measured.phase(one, CLOSED, kind);
    let won = |one: &Configuration| {
        let whole = measured.plain(one, CLOSED, NONE);
        let [plain, own] =
            [measured.plain(one, CLOSED, SAVE), of(SAVE)(one)].map(|case| lost(&whole, &case));
        match measured.configurations.is_base(one) {
            true => Cell::Missing(ITSELF.into()),
            false => cells::estimate_or_reason(won_back(&plain, &own), "fraction"),
        }
    };
    let caption = "Updates of the closed loop; medians of the rounds with 95% intervals";
    Rows::of(SECTION.to_owned() + "-throughput", caption, all)
        .text("Configuration", |one| measured.configurations.name(one))
        .metric("Without snapshots", "throughput_per_s", of(NONE))
        .metric("BGSAVE", "throughput_per_s", of(SAVE))
        .unit("against plain", "fraction", |one| {
            let plain = measured.plain(one, CLOSED, SAVE);
            beside(measured, one, &plain, &of(SAVE)(one), "throughput_per_s")
        })
        .unit("Won back", "fraction", won)
        .metric("While one is taken", "snapshot_throughput_per_s", of(SAVE))
        .metric("AOF rewrite", "throughput_per_s", of(REWRITE))
        .table()
}

fn latency(measured: &Measured, all: &[Configuration]) -> Table {
    let loads = measured.loads();
    let each: Vec<(&str, &Configuration)> =
        loads.iter().flat_map(|load| all.iter().map(move |one| (*load, one))).collect();
    let at = |quantile: &'static str| {
        move |(load, one): &(&str, &Configuration)| {
            measured.phase(one, load, SAVE).with("part", "snapshot").with("quantile", quantile)
        }
    };
    let caption = "An update, in phases with BGSAVE: those that met a snapshot; beside them p99 of \
                   a phase without";
    Rows::of(SECTION.to_owned() + "-latency", caption, &each)
        .text("Configuration", |(_, one)| measured.configurations.name(one))
        .text("Load", |(load, _)| (*load).to_owned())
        .metric("p99, no snapshots", "latency_ns", |(load, one)| {
            measured.phase(one, load, NONE).with("part", "all").with("quantile", "p99")
        })
        .metric("p50", "latency_ns", at("p50"))
        .metric("p99", "latency_ns", at("p99"))
        .unit("against plain", "fraction", |of @ (load, one)| {
            let plain = measured.plain(one, load, SAVE);
            let plain = plain.with("part", "snapshot").with("quantile", "p99");
            beside(measured, one, &plain, &at("p99")(of), "latency_ns")
        })
        .metric("p99.9", "latency_ns", at("p99.9"))
        .metric("max", "latency_ns", at("max"))
        .table()
}

fn memory(measured: &Measured, all: &[Configuration]) -> Table {
    let save = |one: &Configuration| measured.phase(one, CLOSED, SAVE);
    let plain = |one: &Configuration| measured.plain(one, CLOSED, SAVE);
    let caption = "Snapshots of the closed loop: the fork, what was copied, and what server and \
                   child occupied";
    Rows::of(SECTION.to_owned() + "-memory", caption, all)
        .text("Configuration", |one| measured.configurations.name(one))
        .metric("In huge pages before", "huge_bytes", save)
        .metric("Fork", "fork_ns", save)
        .metric("Copied, by INFO", "cow_bytes", save)
        .metric("Sum of PSS", "pss_sum_bytes", save)
        .unit("against plain", "fraction", |one| {
            beside(measured, one, &plain(one), &save(one), "pss_sum_bytes")
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
    plain: &Picked,
    own: &Picked,
    metric: &str,
) -> Cell {
    match measured.configurations.is_base(one) {
        true => Cell::Missing(ITSELF.into()),
        false => cells::estimate(change(plain, own, metric), "fraction", MISSING),
    }
}
