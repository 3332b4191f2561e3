// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The next-page study's workloads: writes after a fork, one by one, in order and at random.

mod latency;
mod parts;

use cowlab_analysis::study::Study;
use cowlab_analysis::study::cow_faults::{Workload, plain, undisturbed, workloads};
use cowlab_schema::Metric;
use cowlab_schema::cow_faults::{
    CowFaults, ELAPSED_NS, MINOR_FAULTS, PAGES_WRITTEN, PATTERN, QUANTILE, SIZE_BYTES,
};

use crate::Rows;
use crate::cells::{self, MISSING};
use crate::document::{Block, Cell, Section, Table};
use crate::fmt::{self, percent, size};
use crate::papers::{COW_STUDY, Line};
use crate::study::not_available;

/// Anchor of the table of whole runs.
pub(super) const RUNS_TABLE: &str = "cow-runs";
/// Anchor of the plot of a fault's parts.
pub(super) const PARTS_PLOT: &str = parts::PLOT;

const TITLE: &str = "Writes after a fork (next-page study)";

pub(super) fn section(study: &Study) -> Section {
    let mut blocks = vec![Block::Text(
        "After a fork parent and child share every page; the first write to one makes the kernel \
         copy it. These workloads write one byte to a single page, to every page in order, or to \
         every page in a random order."
            .into(),
    )];
    let workloads = workloads(study);
    let page = study.profile.page_size_bytes;
    if workloads.is_empty() {
        let needs = "its samples (bench cow-faults)";
        blocks.push(not_available(study, "The workloads", &["cow-faults"], needs));
    } else {
        blocks.push(Block::Table(published(&workloads, page)));
        blocks.push(Block::Table(runs(&workloads, page)));
        blocks.push(Block::Table(latency::table(&workloads, page)));
        blocks.extend(latency::plot(&workloads, page).map(Block::Plot));
        if let Some(share) = undisturbed(&workloads, page).filter(|s| *s > 0.01) {
            blocks.push(Block::Note(format!(
                "With another thread, {} of the random writes cost no more than without: that is \
                 what a write costs while the other CPU does not run the process (it is idle, or \
                 somebody else's) and need not be interrupted.",
                percent(share)
            )));
        }
        blocks.push(Block::Note(
            "The document's table I (median 361 ns) is the copy alone, timed inside the kernel: \
             another quantity than a write as the program sees it, and not in this report."
                .into(),
        ));
    }
    blocks.extend(parts::blocks(study));
    Section::new("cow-faults", TITLE, blocks)
}

/// `random, 16 MiB, the parent writes, another thread running`, for a base page of `page`.
fn name(cell: &CowFaults, page: u64) -> String {
    let each = if cell.children > 1 { "each" } else { "the" };
    let mut out = format!("{}, {each} {} writes", short(cell), cell.writer);
    if cell.children > 1 {
        out.push_str(&format!(", {} children", fmt::count(cell.children.into())));
    }
    match cell.threads {
        0 => {}
        1 => out.push_str(", another thread running"),
        threads => {
            out.push_str(&format!(", {} other threads running", fmt::count(threads.into())));
        }
    }
    if cell.page_size_bytes != page {
        out.push_str(&format!(", pages of {}", size(cell.page_size_bytes)));
    }
    out
}

/// `random, 64 MiB`.
fn short(cell: &CowFaults) -> String {
    format!("{}, {}", cell.pattern, size(cell.size_bytes))
}

fn runs(workloads: &[Workload], page: u64) -> Table {
    let count = |metric: Metric| {
        move |of: &Workload| {
            let count = of.samples.estimate(metric).map(|e| e.value.round() as u64);
            cells::or(count.map(Cell::count), MISSING)
        }
    };
    let caption = "Whole runs: medians over the rounds with 95% intervals; the kernel's count of \
                   faults beside the pages that were written";
    Rows::of(RUNS_TABLE, caption, workloads)
        .text("Writes", |of| name(&of.cell, page))
        .estimate("All writes", "ns", MISSING, |of| of.samples.estimate(ELAPSED_NS))
        .estimate("A page", "ns_per_page", MISSING, Workload::ns_per_page)
        .figure("Pages written", count(PAGES_WRITTEN))
        .figure("Faults counted", count(MINOR_FAULTS))
        .figure("Faults a page", |of| {
            cells::number(of.faults_per_page().map(|e| e.value), "", MISSING)
        })
        .table()
}

/// What the next-page study published, without pre-copy, beside the same here.
fn published(workloads: &[Workload], page: u64) -> Table {
    let here = |line: &Line| {
        let (pattern, size) = (PATTERN.of(&line.params)?, SIZE_BYTES.of(&line.params)?);
        let workload = plain(workloads, pattern, size, page)?;
        match QUANTILE.of(&line.params) {
            Some(quantile) => workload.fault_ns(quantile),
            None => workload.samples.estimate(ELAPSED_NS),
        }
    };
    let caption =
        "The next-page study without its pre-copy, and the same workloads here: one child writes";
    Rows::of("cow-published", caption, COW_STUDY.lines("cow-published"))
        .text("Figure", |line| &line.what)
        .unit("Next-page study (AMD, Linux 6.8)", "ns", |line| line.there("not published"))
        .estimate("this machine", "ns", MISSING, here)
        .figure("times as fast", |line| {
            let factor = line.there.zip(here(line)).map(|(there, here)| there / here.value);
            cells::number(factor, "", "no figure on one side")
        })
        .table()
}
