// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Throughputs, latencies, and what snapshots copy.

use super::{CLOSED, Measured, NONE, REWRITE, SAVE, SECTION};
use crate::cells;
use crate::configuration::Names as _;
use crate::document::{Cell, Column, Table};
use cowlab_analysis::compared::{
    change, counted_waste, estimated_waste, lost, precopied, won_back,
};
use cowlab_analysis::configuration::Configuration;
use cowlab_analysis::picked::Picked;

/// Why plain copy-on-write has no change.
const ITSELF: &str = "is what the others are compared with";

const MISSING: &str = "was not measured";

pub(super) fn all(measured: &Measured) -> [Table; 3] {
    [throughput(measured), latency(measured), memory(measured)]
}

fn throughput(measured: &Measured) -> Table {
    let mut table = Table::new(
        SECTION.to_owned() + "-throughput",
        "Updates of the closed loop; medians of the rounds with 95% intervals",
        vec![
            Column::text("Configuration"),
            Column::unit("Without snapshots", "per_s"),
            Column::unit("BGSAVE", "per_s"),
            Column::unit("against plain", "fraction"),
            Column::unit("Won back", "fraction"),
            Column::unit("While one is taken", "per_s"),
            Column::unit("AOF rewrite", "per_s"),
        ],
    );
    for one in measured.configurations.iter() {
        let [none, save, rewrite] =
            [NONE, SAVE, REWRITE].map(|kind| measured.phase(&one, CLOSED, kind));
        let plain = measured.plain(&one, CLOSED, SAVE);
        let whole = measured.plain(&one, CLOSED, NONE);
        let won = match measured.configurations.is_base(&one) {
            true => Cell::Missing(ITSELF.into()),
            false => {
                let won = won_back(&lost(&whole, &plain), &lost(&whole, &save));
                cells::estimate_or_reason(won, "fraction")
            }
        };
        table.push(vec![
            Cell::text(measured.configurations.name(&one)),
            figure(&none, "throughput_per_s", "per_s"),
            figure(&save, "throughput_per_s", "per_s"),
            beside(measured, &one, change(&plain, &save, "throughput_per_s")),
            won,
            figure(&save, "snapshot_throughput_per_s", "per_s"),
            figure(&rewrite, "throughput_per_s", "per_s"),
        ]);
    }
    table
}

fn latency(measured: &Measured) -> Table {
    let mut table = Table::new(
        SECTION.to_owned() + "-latency",
        "An update, in phases with BGSAVE: those that met a snapshot; beside them p99 of a phase \
         without",
        vec![
            Column::text("Configuration"),
            Column::text("Load"),
            Column::unit("p99, no snapshots", "ns"),
            Column::unit("p50", "ns"),
            Column::unit("p99", "ns"),
            Column::unit("against plain", "fraction"),
            Column::unit("p99.9", "ns"),
            Column::unit("max", "ns"),
        ],
    );
    for load in measured.loads() {
        for one in measured.configurations.iter() {
            let none = measured.phase(&one, load, NONE).with("part", "all");
            let met = measured.phase(&one, load, SAVE).with("part", "snapshot");
            let plain = measured.plain(&one, load, SAVE).with("part", "snapshot");
            let of = |quantile: &str| figure(&met.with("quantile", quantile), "latency_ns", "ns");
            let change =
                change(&plain.with("quantile", "p99"), &met.with("quantile", "p99"), "latency_ns");
            table.push(vec![
                Cell::text(measured.configurations.name(&one)),
                Cell::text(load),
                figure(&none.with("quantile", "p99"), "latency_ns", "ns"),
                of("p50"),
                of("p99"),
                beside(measured, &one, change),
                of("p99.9"),
                of("max"),
            ]);
        }
    }
    table
}

fn memory(measured: &Measured) -> Table {
    let mut table = Table::new(
        SECTION.to_owned() + "-memory",
        "Snapshots of the closed loop: the fork, what was copied, and what server and child occupied",
        vec![
            Column::text("Configuration"),
            Column::unit("In huge pages before", "bytes"),
            Column::unit("Fork", "ns"),
            Column::unit("Copied, by INFO", "bytes"),
            Column::unit("Sum of PSS", "bytes"),
            Column::unit("against plain", "fraction"),
            Column::unit("Copied ahead", "fraction"),
            Column::unit("Unnecessary, estimated", "fraction"),
            Column::unit("never written", "fraction"),
        ],
    );
    for one in measured.configurations.iter() {
        let (save, plain) =
            (measured.phase(&one, CLOSED, SAVE), measured.plain(&one, CLOSED, SAVE));
        let missing = "nothing was copied ahead, or the kernel does not tell";
        let share = |share: Option<f64>| cells::number(share, "fraction", missing);
        table.push(vec![
            Cell::text(measured.configurations.name(&one)),
            figure(&save, "huge_bytes", "bytes"),
            figure(&save, "fork_ns", "ns"),
            figure(&save, "cow_bytes", "bytes"),
            figure(&save, "pss_sum_bytes", "bytes"),
            beside(measured, &one, change(&plain, &save, "pss_sum_bytes")),
            share(precopied(&save)),
            share(estimated_waste(&plain, &save)),
            // What became of a copy is known in the phase after it.
            share(counted_waste(&one.of(&measured.samples))),
        ]);
    }
    table
}

fn beside(
    measured: &Measured,
    one: &Configuration,
    figure: Option<cowlab_model::Estimate>,
) -> Cell {
    match measured.configurations.is_base(one) {
        true => Cell::Missing(ITSELF.into()),
        false => cells::estimate(figure, "fraction", MISSING),
    }
}

fn figure(case: &Picked, metric: &str, unit: &str) -> Cell {
    cells::estimate(case.estimate(metric), unit, MISSING)
}
