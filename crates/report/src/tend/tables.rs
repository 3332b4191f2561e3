// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stops, latencies, memory and work of one server under all policies.

use cowlab_analysis::samples::Samples;
use cowlab_model::stats::median;
use cowlab_schema::tend::{self as names, Part, Policy};
use cowlab_schema::{Metric, Quantile};

use super::{Case, NOBODY, Tended, UNTENDED};
use crate::Rows;
use crate::cells::{self, MISSING, OfSamples};
use crate::document::{Cell, Table};

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

/// What `of` makes of the figure of untended and of the policy's own.
fn beside(
    policy: Policy,
    base: Option<f64>,
    own: Option<f64>,
    of: impl Fn(f64, f64) -> Option<Cell>,
) -> Cell {
    let both = || base.zip(own).and_then(|(base, own)| of(base, own));
    cells::unless_itself(policy == UNTENDED, || cells::or(both(), MISSING))
}

/// How many times as much untended has.
fn times(policy: Policy, base: Option<f64>, own: Option<f64>) -> Cell {
    beside(policy, base, own, |base, own| (own > 0.0).then(|| Cell::number(base / own, "")))
}

/// The difference to untended, as a share of it.
fn change(policy: Policy, base: Option<f64>, own: Option<f64>) -> Cell {
    beside(policy, base, own, |base, own| {
        (base > 0.0).then(|| Cell::number(own / base - 1.0, "fraction"))
    })
}

fn stops(case: &Case, number: usize, each: &[Tended]) -> Table {
    let untended = case.samples.with(names::POLICY, UNTENDED);
    let middle = |samples: &Samples| Some(samples.estimate_of_rounds(names::FORK_NS)?.value);
    let longest = |samples: &Samples| samples.largest(names::FORK_NS);
    let caption = "The stop at the forks of all rounds, by Redis's latest_fork_usec; the median is \
                   that of the rounds' medians, its interval that of the rounds";
    Rows::of(format!("tend-stops-table-{number}"), caption, each)
        .text("Policy", Tended::name)
        .count("Forks", |of| of.samples.values(names::FORK_NS).len() as u64)
        .of_rounds("Median (95% interval)", names::FORK_NS, |of| of.samples.clone())
        .unit("times shorter", "times", |of| {
            times(of.policy, middle(&untended), middle(&of.samples))
        })
        .number("Longest", "ns", MISSING, |of| longest(&of.samples))
        .unit("times shorter", "times", |of| {
            times(of.policy, longest(&untended), longest(&of.samples))
        })
        .number("First, predicted", "ns", "needs a machine profile (calibrate)", |of| {
            of.median(names::PREDICTED_FORK_NS)
        })
        .number("First, measured", "ns", MISSING, |of| {
            of.samples.with(names::SNAPSHOT, 1).median(names::FORK_NS)
        })
        .table()
}

/// A part of the updates under one policy.
struct Row {
    policy: Policy,
    part: Part,
    words: &'static str,
    /// Its own row, or how far the rounds of it lie apart.
    is_spread: bool,
}

/// A quantile of the updates of one part in whole phases, a value for each.
fn whole(case: &Case, policy: Policy, part: Part, quantile: Quantile) -> Vec<f64> {
    let samples = case.samples.with(names::POLICY, policy).with(names::PART, part);
    // Rows of single snapshots carry one more parameter.
    samples.with(names::QUANTILE, quantile).without(names::SNAPSHOT).values(names::LATENCY_NS)
}

fn latency(case: &Case, number: usize, each: &[Tended]) -> Table {
    let mut parts = Vec::new();
    for (part, words) in [
        (Part::Outside, "between snapshots"),
        (Part::Undisturbed, "of these, undisturbed"),
        (Part::Tending, "of these, while regions were collapsed"),
        (Part::Snapshot, "that met one"),
    ] {
        let seen = |of: &&Tended| {
            part != Part::Tending || !whole(case, of.policy, part, Quantile::Max).is_empty()
        };
        let of = |policy, is_spread| Row { policy, part, words, is_spread };
        parts.extend(each.iter().filter(seen).map(|tended| of(tended.policy, false)));
        parts.extend((part != Part::Tending).then_some(of(UNTENDED, true)));
    }
    let values = |of: &Row, quantile| whole(case, of.policy, of.part, quantile);
    let figure = |quantile| {
        move |of: &Row| {
            let values = values(of, quantile);
            if !of.is_spread {
                return cells::number(median(&values), "ns", "too few updates");
            }
            let [least, largest] = [f64::min, f64::max].map(|of| values.iter().copied().reduce(of));
            let spread = largest.zip(least).filter(|_| values.len() > 1);
            let spread = spread.map(|(largest, least)| largest - least);
            cells::number(spread, "ns", "needs two rounds")
        }
    };
    let against = |quantile| {
        move |of: &Row| {
            if of.is_spread {
                return Cell::text("");
            }
            // Nobody collapses an untended one's: compared with its updates between snapshots.
            let part = if of.part == Part::Tending { Part::Outside } else { of.part };
            let base = median(&whole(case, UNTENDED, part, quantile));
            change(of.policy, base, median(&values(of, quantile)))
        }
    };
    let caption = "An update, from when it was intended; medians of the rounds, and the spread of \
                   untended rounds (largest less smallest). Undisturbed: no CPU time was given to \
                   others by a hypervisor in the second before";
    Rows::of(format!("tend-latency-table-{number}"), caption, &parts)
        .text("Policy", |of| if of.is_spread { "untended, spread" } else { of.policy.name() })
        .text("Updates", |of| of.words)
        .unit("p50", "ns", figure(Quantile::P50))
        .unit("p99", "ns", figure(Quantile::P99))
        .unit("against untended", "fraction", against(Quantile::P99))
        .unit("p99.9", "ns", figure(Quantile::P99_9))
        .unit("against untended", "fraction", against(Quantile::P99_9))
        .unit("p99.99", "ns", figure(Quantile::P99_99))
        .unit("max", "ns", figure(Quantile::Max))
        .table()
}

fn memory(case: &Case, number: usize, each: &[Tended]) -> Table {
    let untended = case.samples.with(names::POLICY, UNTENDED);
    let against = |metric: Metric| {
        let base = untended.median(metric);
        move |of: &Tended| change(of.policy, base, of.median(metric))
    };
    let needs = "needs a control group of the bench's own";
    let bytes = |metric: Metric| move |of: &Tended| of.median(metric);
    let caption = "Memory between the snapshots, and what one copies; medians of the rounds. The \
                   group is what its control group is charged, without page cache: also parts of \
                   huge pages that nobody maps any more, which RSS leaves out";
    Rows::of(format!("tend-memory-{number}"), caption, each)
        .text("Policy", Tended::name)
        .number("RSS", "bytes", needs, bytes(names::RSS_BYTES))
        .unit("against untended", "fraction", against(names::RSS_BYTES))
        .number("Group", "bytes", needs, bytes(names::GROUP_BYTES))
        .unit("against untended", "fraction", against(names::GROUP_BYTES))
        .number("Group, most", "bytes", needs, bytes(names::GROUP_PEAK_BYTES))
        .number("Copied by a snapshot", "bytes", needs, bytes(names::COW_BYTES))
        .unit("against untended", "fraction", against(names::COW_BYTES))
        .table()
}

fn work(number: usize, each: &[Tended]) -> Table {
    let caption = "Snapshots, and the work of tending; medians of the rounds. All huge again is \
                   counted from a child's end: the work is spread over half of the time until the \
                   fork that is expected next, and a fork that comes earlier finds less done. With \
                   less time from fork to fork than the CPU time for a snapshot divided by tend's \
                   share of a CPU (0.05), tending does not pay in full";
    let restored = |of: &Tended| {
        let never = match of.median(names::TENDING_CPU_FRACTION) {
            Some(_) => "never was: the next snapshot came before",
            None => NOBODY,
        };
        cells::number(of.median(names::RESTORED_NS), "ns", never)
    };
    Rows::of(format!("tend-work-{number}"), caption, each)
        .text("Policy", Tended::name)
        .number("A snapshot", "ns", MISSING, |of| of.median(names::SNAPSHOT_NS))
        .unit("First pass, CPU time", "ns", Tended::first_pass)
        .number("CPU of tending since", "fraction", NOBODY, |of| {
            of.median(names::TENDING_CPU_FRACTION)
        })
        .number("CPU time for a snapshot", "ns", NOBODY, |of| {
            let snapshots = of.samples.numbers(names::SNAPSHOT).len() as f64;
            Some(of.median(names::TENDING_CPU_NS)? / snapshots.max(1.0))
        })
        .unit("All huge again after", "ns", restored)
        .number("Longest stall by a collapse", "ns", NOBODY, |of| {
            of.samples.largest(names::STALL_MAX_NS)
        })
        .table()
}

/// Whether the rate that was asked for was kept, and what of a delay was not the server's.
fn load(number: usize, each: &[Tended]) -> Table {
    let caption = "The load: updates asked for and answered, and the most that this server \
                   answered in a closed loop, each with the server's share of a CPU; how late its \
                   clients sent; CPU time that a hypervisor gave to others; medians of the rounds";
    let of = |metric: Metric| move |of: &Tended| of.median(metric);
    Rows::of(format!("tend-load-{number}"), caption, each)
        .text("Policy", Tended::name)
        .number("Asked for", "per_s", MISSING, of(names::INTENDED_PER_S))
        .number("Answered", "per_s", MISSING, of(names::THROUGHPUT_PER_S))
        .number("by so much of a CPU", "fraction", MISSING, of(names::SERVER_CPU_FRACTION))
        .number("Most", "per_s", MISSING, of(names::MOST_PER_S))
        .number("by so much of a CPU", "fraction", MISSING, of(names::MOST_SERVER_CPU_FRACTION))
        .number("Sent late, p99.9", "ns", MISSING, |of| {
            of.samples.with(names::QUANTILE, Quantile::P99_9).median(names::LATE_NS)
        })
        .number("Stolen", "ns", MISSING, of(names::STOLEN_NS))
        .number(
            "Undisturbed, of updates between snapshots",
            "fraction",
            MISSING,
            of(names::UNDISTURBED_FRACTION),
        )
        .table()
}
