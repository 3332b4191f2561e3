// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stops, latencies, memory and work of one server under all policies.

use cowlab_model::stats::median;

use super::{Case, UNTENDED};
use crate::cells;
use crate::document::{Cell, Column, Table};
use cowlab_analysis::picked::Picked;

const MISSING: &str = "was not measured";
const ITSELF: &str = "is what the others are compared with";

pub(super) fn all(case: &Case, number: usize) -> [Table; 5] {
    [
        stops(case, number),
        latency(case, number),
        memory(case, number),
        work(case, number),
        load(case, number),
    ]
}

/// The largest of the values; each run has one.
fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

/// How many times as much untended has.
fn times(base: Option<f64>, own: Option<f64>, policy: &str) -> Cell {
    match (base, own) {
        _ if policy == UNTENDED => Cell::Missing(ITSELF.into()),
        (Some(base), Some(own)) if own > 0.0 => Cell::number(base / own, ""),
        _ => Cell::Missing(MISSING.into()),
    }
}

/// The difference to untended, as a share of it.
fn change(base: Option<f64>, own: Option<f64>, policy: &str) -> Cell {
    match (base, own) {
        _ if policy == UNTENDED => Cell::Missing(ITSELF.into()),
        (Some(base), Some(own)) if base > 0.0 => Cell::number(own / base - 1.0, "fraction"),
        _ => Cell::Missing(MISSING.into()),
    }
}

fn stops(case: &Case, number: usize) -> Table {
    let mut table = Table::new(
        format!("tend-stops-table-{number}"),
        "The stop at the forks of all rounds, by Redis's latest_fork_usec; the median is that of \
         the rounds' medians, its interval that of the rounds",
        vec![
            Column::text("Policy"),
            Column::number("Forks"),
            Column::unit("Median (95% interval)", "ns"),
            Column::unit("times shorter", "times"),
            Column::unit("Longest", "ns"),
            Column::unit("times shorter", "times"),
            Column::unit("First, predicted", "ns"),
            Column::unit("First, measured", "ns"),
        ],
    );
    let of = |policy: &str| case.samples.with("policy", policy).values("fork_ns");
    let middle = |policy: &str| {
        Some(case.samples.with("policy", policy).estimate_of_rounds("fork_ns")?.value)
    };
    let base = of(UNTENDED);
    for policy in case.policies() {
        let own = of(policy);
        let samples = case.samples.with("policy", policy);
        let first = samples.with("snapshot", "1").values("fork_ns");
        table.push(vec![
            Cell::text(policy),
            Cell::count(own.len() as u64),
            cells::of_rounds(&samples, "fork_ns", "ns", MISSING),
            times(middle(UNTENDED), middle(policy), policy),
            cells::number(most(&own), "ns", MISSING),
            times(most(&base), most(&own), policy),
            cells::number(
                median(&samples.values("predicted_fork_ns")),
                "ns",
                "needs a machine profile: cowlab calibrate",
            ),
            cells::number(median(&first), "ns", MISSING),
        ]);
    }
    table
}

/// Of the whole phase and not of one snapshot.
fn whole(case: &Case, policy: &str, part: &str, quantile: &str) -> Vec<f64> {
    let samples = case.samples.with("policy", policy).with("part", part).with("quantile", quantile);
    // Rows of single snapshots carry one more parameter.
    let rows = samples.by_params("");
    rows.into_iter()
        .filter(|(params, _)| !params.contains_key("snapshot"))
        .flat_map(|(_, samples)| samples.values("latency_ns"))
        .collect()
}

fn latency(case: &Case, number: usize) -> Table {
    let mut table = Table::new(
        format!("tend-latency-table-{number}"),
        "An update, from when it was intended; medians of the rounds, and the spread of untended \
         rounds (largest less smallest). Undisturbed: no CPU time was given to others by a hypervisor \
         in the second before",
        vec![
            Column::text("Policy"),
            Column::text("Updates"),
            Column::unit("p50", "ns"),
            Column::unit("p99", "ns"),
            Column::unit("against untended", "fraction"),
            Column::unit("p99.9", "ns"),
            Column::unit("against untended", "fraction"),
            Column::unit("p99.99", "ns"),
            Column::unit("max", "ns"),
        ],
    );
    let parts = [
        ("outside", "between snapshots"),
        ("undisturbed", "of these, undisturbed"),
        ("tending", "of these, while regions were collapsed"),
        ("snapshot", "that met one"),
    ];
    for (part, words) in parts {
        let seen =
            |policy: &&str| part != "tending" || !whole(case, policy, part, "max").is_empty();
        for policy in case.policies().into_iter().filter(seen) {
            let of = |quantile: &str| median(&whole(case, policy, part, quantile));
            // Nobody collapses an untended one's: compared with its updates between snapshots.
            let of_untended = if part == "tending" { "outside" } else { part };
            let base = |quantile: &str| median(&whole(case, UNTENDED, of_untended, quantile));
            let cell = |quantile: &str| cells::number(of(quantile), "ns", "too few updates");
            table.push(vec![
                Cell::text(policy),
                Cell::text(words),
                cell("p50"),
                cell("p99"),
                change(base("p99"), of("p99"), policy),
                cell("p99.9"),
                change(base("p99.9"), of("p99.9"), policy),
                cell("p99.99"),
                cell("max"),
            ]);
        }
        if part == "tending" {
            continue;
        }
        let spread = |quantile: &str| {
            let values = whole(case, UNTENDED, part, quantile);
            let least = values.iter().copied().reduce(f64::min)?;
            (values.len() > 1).then(|| most(&values).unwrap_or(least) - least)
        };
        let cell = |quantile: &str| cells::number(spread(quantile), "ns", "needs two rounds");
        let none = || Cell::text("");
        table.push(vec![
            Cell::text("untended, spread"),
            Cell::text(words),
            cell("p50"),
            cell("p99"),
            none(),
            cell("p99.9"),
            none(),
            cell("p99.99"),
            cell("max"),
        ]);
    }
    table
}

fn memory(case: &Case, number: usize) -> Table {
    let mut table = Table::new(
        format!("tend-memory-{number}"),
        "Memory between the snapshots, and what one copies; medians of the rounds. The group is what \
         its control group is charged, without page cache: also parts of huge pages that nobody maps \
         any more, which RSS leaves out",
        vec![
            Column::text("Policy"),
            Column::unit("RSS", "bytes"),
            Column::unit("against untended", "fraction"),
            Column::unit("Group", "bytes"),
            Column::unit("against untended", "fraction"),
            Column::unit("Group, most", "bytes"),
            Column::unit("Copied by a snapshot", "bytes"),
            Column::unit("against untended", "fraction"),
        ],
    );
    let of =
        |policy: &str, metric: &str| median(&case.samples.with("policy", policy).values(metric));
    for policy in case.policies() {
        let bytes = |metric: &str| {
            cells::number(of(policy, metric), "bytes", "needs a control group of the bench's own")
        };
        let against = |metric: &str| change(of(UNTENDED, metric), of(policy, metric), policy);
        table.push(vec![
            Cell::text(policy),
            bytes("rss_bytes"),
            against("rss_bytes"),
            bytes("group_bytes"),
            against("group_bytes"),
            bytes("group_peak_bytes"),
            bytes("cow_bytes"),
            against("cow_bytes"),
        ]);
    }
    table
}

fn work(case: &Case, number: usize) -> Table {
    let mut table = Table::new(
        format!("tend-work-{number}"),
        "Snapshots, and the work of tending; medians of the rounds. All huge again is counted from a \
         child's end: the work is spread over half of the time until the fork that is expected next, \
         and a fork that comes earlier finds less done. With less time from fork to fork than the CPU \
         time for a snapshot divided by tend's share of a CPU (0.05), tending does not pay in full",
        vec![
            Column::text("Policy"),
            Column::unit("A snapshot", "ns"),
            Column::unit("First pass, CPU time", "ns"),
            Column::unit("CPU of tending since", "fraction"),
            Column::unit("CPU time for a snapshot", "ns"),
            Column::unit("All huge again after", "ns"),
            Column::unit("Longest stall by a collapse", "ns"),
        ],
    );
    for policy in case.policies() {
        let samples: Picked = case.samples.with("policy", policy);
        let of = |metric: &str| median(&samples.values(metric));
        let untended = "nobody tends it";
        let snapshots = samples.numbers("snapshot").len() as f64;
        let for_one = of("tending_cpu_ns").map(|ns| ns / snapshots.max(1.0));
        let never = match of("tending_cpu_fraction") {
            Some(_) => "never was: the next snapshot came before",
            None => untended,
        };
        table.push(vec![
            Cell::text(policy),
            cells::number(of("snapshot_ns"), "ns", MISSING),
            cells::number(of("first_pass_cpu_ns"), "ns", "was not measured, or nobody tends it"),
            cells::number(of("tending_cpu_fraction"), "fraction", untended),
            cells::number(for_one, "ns", untended),
            cells::number(of("restored_ns"), "ns", never),
            cells::number(most(&samples.values("stall_max_ns")), "ns", untended),
        ]);
    }
    table
}

/// Whether the rate that was asked for was kept, and what of a delay was not the server's.
fn load(case: &Case, number: usize) -> Table {
    let mut table = Table::new(
        format!("tend-load-{number}"),
        "The load: updates asked for and answered, and the most that this server answered in a \
         closed loop, each with the server's share of a CPU; how late its clients sent; CPU time that \
         a hypervisor gave to others; medians of the rounds",
        vec![
            Column::text("Policy"),
            Column::unit("Asked for", "per_s"),
            Column::unit("Answered", "per_s"),
            Column::unit("by so much of a CPU", "fraction"),
            Column::unit("Most", "per_s"),
            Column::unit("by so much of a CPU", "fraction"),
            Column::unit("Sent late, p99.9", "ns"),
            Column::unit("Stolen", "ns"),
            Column::unit("Undisturbed, of updates between snapshots", "fraction"),
        ],
    );
    for policy in case.policies() {
        let samples: Picked = case.samples.with("policy", policy);
        let late = samples.with("quantile", "p99.9");
        let cell = |metric: &str, unit: &'static str| {
            cells::number(median(&samples.values(metric)), unit, MISSING)
        };
        table.push(vec![
            Cell::text(policy),
            cell("intended_per_s", "per_s"),
            cell("throughput_per_s", "per_s"),
            cell("server_cpu_fraction", "fraction"),
            cell("most_per_s", "per_s"),
            cell("most_server_cpu_fraction", "fraction"),
            cells::number(median(&late.values("late_ns")), "ns", MISSING),
            cell("stolen_ns", "ns"),
            cell("undisturbed_fraction", "fraction"),
        ]);
    }
    table
}
