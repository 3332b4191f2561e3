// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Of each workload: what its configurations write, how long a write takes, what copies occupy.

use super::SECTION;
use super::workload::Workload;
use crate::cells;
use crate::configuration::Names as _;
use crate::document::{Cell, Column, Table};
use crate::fmt;
use crate::papers::CCOW;
use cowlab_analysis::compared::{
    change, counted_waste, estimated_waste, lost, precopied, won_back,
};
use cowlab_analysis::configuration::Configuration;
use cowlab_analysis::picked::Picked;

/// Why plain copy-on-write has no change.
const ITSELF: &str = "is what the others are compared with";

/// What became of free memory over the runs of a workload; `None` where the kernel did not tell.
pub(super) fn free_memory(workload: &Workload, number: usize) -> Option<Table> {
    let mut table = Table::new(
        format!("{SECTION}-free-{number}"),
        format!(
            "{}: free memory in blocks too small for a huge page of 2 MiB, before and after a run, and \
             allocations of the whole system that failed or waited meanwhile, all rounds together",
            workload.name()
        ),
        vec![
            Column::text("Configuration"),
            Column::unit("Forks", "forks"),
            Column::unit("Too small, before", "fraction"),
            Column::unit("after", "fraction"),
            Column::unit("Stalls", "count"),
            Column::unit("Compactions failed", "count"),
            Column::unit("Huge pages not had", "count"),
            Column::unit("Copies ahead without memory", "pages"),
        ],
    );
    for one in workload.configurations.iter() {
        let case = workload.case(&one);
        let sum = |metric: &str, unit: &str| {
            let all = case.values(metric);
            let sum = (!all.is_empty()).then(|| all.iter().sum());
            cells::number(sum, unit, "the kernel does not tell")
        };
        table.push(vec![
            Cell::text(workload.configurations.name(&one)),
            sum("forks", "forks"),
            figure(&case, "free_unusable_before_fraction", "fraction"),
            figure(&case, "free_unusable_after_fraction", "fraction"),
            sum("allocation_stalls", "count"),
            sum("compaction_failures", "count"),
            sum("huge_page_failures", "count"),
            sum("precopy_refused_nomem_pages", "pages"),
        ]);
    }
    let told = workload
        .configurations
        .iter()
        .any(|one| !workload.case(&one).values("free_unusable_after_fraction").is_empty());
    told.then_some(table)
}

pub(super) fn all(workload: &Workload, number: usize) -> [Table; 3] {
    let mut writes = Table::new(
        format!("{SECTION}-{number}"),
        format!("{}; medians of the rounds with 95% intervals", forked(workload)),
        vec![
            Column::text("Configuration"),
            Column::unit("Writes", "per_s"),
            Column::unit("against plain", "fraction"),
            Column::unit("document 003", "fraction"),
            Column::unit("Won back", "fraction"),
            Column::unit("Lowest window", "per_s"),
        ],
    );
    let mut times = Table::new(
        format!("{SECTION}-times-{number}"),
        format!("{}: one write in 16 is timed; a fork's time is its call's", workload.name()),
        vec![
            Column::text("Configuration"),
            Column::unit("A write, p50", "ns"),
            Column::unit("p99", "ns"),
            Column::unit("p99.9", "ns"),
            Column::unit("Fork", "ns"),
        ],
    );
    let mut memory = Table::new(
        format!("{SECTION}-memory-{number}"),
        format!(
            "{}: memory of all processes at the ends of intervals, and copies",
            workload.name()
        ),
        vec![
            Column::text("Configuration"),
            Column::unit("Sum of PSS", "bytes"),
            Column::unit("against plain", "fraction"),
            Column::unit("Faults", "faults"),
            Column::unit("Copied ahead", "fraction"),
            Column::unit("Unnecessary, estimated", "fraction"),
            Column::unit("never written", "fraction"),
        ],
    );
    let mut pages = Vec::new();
    for one in workload.configurations.iter() {
        if pages.contains(&one.page) {
            continue;
        }
        pages.push(one.page);
        let reference = workload.reference(&one);
        let name = format!("no forks{}", workload.configurations.pages(one.page));
        let rate = figure(&reference, "throughput_per_s", "per_s");
        let mut row = vec![Cell::text(name.clone()), rate];
        row.resize_with(6, || Cell::Missing("there is no fork".into()));
        writes.push(row);
        times.push(times_row(name, &reference));
    }
    for one in &workload.configurations.iter().collect::<Vec<_>>() {
        writes.push(writes_row(workload, one));
        times.push(times_row(workload.configurations.name(one), &workload.case(one)));
        memory.push(memory_row(workload, one));
    }
    [writes, times, memory]
}

/// The workload, and how often it forks.
fn forked(workload: &Workload) -> String {
    let ns = |of: Picked, metric: &str| of.estimate(metric).map(|e| fmt::quantity(e.value, "ns"));
    let found = |metric: &str| ns(workload.calibration(), metric);
    let why = match (found("recovery_ns"), found("looked_ns")) {
        (Some(recovery), _) => format!("plain copy-on-write gets over one in {recovery}"),
        (None, Some(looked)) => {
            format!("plain copy-on-write did not get over one within {looked}")
        }
        (None, None) => "as it was asked for".to_owned(),
    };
    let first = workload.configurations.iter().next().map(|one| workload.case(&one));
    let interval = first.and_then(|case| ns(case, "interval_ns")).unwrap_or_else(|| "?".into());
    format!("{}: a fork every {interval} ({why})", workload.name())
}

/// A figure's change against plain copy-on-write.
fn beside(workload: &Workload, one: &Configuration, metric: &str) -> Cell {
    if workload.configurations.is_base(one) {
        return Cell::Missing(ITSELF.into());
    }
    let change = change(&workload.plain(one), &workload.case(one), metric);
    cells::estimate(change, "fraction", "was not measured")
}

fn writes_row(workload: &Workload, one: &Configuration) -> Vec<Cell> {
    let (case, plain) = (workload.case(one), workload.plain(one));
    let row = format!("fig5.{}.{}", workload.param("zipf_alpha"), one.policy);
    let won = match workload.configurations.is_base(one) {
        true => Cell::Missing(ITSELF.into()),
        false => {
            let lost_by_plain = lost(&workload.plain_reference(one), &plain);
            let won = won_back(&lost_by_plain, &lost(&workload.reference(one), &case));
            cells::estimate_or_reason(won, "fraction")
        }
    };
    vec![
        Cell::text(workload.configurations.name(one)),
        figure(&case, "throughput_per_s", "per_s"),
        beside(workload, one, "throughput_per_s"),
        cells::number(
            CCOW.value(&row, "throughput_change_ratio"),
            "fraction",
            "document 003 does not say",
        ),
        won,
        figure(&case, "lowest_window_per_s", "per_s"),
    ]
}

fn memory_row(workload: &Workload, one: &Configuration) -> Vec<Cell> {
    let (case, plain) = (workload.case(one), workload.plain(one));
    let missing = "nothing was copied ahead, or the kernel does not tell";
    let share = |share: Option<f64>| cells::number(share, "fraction", missing);
    vec![
        Cell::text(workload.configurations.name(one)),
        figure(&case, "pss_sum_bytes", "bytes"),
        beside(workload, one, "pss_sum_bytes"),
        figure(&case, "minor_faults", "faults"),
        share(precopied(&case)),
        share(estimated_waste(&plain, &case)),
        share(counted_waste(&case)),
    ]
}

fn times_row(name: String, case: &Picked) -> Vec<Cell> {
    let mut row = vec![Cell::text(name)];
    for quantile in ["p50", "p99", "p99.9"] {
        row.push(figure(&case.with("quantile", quantile), "latency_ns", "ns"));
    }
    row.push(figure(&case.with("quantile", "p50"), "fork_ns", "ns"));
    row
}

fn figure(case: &Picked, metric: &str, unit: &str) -> Cell {
    cells::estimate(case.estimate(metric), unit, "was not measured")
}
