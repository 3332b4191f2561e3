// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that fork otherwise than for a snapshot.

use cowlab_model::stats::median;

use super::in_order;
use crate::cells;
use crate::document::{Cell, Column, Table};
use cowlab_analysis::picked::Picked;

const MISSING: &str = "was not measured";
const NOBODY: &str = "nobody tends it";

/// The pre-forking Python server; `None` where it was not measured.
pub(super) fn prefork(samples: &Picked) -> Option<Table> {
    let mut table = Table::new(
        "tend-prefork",
        "A pre-forking Python server, tended before its first fork: the stop at its forks, its \
         workers' requests, and the anonymous memory of all its processes half way; medians of the \
         rounds' medians",
        vec![
            Column::text("Policy"),
            Column::unit("Memory loaded", "bytes"),
            Column::number("Forks"),
            Column::unit("Stop, median (95% interval)", "ns"),
            Column::unit("longest", "ns"),
            Column::unit("A request, p50", "ns"),
            Column::unit("p99", "ns"),
            Column::unit("Sum of PSS", "bytes"),
            Column::unit("First pass, CPU time", "ns"),
            Column::unit("CPU time of tending since", "ns"),
        ],
    );
    for size in samples.words("size_bytes") {
        let of_size = samples.with("size_bytes", size);
        for policy in in_order(&of_size) {
            let own = of_size.with("policy", policy);
            let forks = own.values("fork_ns");
            let request = |quantile: &str| {
                cells::of_rounds(&own.with("quantile", quantile), "request_ns", "ns", MISSING)
            };
            table.push(vec![
                Cell::text(policy),
                cells::number(size.parse().ok(), "bytes", MISSING),
                Cell::count(forks.len() as u64),
                cells::of_rounds(&own, "fork_ns", "ns", MISSING),
                cells::number(forks.iter().copied().reduce(f64::max), "ns", MISSING),
                request("p50"),
                request("p99"),
                cells::of_rounds(&own, "pss_sum_bytes", "bytes", MISSING),
                cells::number(
                    median(&own.values("first_pass_cpu_ns")),
                    "ns",
                    "was not measured, or nobody tends it",
                ),
                cells::number(median(&own.values("tending_cpu_ns")), "ns", NOBODY),
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// PostgreSQL; `None` where it was not measured.
pub(super) fn postgres(samples: &Picked) -> Option<Table> {
    let mut table = Table::new(
        "tend-postgres",
        "PostgreSQL, which forks for each connection: the time until a query may be sent",
        vec![
            Column::text("Policy"),
            Column::text("Connections at a time"),
            Column::unit("p50", "ns"),
            Column::unit("p99", "ns"),
            Column::unit("max", "ns"),
            Column::unit("Stop at fork, predicted", "ns"),
            Column::unit("CPU time of tending", "ns"),
        ],
    );
    for policy in in_order(samples) {
        let own = samples.with("policy", policy);
        let connect = |quantile: &str| {
            cells::of_rounds(&own.with("quantile", quantile), "connect_ns", "ns", MISSING)
        };
        table.push(vec![
            Cell::text(policy),
            Cell::text(own.words("connections").join(", ")),
            connect("p50"),
            connect("p99"),
            connect("max"),
            cells::number(
                median(&own.values("predicted_fork_ns")),
                "ns",
                "needs a machine profile",
            ),
            cells::number(median(&own.values("tending_cpu_ns")), "ns", NOBODY),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}
