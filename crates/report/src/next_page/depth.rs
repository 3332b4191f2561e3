// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many pages to copy ahead: the sweep of depths, and what the best one saves.

use cowlab_analysis::compared::{change, ratio};
use cowlab_model::Estimate;
use cowlab_schema::{Metric, Pattern, Policy, Quantile, cow_faults};

use super::cases::{Depth, Measured, OFF, Workload, per_page};
use crate::Rows;
use crate::cells::{self, MISSING, signed};
use crate::document::{Axis, Block, Cell, Plot, Series, Table};
use crate::fmt::{capital, time};

const TABLE: &str = "pre-copy-depths";

const fn threaded(pattern: Pattern) -> Workload {
    Workload { threads: 1, ..Workload::of(pattern, 64) }
}

const BULK: [Workload; 4] = [
    Workload::of(Pattern::Sequential, 64),
    Workload::of(Pattern::Random, 64),
    threaded(Pattern::Sequential),
    threaded(Pattern::Random),
];
const SINGLE: Workload = Workload::of(Pattern::Single, 16);

pub(super) fn blocks(measured: &Measured) -> Vec<Block> {
    let mut blocks = Vec::new();
    blocks.extend(BULK.iter().filter_map(|workload| best(measured, *workload)));
    blocks.extend(price(measured));
    blocks.push(Block::Table(table(measured)));
    blocks.extend(times(measured).map(Block::Plot));
    blocks.extend(single(measured).map(Block::Plot));
    blocks.extend(fate(measured).map(Block::Plot));
    blocks
}

/// The time of a page, or of a single write, under a policy.
fn cost(measured: &Measured, workload: Workload, policy: Policy) -> Option<Estimate> {
    let case = measured.case(workload, policy);
    if workload.pattern == Pattern::Single {
        return case.with(cow_faults::QUANTILE, Quantile::P50).estimate(cow_faults::FAULT_NS);
    }
    per_page(&case, cow_faults::ELAPSED_NS)
}

fn change_from_off(measured: &Measured, workload: Workload, policy: Policy) -> Option<Estimate> {
    let (off, on) = (measured.case(workload, OFF), measured.case(workload, policy));
    if workload.pattern == Pattern::Single {
        let (off, on) = (
            off.with(cow_faults::QUANTILE, Quantile::P50),
            on.with(cow_faults::QUANTILE, Quantile::P50),
        );
        return change(&off, &on, cow_faults::FAULT_NS);
    }
    change(&off, &on, cow_faults::ELAPSED_NS)
}

/// A workload at a depth; `None`: nothing is copied ahead.
type At = (Workload, Option<Depth>);

fn table(measured: &Measured) -> Table {
    let known = BULK.into_iter().chain([SINGLE]);
    let known = known.filter(|workload| !measured.case(*workload, OFF).is_empty());
    let each = known.flat_map(|workload| {
        let depths = measured.depths(workload).into_iter().map(Some);
        [None].into_iter().chain(depths).map(move |depth| (workload, depth))
    });
    let each: Vec<At> = each.collect();
    let ahead = |at: &At, of: &dyn Fn(Policy) -> Cell| match &at.1 {
        Some(depth) => of(depth.policy),
        None => Cell::Missing("nothing is copied ahead".into()),
    };
    let share = |above: Metric, below: Metric| {
        move |at: &At| {
            ahead(at, &|policy| {
                let share = ratio(&measured.case(at.0, policy), above, below).map(|e| e.value);
                cells::number(share, "fraction", "this kernel does not tell")
            })
        }
    };
    let caption = "By depth: times with 95% intervals, changes round by round against `off` in the \
                   same boot, and beside the document's hit rate what became of the pages";
    Rows::of(TABLE, caption, &each)
        .text("Writes", |(workload, _)| workload.name())
        .count("Pages ahead", |(_, depth)| depth.as_ref().map_or(0, |depth| depth.pages.into()))
        .unit("A page written", "ns_per_page", |(workload, depth)| {
            let policy = depth.as_ref().map_or(OFF, |depth| depth.policy);
            cells::estimate(cost(measured, *workload, policy), "ns", MISSING)
        })
        .unit("against `off`", "fraction", |at| {
            ahead(at, &|policy| {
                let change = change_from_off(measured, at.0, policy);
                cells::estimate(change, "fraction", MISSING)
            })
        })
        .unit(
            "hit rate",
            "fraction",
            share(cow_faults::PRECOPY_SUCCESS, cow_faults::PRECOPY_ATTEMPTS),
        )
        .unit(
            "written later",
            "fraction",
            share(cow_faults::PRECOPY_WRITTEN, cow_faults::PRECOPY_PAGES),
        )
        .unit("wasted", "fraction", share(cow_faults::PRECOPY_WASTED, cow_faults::PRECOPY_PAGES))
        .figure("wasted pages, a page written", |at| {
            ahead(at, &|policy| {
                let wasted = per_page(&measured.case(at.0, policy), cow_faults::PRECOPY_WASTED);
                cells::number(wasted.map(|e| e.value), "", MISSING)
            })
        })
        .table()
}

/// The depth with the least time.
fn best(measured: &Measured, workload: Workload) -> Option<Block> {
    let depths = measured.depths(workload).into_iter();
    let costs =
        depths.filter_map(|depth| Some((cost(measured, workload, depth.policy)?.value, depth)));
    let (_, Depth { pages, policy }) = costs.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let change = change_from_off(measured, workload, policy)?;
    let headline = if change.count < 2 || (change.low <= 0.0 && change.high >= 0.0) {
        format!("{}: no depth was seen to make a difference.", capital(&workload.name()))
    } else {
        format!(
            "{}: copying {pages} pages ahead changes the time by {}, the best depth that was \
             tried.",
            capital(&workload.name()),
            signed(change.value)
        )
    };
    let detail = format!(
        "{} a page with `off`, {} with `{policy}`; the change is {} to {} in {} rounds.",
        cells::words(cost(measured, workload, OFF)?, "ns"),
        cells::words(cost(measured, workload, policy)?, "ns"),
        signed(change.low),
        signed(change.high),
        change.count
    );
    Some(Block::finding(headline, detail, TABLE))
}

/// What a single write pays for the deepest policy.
fn price(measured: &Measured) -> Option<Block> {
    let off = cost(measured, SINGLE, OFF)?;
    let deepest = measured.depths(SINGLE).into_iter().max_by_key(|depth| depth.pages)?;
    let deep = cost(measured, SINGLE, deepest.policy)?;
    let headline = format!(
        "A single write costs {} with `off` and {} where up to {} pages may be copied ahead.",
        time(off.value),
        time(deep.value),
        deepest.pages
    );
    let detail = format!("{} against {}.", cells::words(off, "ns"), cells::words(deep, "ns"));
    Some(Block::finding(headline, detail, TABLE))
}

fn times(measured: &Measured) -> Option<Plot> {
    let plot = Plot::new(
        "pre-copy-by-depth",
        "What a page written costs, by the number of pages that may be copied ahead",
        Axis::log("Pages copied ahead of a write", "pages"),
        Axis::linear("A page written", "ns"),
    )
    .caption("Medians of the rounds with 95% intervals; dashed: the same writes with `off`.");
    curves(measured, plot, &BULK)
}

fn single(measured: &Measured) -> Option<Plot> {
    let plot = Plot::new(
        "pre-copy-single",
        "What a single write costs, by the number of pages that may be copied ahead for nothing",
        Axis::log("Pages copied ahead of a write", "pages"),
        Axis::log("One write", "ns"),
    )
    .caption("Medians of single writes as the program sees them; dashed: with `off`.");
    curves(measured, plot, &[SINGLE])
}

fn curves(measured: &Measured, mut plot: Plot, workloads: &[Workload]) -> Option<Plot> {
    for workload in workloads {
        let depths = measured.depths(*workload);
        let points: Vec<(f64, Estimate)> = depths
            .iter()
            .filter_map(|d| Some((f64::from(d.pages), cost(measured, *workload, d.policy)?)))
            .collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        if let Some(off) = cost(measured, *workload, OFF) {
            let ends = [(first.0, off.value), (last.0, off.value)];
            plot.draw(Series::line(workload.name(), ends, true));
        }
        plot.draw(Series::estimates(workload.name(), points));
    }
    plot.drawn()
}

/// What became of the pages copied ahead.
fn fate(measured: &Measured) -> Option<Plot> {
    let mut plot = Plot::new(
        "pre-copy-fate",
        "What becomes of the pages copied ahead: the hit rate, and what it hides",
        Axis::log("Pages copied ahead of a write", "pages"),
        Axis::linear("Share", "fraction"),
    )
    .caption(
        "Hit rate: copied over looked at, as the next-page study defines it. Written later: of the \
         copied ones, those that were written before the process ended.",
    );
    for workload in [Workload::of(Pattern::Random, 64), SINGLE] {
        for (name, above, below) in [
            ("hit rate", cow_faults::PRECOPY_SUCCESS, cow_faults::PRECOPY_ATTEMPTS),
            ("written later", cow_faults::PRECOPY_WRITTEN, cow_faults::PRECOPY_PAGES),
        ] {
            let points = measured.depths(workload).into_iter().filter_map(|depth| {
                let share = ratio(&measured.case(workload, depth.policy), above, below)?;
                Some((f64::from(depth.pages), share.value))
            });
            plot.draw(Series::points(format!("{}: {name}", workload.name()), points));
        }
    }
    plot.drawn()
}
