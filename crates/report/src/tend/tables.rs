// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stops, latencies, memory and work of one server under all policies.

use cowlab_analysis::picked::Picked;
use cowlab_model::stats::median;

use super::{Case, NOBODY, Tended, UNTENDED};
use crate::cells::{self, ITSELF, MISSING};
use crate::document::{Cell, Table};
use crate::rows::Rows;

pub(super) fn all(case: &Case, number: usize) -> [Table; 5] {
    let each = Tended::all(&case.samples);
    [
        stops(case, number, &each),
        latency(case, number, &each),
        memory(case, number, &each),
        work(number, &each),
        load(number, &each),
    ]
}

/// The largest of the values; each run has one.
fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

/// What `of` makes of the figure of untended and of the policy's own.
fn beside(
    policy: &str,
    base: Option<f64>,
    own: Option<f64>,
    of: impl Fn(f64, f64) -> Option<Cell>,
) -> Cell {
    if policy == UNTENDED {
        return Cell::Missing(ITSELF.into());
    }
    let both = base.zip(own).and_then(|(base, own)| of(base, own));
    both.unwrap_or_else(|| Cell::Missing(MISSING.into()))
}

/// How many times as much untended has.
fn times(policy: &str, base: Option<f64>, own: Option<f64>) -> Cell {
    beside(policy, base, own, |base, own| (own > 0.0).then(|| Cell::number(base / own, "")))
}

/// The difference to untended, as a share of it.
fn change(policy: &str, base: Option<f64>, own: Option<f64>) -> Cell {
    beside(policy, base, own, |base, own| {
        (base > 0.0).then(|| Cell::number(own / base - 1.0, "fraction"))
    })
}

fn stops(case: &Case, number: usize, each: &[Tended]) -> Table {
    let untended = case.samples.with("policy", UNTENDED);
    let middle = |samples: &Picked| Some(samples.estimate_of_rounds("fork_ns")?.value);
    let longest = |samples: &Picked| most(&samples.values("fork_ns"));
    let caption = "The stop at the forks of all rounds, by Redis's latest_fork_usec; the median is \
                   that of the rounds' medians, its interval that of the rounds";
    Rows::of(format!("tend-stops-table-{number}"), caption, each)
        .text("Policy", |of| of.policy)
        .count("Forks", |of| of.samples.values("fork_ns").len() as u64)
        .of_rounds("Median (95% interval)", "fork_ns", |of| of.samples.clone())
        .unit("times shorter", "times", |of| {
            times(of.policy, middle(&untended), middle(&of.samples))
        })
        .number("Longest", "ns", MISSING, |of| longest(&of.samples))
        .unit("times shorter", "times", |of| {
            times(of.policy, longest(&untended), longest(&of.samples))
        })
        .number("First, predicted", "ns", "needs a machine profile (calibrate)", |of| {
            of.median("predicted_fork_ns")
        })
        .number("First, measured", "ns", MISSING, |of| {
            median(&of.samples.with("snapshot", "1").values("fork_ns"))
        })
        .table()
}

/// A part of the updates under one policy.
struct Part<'a> {
    policy: &'a str,
    part: &'static str,
    words: &'static str,
    /// Its own row, or how far the rounds of it lie apart.
    is_spread: bool,
}

/// A quantile of the updates of one part in whole phases, a value for each.
fn whole(case: &Case, policy: &str, part: &str, quantile: &str) -> Vec<f64> {
    let samples = case.samples.with("policy", policy).with("part", part).with("quantile", quantile);
    // Rows of single snapshots carry one more parameter.
    samples.without("snapshot").values("latency_ns")
}

fn latency(case: &Case, number: usize, each: &[Tended]) -> Table {
    let mut parts = Vec::new();
    for (part, words) in [
        ("outside", "between snapshots"),
        ("undisturbed", "of these, undisturbed"),
        ("tending", "of these, while regions were collapsed"),
        ("snapshot", "that met one"),
    ] {
        let seen =
            |of: &&Tended| part != "tending" || !whole(case, of.policy, part, "max").is_empty();
        let of = |policy, is_spread| Part { policy, part, words, is_spread };
        parts.extend(each.iter().filter(seen).map(|tended| of(tended.policy, false)));
        parts.extend((part != "tending").then_some(of(UNTENDED, true)));
    }
    let values = |of: &Part, quantile: &str| whole(case, of.policy, of.part, quantile);
    let figure = |quantile: &'static str| {
        move |of: &Part| {
            let values = values(of, quantile);
            if !of.is_spread {
                return cells::number(median(&values), "ns", "too few updates");
            }
            let least = values.iter().copied().reduce(f64::min);
            let spread = most(&values).zip(least).filter(|_| values.len() > 1);
            let spread = spread.map(|(most, least)| most - least);
            cells::number(spread, "ns", "needs two rounds")
        }
    };
    let against = |quantile: &'static str| {
        move |of: &Part| {
            if of.is_spread {
                return Cell::text("");
            }
            // Nobody collapses an untended one's: compared with its updates between snapshots.
            let part = if of.part == "tending" { "outside" } else { of.part };
            let base = median(&whole(case, UNTENDED, part, quantile));
            change(of.policy, base, median(&values(of, quantile)))
        }
    };
    let caption = "An update, from when it was intended; medians of the rounds, and the spread of \
                   untended rounds (largest less smallest). Undisturbed: no CPU time was given to \
                   others by a hypervisor in the second before";
    Rows::of(format!("tend-latency-table-{number}"), caption, &parts)
        .text("Policy", |of| if of.is_spread { "untended, spread" } else { of.policy })
        .text("Updates", |of| of.words)
        .unit("p50", "ns", figure("p50"))
        .unit("p99", "ns", figure("p99"))
        .unit("against untended", "fraction", against("p99"))
        .unit("p99.9", "ns", figure("p99.9"))
        .unit("against untended", "fraction", against("p99.9"))
        .unit("p99.99", "ns", figure("p99.99"))
        .unit("max", "ns", figure("max"))
        .table()
}

fn memory(case: &Case, number: usize, each: &[Tended]) -> Table {
    let untended = case.samples.with("policy", UNTENDED);
    let against = |metric: &'static str| {
        let base = median(&untended.values(metric));
        move |of: &Tended| change(of.policy, base, of.median(metric))
    };
    let needs = "needs a control group of the bench's own";
    let bytes = |metric: &'static str| move |of: &Tended| of.median(metric);
    let caption = "Memory between the snapshots, and what one copies; medians of the rounds. The \
                   group is what its control group is charged, without page cache: also parts of \
                   huge pages that nobody maps any more, which RSS leaves out";
    Rows::of(format!("tend-memory-{number}"), caption, each)
        .text("Policy", |of| of.policy)
        .number("RSS", "bytes", needs, bytes("rss_bytes"))
        .unit("against untended", "fraction", against("rss_bytes"))
        .number("Group", "bytes", needs, bytes("group_bytes"))
        .unit("against untended", "fraction", against("group_bytes"))
        .number("Group, most", "bytes", needs, bytes("group_peak_bytes"))
        .number("Copied by a snapshot", "bytes", needs, bytes("cow_bytes"))
        .unit("against untended", "fraction", against("cow_bytes"))
        .table()
}

fn work(number: usize, each: &[Tended]) -> Table {
    let caption = "Snapshots, and the work of tending; medians of the rounds. All huge again is \
                   counted from a child's end: the work is spread over half of the time until the \
                   fork that is expected next, and a fork that comes earlier finds less done. With \
                   less time from fork to fork than the CPU time for a snapshot divided by tend's \
                   share of a CPU (0.05), tending does not pay in full";
    let restored = |of: &Tended| {
        let never = match of.median("tending_cpu_fraction") {
            Some(_) => "never was: the next snapshot came before",
            None => NOBODY,
        };
        cells::number(of.median("restored_ns"), "ns", never)
    };
    Rows::of(format!("tend-work-{number}"), caption, each)
        .text("Policy", |of| of.policy)
        .number("A snapshot", "ns", MISSING, |of| of.median("snapshot_ns"))
        .unit("First pass, CPU time", "ns", Tended::first_pass)
        .number("CPU of tending since", "fraction", NOBODY, |of| of.median("tending_cpu_fraction"))
        .number("CPU time for a snapshot", "ns", NOBODY, |of| {
            let snapshots = of.samples.numbers("snapshot").len() as f64;
            Some(of.median("tending_cpu_ns")? / snapshots.max(1.0))
        })
        .unit("All huge again after", "ns", restored)
        .number("Longest stall by a collapse", "ns", NOBODY, |of| {
            most(&of.samples.values("stall_max_ns"))
        })
        .table()
}

/// Whether the rate that was asked for was kept, and what of a delay was not the server's.
fn load(number: usize, each: &[Tended]) -> Table {
    let caption = "The load: updates asked for and answered, and the most that this server \
                   answered in a closed loop, each with the server's share of a CPU; how late its \
                   clients sent; CPU time that a hypervisor gave to others; medians of the rounds";
    let of = |metric: &'static str| move |of: &Tended| of.median(metric);
    Rows::of(format!("tend-load-{number}"), caption, each)
        .text("Policy", |of| of.policy)
        .number("Asked for", "per_s", MISSING, of("intended_per_s"))
        .number("Answered", "per_s", MISSING, of("throughput_per_s"))
        .number("by so much of a CPU", "fraction", MISSING, of("server_cpu_fraction"))
        .number("Most", "per_s", MISSING, of("most_per_s"))
        .number("by so much of a CPU", "fraction", MISSING, of("most_server_cpu_fraction"))
        .number("Sent late, p99.9", "ns", MISSING, |of| {
            median(&of.samples.with("quantile", "p99.9").values("late_ns"))
        })
        .number("Stolen", "ns", MISSING, of("stolen_ns"))
        .number(
            "Undisturbed, of updates between snapshots",
            "fraction",
            MISSING,
            of("undisturbed_fraction"),
        )
        .table()
}
