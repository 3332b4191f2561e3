// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The distribution of single writes.

use cowlab_analysis::study::Study;
use cowlab_store::QUANTILES;

use super::{Workload, plain};
use crate::cells;
use crate::distribution::cdf;
use crate::document::{Axis, Column, Plot, Table};

/// Quantiles of every workload: medians of the rounds' quantiles.
pub(super) fn table(study: &Study, workloads: &[Workload]) -> Table {
    let mut columns = vec![Column::text("Writes")];
    columns.extend(QUANTILES.map(|(name, _)| Column::unit(name, "ns")));
    let caption = "One write as the program sees it, the clock's own cost removed: medians of the \
                   rounds' quantiles";
    let mut table = Table::new("cow-latency", caption, columns);
    for workload in workloads {
        let mut row = vec![workload.named(study.profile.page_size_bytes)];
        row.extend(QUANTILES.map(|(name, _)| {
            let figure = workload.samples.with("quantile", name).estimate("fault_ns");
            cells::number(figure.map(|e| e.value), "ns", "was not measured")
        }));
        table.push(row);
    }
    table
}

/// Cumulative distributions: random against sequential, and with another running thread.
pub(super) fn plot(study: &Study, workloads: &[Workload]) -> Option<Plot> {
    let page = study.profile.page_size_bytes;
    let mut plot = Plot::new(
        "cow-distribution",
        "How long single writes take: random against sequential",
        Axis::log("One write", "ns"),
        Axis::linear("Share of the writes that are at most as long", "fraction"),
    )
    .caption("All rounds together. A step is a common time; a long tail to the right are stalls.");
    let mut add = |name: String, workload: Option<&Workload>| {
        let distribution = workload.and_then(|w| w.samples.with("quantile", "p50").distribution());
        if let Some(series) = distribution.and_then(|histogram| cdf(name, &histogram)) {
            plot.series.push(series);
        }
    };
    for pattern in ["sequential", "random"] {
        let workload = [64, 16].iter().find_map(|mib| plain(workloads, pattern, mib << 20, page));
        add(workload.map_or_else(String::new, Workload::short), workload);
    }
    for pattern in ["sequential", "random"] {
        let threaded = workloads.iter().find(|w| {
            w.is("writer", "parent")
                && w.is("threads", 1)
                && w.is("page_size_bytes", page)
                && w.is("pattern", pattern)
        });
        let name = threaded.map(|w| format!("{}, another thread running", w.short()));
        add(name.unwrap_or_default(), threaded);
    }
    plot.drawn()
}

/// Of the writes with another running thread, the share that took no longer than the slowest
/// hundredth without: they found the other CPU without the process.
pub(super) fn undisturbed(study: &Study, workloads: &[Workload]) -> Option<f64> {
    let page = study.profile.page_size_bytes;
    let of = |threads: u32| {
        let workload = workloads.iter().find(|w| {
            w.is("writer", "parent")
                && w.is("threads", threads)
                && w.is("pattern", "random")
                && w.is("page_size_bytes", page)
                && w.is("size_bytes", 16 << 20)
        })?;
        workload.samples.with("quantile", "p50").distribution()
    };
    let (alone, threaded) = (of(0)?, of(1)?);
    let apart = threaded.value_at_quantile(0.5) > alone.value_at_quantile(0.99);
    let usual = alone.value_at_quantile(0.99);
    apart.then(|| threaded.count_between(0, usual) as f64 / threaded.len() as f64)
}
