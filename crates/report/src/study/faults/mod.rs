// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Document 002's workloads: writes after a fork, one by one, in order and at random.

mod latency;
mod parts;

use cowlab_analysis::names::COW_FAULTS as BENCH;
use cowlab_analysis::picked::Picked;
use cowlab_analysis::study::Study;
use cowlab_model::Estimate;
use cowlab_store::Params;

use crate::cells;
use crate::document::{Block, Cell, Column, Section, Table};
use crate::fmt::{self, percent, size};
use crate::papers::COW_STUDY;
use crate::study::not_available;

/// Anchor of the table of whole runs.
pub(super) const RUNS_TABLE: &str = "cow-runs";
/// Anchor of the plot of a fault's parts.
pub(super) const PARTS_PLOT: &str = parts::PLOT;

const TITLE: &str = "Writes after a fork (document 002)";

/// One workload, and its samples.
pub(super) struct Workload<'a> {
    params: Params,
    samples: Picked<'a>,
}

impl<'a> Workload<'a> {
    fn param(&self, key: &str) -> &str {
        self.params.get(key).map_or("", String::as_str)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.param(key).parse().ok()
    }

    pub(super) fn is(&self, key: &str, value: impl ToString) -> bool {
        self.param(key) == value.to_string()
    }

    fn writers(&self) -> f64 {
        if self.is("writer", "child") { self.number("children").unwrap_or(1) as f64 } else { 1.0 }
    }

    /// Time of a page: of the slowest writer, where there are several.
    pub(super) fn ns_per_page(&self) -> Option<Estimate> {
        let pages = self.samples.estimate("pages_written")?.value / self.writers();
        let elapsed = self.samples.estimate("elapsed_ns")?;
        (pages > 0.0).then(|| elapsed.scaled(1.0 / pages))
    }

    /// Faults that the kernel counted for each page written.
    pub(super) fn faults_per_page(&self) -> Option<Estimate> {
        let pairs = self.samples.pairs("minor_faults", "pages_written");
        let ratios: Vec<f64> =
            pairs.iter().filter(|(_, pages)| *pages > 0.0).map(|(f, p)| f / p).collect();
        cowlab_model::stats::estimate(&ratios)
    }

    /// `random, 16 MiB, the parent writes, another thread running`, for a base page of `page`.
    fn named(&self, page: u64) -> Cell {
        let mut out = format!("{}, the {} writes", self.short(), self.param("writer"));
        match self.number("children") {
            Some(children) if children > 1 => {
                out = out.replace("the child writes", "each child writes");
                out.push_str(&format!(", {} children", fmt::count(children)));
            }
            _ => {}
        }
        match self.number("threads") {
            Some(1) => out.push_str(", another thread running"),
            Some(threads) if threads > 1 => {
                out.push_str(&format!(", {} other threads running", fmt::count(threads)));
            }
            _ => {}
        }
        if let Some(own) = self.number("page_size_bytes").filter(|own| *own != page) {
            out.push_str(&format!(", pages of {}", size(own)));
        }
        Cell::text(out)
    }

    /// `random, 64 MiB`.
    fn short(&self) -> String {
        format!("{}, {}", self.param("pattern"), size(self.number("size_bytes").unwrap_or(0)))
    }
}

/// Every workload: plain ones first, each pattern by size.
pub(super) fn workloads<'a>(study: &Study<'a>) -> Vec<Workload<'a>> {
    let mut found: Vec<Workload> = study
        .samples(BENCH)
        .by_params("quantile")
        .into_iter()
        .map(|(params, samples)| Workload { params, samples })
        .collect();
    let pattern = |w: &Workload| {
        ["single", "sequential", "random"].iter().position(|p| w.is("pattern", p)).unwrap_or(9)
    };
    found.sort_by_cached_key(|w| {
        (
            w.number("page_size_bytes"),
            w.number("threads"),
            w.number("children"),
            w.param("writer").to_owned(),
            pattern(w),
            w.number("size_bytes"),
        )
    });
    found
}

/// Document 002's own case: one child writes base pages, no other thread.
pub(super) fn plain<'a, 'b>(
    workloads: &'b [Workload<'a>],
    pattern: &str,
    bytes: u64,
    page: u64,
) -> Option<&'b Workload<'a>> {
    workloads.iter().find(|w| {
        w.is("pattern", pattern)
            && w.is("size_bytes", bytes)
            && w.is("writer", "child")
            && w.is("children", 1)
            && w.is("threads", 0)
            && w.is("page_size_bytes", page)
    })
}

pub(super) fn section(study: &Study) -> Section {
    let mut blocks = vec![Block::Text(
        "After a fork parent and child share every page; the first write to one makes the kernel \
         copy it. These workloads write one byte to a single page, to every page in order, or to \
         every page in a random order."
            .into(),
    )];
    let workloads = workloads(study);
    if workloads.is_empty() {
        let needs = "its samples (bench cow-faults)";
        blocks.push(not_available(study, "The workloads", &["cow-faults"], needs));
    } else {
        blocks.push(Block::Table(published(study, &workloads)));
        blocks.push(Block::Table(runs(study, &workloads)));
        blocks.push(Block::Table(latency::table(study, &workloads)));
        blocks.extend(latency::plot(study, &workloads).map(Block::Plot));
        if let Some(share) = latency::undisturbed(study, &workloads).filter(|s| *s > 0.01) {
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

fn runs(study: &Study, workloads: &[Workload]) -> Table {
    let columns = vec![
        Column::text("Writes"),
        Column::unit("All writes", "ns"),
        Column::unit("A page", "ns_per_page"),
        Column::number("Pages written"),
        Column::number("Faults counted"),
        Column::number("Faults a page"),
    ];
    let caption = "Whole runs: medians over the rounds with 95% intervals; the kernel's count of \
                   faults beside the pages that were written";
    let mut table = Table::new(RUNS_TABLE, caption, columns);
    for workload in workloads {
        let missing = "was not measured";
        let samples = &workload.samples;
        let count = |metric: &str| match samples.estimate(metric) {
            Some(e) => Cell::count(e.value.round() as u64),
            None => Cell::Missing(missing.into()),
        };
        table.push(vec![
            workload.named(study.profile.page_size_bytes),
            cells::estimate(samples.estimate("elapsed_ns"), "ns", missing),
            cells::estimate(workload.ns_per_page(), "ns_per_page", missing),
            count("pages_written"),
            count("minor_faults"),
            cells::number(workload.faults_per_page().map(|e| e.value), "", missing),
        ]);
    }
    table
}

/// What document 002 published, without pre-copy, beside the same here.
fn published(study: &Study, workloads: &[Workload]) -> Table {
    let columns = vec![
        Column::text("Figure"),
        Column::unit("Document 002 (AMD, Linux 6.8)", "ns"),
        Column::unit("this machine", "ns"),
        Column::number("times as fast"),
    ];
    let caption =
        "Document 002 without its pre-copy, and the same workloads here: one child writes";
    let mut table = Table::new("cow-published", caption, columns);
    let page = study.profile.page_size_bytes;
    let mut add = |what: String, there: Option<f64>, here: Option<Estimate>| {
        let factor = there.zip(here).map(|(there, here)| there / here.value);
        table.push(vec![
            Cell::text(what),
            cells::number(there, "ns", "not published"),
            cells::estimate(here, "ns", "was not measured"),
            cells::number(factor, "", "no figure on one side"),
        ]);
    };
    let single = plain(workloads, "single", 16 << 20, page);
    let fault = |quantile: &str| single?.samples.with("quantile", quantile).estimate("fault_ns");
    for (what, row, quantile) in [
        ("a single write, mean (here: median)", "fault.mean", "p50"),
        ("a single write, least", "fault.min", "min"),
        ("a single write, most", "fault.max", "max"),
    ] {
        add(what.into(), COW_STUDY.value(row, "fault_ns"), fault(quantile));
    }
    for pattern in ["sequential", "random"] {
        for megabytes in [16, 64] {
            let row = format!("{pattern}.{megabytes}.none");
            let here = plain(workloads, pattern, megabytes << 20, page);
            add(
                format!("{pattern} writes, {}", size(megabytes << 20)),
                COW_STUDY.value(&row, "elapsed_ms").map(|ms| ms * 1e6),
                here.and_then(|w| w.samples.estimate("elapsed_ns")),
            );
        }
    }
    table
}
