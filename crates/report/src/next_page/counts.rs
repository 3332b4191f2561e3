// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel counted: exact, whoever executed it.

use cowlab_analysis::compared::ratio;
use cowlab_analysis::samples::Samples;
use cowlab_schema::{Metric, Pattern, Policy, cow_faults};

use super::cases::{Measured, NEXT, OFF, Workload, per_page};
use crate::Rows;
use crate::cells;
use crate::document::{Block, Cell, Table};
use crate::fmt::{self, percent};

pub(super) const TABLE: &str = "pre-copy-counts";

const UNTOLD: &str = "this kernel does not tell";

pub(super) fn blocks(measured: &Measured) -> Vec<Block> {
    let mut blocks = Vec::new();
    blocks.extend(one_over_e(measured));
    blocks.extend(accounted(measured));
    let table = table(measured);
    if table.rows.is_empty() {
        return blocks;
    }
    blocks.push(Block::Table(table));
    blocks.push(Block::Note(
        "The document's hit rate is pages copied over neighbours looked at. It says nothing of what \
         becomes of them: a page that was copied and never written before the process ended, or \
         forked again, is wasted, and counts as a hit all the same."
            .into(),
    ));
    blocks
}

const WORKLOADS: [Workload; 5] = [
    Workload::of(Pattern::Sequential, 16),
    Workload::of(Pattern::Sequential, 64),
    Workload::of(Pattern::Random, 16),
    Workload::of(Pattern::Random, 64),
    Workload::of(Pattern::Single, 16),
];

fn table(measured: &Measured) -> Table {
    let each: Vec<_> = cases(measured).filter(|(_, _, case)| !case.is_empty()).collect();
    let caption = "Counted by the kernel, for each page written: faults, flushes, holds of a \
                   page-table lock, allocations and pages copied ahead, less those of an empty loop. \
                   Of the pages copied ahead: the document's hit rate (copied over looked at), and \
                   what became of them";
    let exact =
        |metric: Metric| move |(_, _, case): &Case| exact(per_page(case, metric).map(|e| e.value));
    let share = |above: Metric, below: Metric| {
        move |(_, policy, case): &Case| {
            let none = if *policy == OFF { "nothing is copied ahead" } else { UNTOLD };
            cells::number(ratio(case, above, below).map(|e| e.value), "fraction", none)
        }
    };
    Rows::of(TABLE, caption, &each)
        .text("Writes", |(workload, ..)| workload.name())
        .text("Policy", |(_, policy, _)| format!("`{policy}`"))
        .figure("Faults", exact(cow_faults::COW_FAULTS))
        .figure("TLB flushes", exact(cow_faults::FLUSHES))
        .figure("lock holds", exact(cow_faults::PTL_HOLDS))
        .figure("allocations", exact(cow_faults::ALLOCATIONS))
        .figure("Copied ahead", exact(cow_faults::PRECOPY_SUCCESS))
        .figure("hit rate", share(cow_faults::PRECOPY_SUCCESS, cow_faults::PRECOPY_ATTEMPTS))
        .figure("written later", share(cow_faults::PRECOPY_WRITTEN, cow_faults::PRECOPY_PAGES))
        .figure("wasted", share(cow_faults::PRECOPY_WASTED, cow_faults::PRECOPY_PAGES))
        .table()
}

type Case<'a> = (Workload, Policy, Samples<'a>);

/// Each workload under `off` and under each depth.
fn cases<'a>(measured: &Measured<'a>) -> impl Iterator<Item = Case<'a>> {
    WORKLOADS.into_iter().flat_map(move |workload| {
        let depths = measured.depths(workload).into_iter().map(|depth| depth.policy);
        let policies = [OFF].into_iter().chain(depths);
        policies.map(move |policy| {
            let case = measured.case(workload, policy);
            (workload, policy, case)
        })
    })
}

/// Four decimals: half a thousandth matters here.
fn exact(value: Option<f64>) -> Cell {
    cells::or(value.map(|value| Cell::Number { value, text: format!("{value:.4}") }), UNTOLD)
}

/// Of a random permutation the depth 1 leaves 1 - 1/e of the faults.
fn one_over_e(measured: &Measured) -> Option<Block> {
    let workload =
        [64, 16].map(|mib| Workload::of(Pattern::Random, mib)).into_iter().find_map(|workload| {
            let faults = per_page(&measured.case(workload, NEXT), cow_faults::COW_FAULTS)?;
            Some((workload, faults))
        });
    let (workload, faults) = workload?;
    let (fewer, expected) = (1.0 - faults.value, (-1f64).exp());
    let points = (fewer - expected).abs() * 100.0;
    let headline = format!(
        "One page copied ahead saves {} of the faults of random writes; arithmetic says {} (1/e).",
        percent(fewer),
        percent(expected)
    );
    let within = if points <= 0.5 { "within" } else { "NOT within" };
    let detail = format!(
        "{}: {} faults a page written ({} to {}), {} points from 1/e, {within} half a point. \
         The next-page study published 36.3% fewer. A write faults unless its page was copied \
         ahead, which its lower neighbour does if it faults first; over all orders that leaves 1 - \
         1/e.",
        workload.name(),
        fmt::number(faults.value),
        fmt::number(faults.low),
        fmt::number(faults.high),
        fmt::number(points),
    );
    Some(Block::finding(headline, detail, TABLE))
}

/// Every page written is a fault or was copied ahead.
fn accounted(measured: &Measured) -> Option<Block> {
    let (mut counted, mut worst) = (0u64, 0f64);
    for (_, policy, case) in cases(measured) {
        let faults = case.by_round(cow_faults::COW_FAULTS);
        let ahead = case.by_round(cow_faults::PRECOPY_WRITTEN);
        for (round, pages) in case.by_round(cow_faults::PAGES_WRITTEN) {
            let Some(faults) = faults.get(&round) else { continue };
            let ahead = match ahead.get(&round) {
                Some(pages) => *pages,
                None if policy == OFF => 0.0,
                None => continue,
            };
            counted += 1;
            worst = worst.max((faults + ahead - pages).abs());
        }
    }
    if counted == 0 {
        return None;
    }
    let headline = if worst == 0.0 {
        "Every page written was one fault or was copied ahead: the counts agree exactly.".to_owned()
    } else {
        format!(
            "Faults and pages written after being copied ahead differ from the pages written by up \
             to {}.",
            fmt::number(worst)
        )
    };
    let detail = format!(
        "{} measurements: the process's own faults over the loop, less those of an empty loop, and \
         the pages copied ahead that were written, against the pages that the loop wrote.",
        fmt::count(counted)
    );
    Some(Block::finding(headline, detail, TABLE))
}
