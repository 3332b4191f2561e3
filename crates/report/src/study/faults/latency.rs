// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The distribution of single writes.

use cowlab_analysis::study::cow_faults::{Workload, plain};
use cowlab_schema::{Pattern, QUANTILES, Writer};

use super::{name, short};
use crate::Rows;
use crate::cells::MISSING;
use crate::distribution::cdf;
use crate::document::{Axis, Plot, Table};

/// Quantiles of every workload: medians of the rounds' quantiles.
pub(super) fn table(workloads: &[Workload], page: u64) -> Table {
    let caption = "One write as the program sees it, the clock's own cost removed: medians of the \
                   rounds' quantiles";
    let mut rows = Rows::of("cow-latency", caption, workloads)
        .text("Writes", |workload| name(&workload.cell, page));
    for quantile in QUANTILES {
        rows = rows.number(quantile.name(), "ns", MISSING, |of| Some(of.fault_ns(quantile)?.value));
    }
    rows.table()
}

/// Cumulative distributions: random against sequential, and with another running thread.
pub(super) fn plot(workloads: &[Workload], page: u64) -> Option<Plot> {
    let mut plot = Plot::new(
        "cow-distribution",
        "How long single writes take: random against sequential",
        Axis::log("One write", "ns"),
        Axis::linear("Share of the writes that are at most as long", "fraction"),
    )
    .caption("All rounds together. A step is a common time; a long tail to the right are stalls.");
    let patterns = [Pattern::Sequential, Pattern::Random];
    let alone = patterns
        .map(|pattern| [64, 16].iter().find_map(|mib| plain(workloads, pattern, mib << 20, page)));
    let threaded = patterns.map(|pattern| {
        workloads.iter().find(|Workload { cell, .. }| {
            (cell.writer, cell.threads) == (Writer::Parent, 1)
                && (cell.pattern, cell.page_size_bytes) == (pattern, page)
        })
    });
    for workload in alone.into_iter().chain(threaded).flatten() {
        let with = if workload.cell.threads > 0 { ", another thread running" } else { "" };
        let curve = |all| cdf(format!("{}{with}", short(&workload.cell)), &all);
        plot.series.extend(workload.distribution().and_then(curve));
    }
    plot.drawn()
}
