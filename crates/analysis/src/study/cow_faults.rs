// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes after a fork, one by one, in order and at random: the next-page study's workloads.

use cowlab_model::Estimate;
use cowlab_model::stats::estimate;
use cowlab_schema::cow_faults::{
    BENCH, CowFaults, ELAPSED_NS, FAULT_NS, MINOR_FAULTS, PAGES_WRITTEN, QUANTILE,
};
use cowlab_schema::{Cell as _, Pattern, Quantile, Writer};
use cowlab_store::Histogram;

use super::Study;
use crate::samples::Samples;

#[derive(Debug, Clone)]
pub struct Workload<'a> {
    pub cell: CowFaults,
    pub samples: Samples<'a>,
}

impl Workload<'_> {
    /// Time of a page: of the slowest writer, where there are several.
    pub fn ns_per_page(&self) -> Option<Estimate> {
        let writers = if self.cell.writer == Writer::Child { self.cell.children } else { 1 };
        let pages = self.samples.estimate(PAGES_WRITTEN)?.value / f64::from(writers);
        let elapsed = self.samples.estimate(ELAPSED_NS)?;
        (pages > 0.0).then(|| elapsed.scaled(1.0 / pages))
    }

    /// Faults that the kernel counted for each page written.
    pub fn faults_per_page(&self) -> Option<Estimate> {
        let pairs = self.samples.pairs(MINOR_FAULTS, PAGES_WRITTEN);
        let ratios: Vec<f64> =
            pairs.iter().filter(|(_, pages)| *pages > 0.0).map(|(f, p)| f / p).collect();
        estimate(&ratios)
    }

    /// A quantile of single writes: the median of the rounds' own.
    pub fn fault_ns(&self, quantile: Quantile) -> Option<Estimate> {
        self.samples.with(QUANTILE, quantile).estimate(FAULT_NS)
    }

    /// Every single write of all rounds.
    pub fn distribution(&self) -> Option<Histogram<u64>> {
        self.samples.with(QUANTILE, Quantile::P50).distribution()
    }
}

/// Every workload: plain ones first, each pattern by size.
pub fn workloads<'a>(study: &Study<'a>) -> Vec<Workload<'a>> {
    let groups = study.samples(BENCH).by_params(&[&QUANTILE]).into_iter();
    let mut found: Vec<Workload> = groups
        .filter_map(|(params, samples)| {
            Some(Workload { cell: CowFaults::from_params(&params).ok()?, samples })
        })
        .collect();
    found.sort_by_key(|Workload { cell, .. }| {
        let CowFaults { page_size_bytes, threads, children, writer, pattern, size_bytes, .. } =
            cell;
        (*page_size_bytes, *threads, *children, *writer, *pattern, *size_bytes)
    });
    found
}

/// The next-page study's own case: one child writes base pages of `page` bytes, no other thread.
pub fn plain<'a, 'b>(
    workloads: &'b [Workload<'a>],
    pattern: Pattern,
    size_bytes: u64,
    page: u64,
) -> Option<&'b Workload<'a>> {
    find(workloads, pattern, size_bytes, page, (Writer::Child, 0))
}

/// The workload of one writer, who has so many other running threads.
pub fn find<'a, 'b>(
    workloads: &'b [Workload<'a>],
    pattern: Pattern,
    size_bytes: u64,
    page_size_bytes: u64,
    (writer, threads): (Writer, u32),
) -> Option<&'b Workload<'a>> {
    workloads.iter().find(|Workload { cell, .. }| {
        (cell.pattern, cell.size_bytes, cell.page_size_bytes)
            == (pattern, size_bytes, page_size_bytes)
            && (cell.writer, cell.threads, cell.children) == (writer, threads, 1)
    })
}

/// Of the writes with another running thread, the share that took no longer than the slowest
/// hundredth without: they found the other CPU without the process.
pub fn undisturbed(workloads: &[Workload], page: u64) -> Option<f64> {
    let of = |threads| {
        find(workloads, Pattern::Random, 16 << 20, page, (Writer::Parent, threads))?.distribution()
    };
    let (alone, threaded) = (of(0)?, of(1)?);
    let usual = alone.value_at_quantile(0.99);
    let apart = threaded.value_at_quantile(0.5) > usual;
    apart.then(|| threaded.count_between(0, usual) as f64 / threaded.len() as f64)
}
