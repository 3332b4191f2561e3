// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Smith & Maguire's sweep: real time over the heap's size, and a line for each write fraction.

use cowlab_model::Estimate;
use cowlab_model::regression::{Line, Weighting, fit};
use cowlab_schema::fork_sweep::{
    self, BENCH, HEAP_BYTES, METHOD, PAGE_SIZE_BYTES, PINNED, POPULATED, REAL_NS, REAP, SETTLED,
    THREADS, WRITE_FRACTION, WRITER,
};
use cowlab_schema::{Method, Reap, Writer};

use super::Study;
use crate::samples::Samples;

/// The document's heaps in bytes; ours are a thousand times as large.
pub const PAPER_HEAPS_BYTES: [u64; 6] = [1_000, 3_162, 10_000, 31_622, 100_000, 316_228];
pub const FRACTIONS: [f64; 7] = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0];
/// The document's number of forks, to which every point is scaled.
pub const FORKS: f64 = 1000.0;
/// Ours are as many times as large as the document's heaps.
const HEAP_FACTOR: u64 = 1000;

/// Real time at one heap and write fraction.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    pub heap_bytes: u64,
    /// Share of it that is written.
    pub fraction: f64,
    /// Forks that were really made in a run of the program.
    pub forks: u64,
    /// Real time of 1000 forks, in ns: the median over the rounds.
    pub real_ns: Estimate,
}

/// The lines of one write fraction: y in ns for 1000 forks, x in bytes.
#[derive(Debug, Clone)]
pub struct FractionLine {
    /// Share of the heap that is written.
    pub fraction: f64,
    pub relative: Line,
    pub ordinary: Line,
}

#[derive(Debug, Clone, Default)]
pub struct Sweep {
    /// Every heap from none to the largest.
    pub points: Vec<Point>,
    /// One for each fraction with three points or more.
    pub lines: Vec<FractionLine>,
}

/// The terms of the document's equation, in ns, children's exits included.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub copied_page: Estimate,
    pub entry: Estimate,
    /// A process without a heap.
    pub process: f64,
}

/// The document's heaps at our size, smallest first.
pub fn heaps_bytes() -> impl Iterator<Item = u64> {
    PAPER_HEAPS_BYTES.into_iter().map(|bytes| bytes * HEAP_FACTOR)
}

/// Samples of the document's own case: fork, the child writes, reaped one by one, pinned.
pub fn document_case<'a>(study: &Study<'a>) -> Samples<'a> {
    study
        .samples(BENCH)
        .with(METHOD, Method::Fork)
        .with(WRITER, Writer::Child)
        .with(REAP, Reap::Each)
        .with(POPULATED, true)
        .with(THREADS, 0)
        .with(PINNED, true)
        .with(PAGE_SIZE_BYTES, study.profile.page_size_bytes)
}

/// Points and lines of the sweep.
pub fn sweep(study: &Study) -> Sweep {
    let all = document_case(study);
    // Growing numbers of forks are measured as the document did, whose first fork is one of them.
    let settled = all.with(SETTLED, true);
    let samples = if !settled.is_empty() { settled } else { all };
    let point = |heap_bytes: u64, fraction: f64| {
        let here = samples.with(HEAP_BYTES, heap_bytes).with(WRITE_FRACTION, fraction);
        // A single fork is the small sample of figure 4, not a point of the sweep.
        let forks = here.numbers(fork_sweep::FORKS).pop().filter(|forks| *forks > 1)?;
        let total = here.with(fork_sweep::FORKS, forks).estimate(REAL_NS)?;
        let real_ns = total.scaled(FORKS / forks as f64);
        Some(Point { heap_bytes, fraction, forks, real_ns })
    };
    let heaps: Vec<u64> = std::iter::once(0).chain(heaps_bytes()).collect();
    let points: Vec<Point> = FRACTIONS
        .iter()
        .flat_map(|fraction| heaps.iter().filter_map(move |heap| point(*heap, *fraction)))
        .collect();
    let lines = FRACTIONS
        .iter()
        .filter_map(|fraction| {
            let of_line = points.iter().filter(|p| p.fraction == *fraction && p.heap_bytes > 0);
            let xy: Vec<(f64, f64)> =
                of_line.map(|p| (p.heap_bytes as f64, p.real_ns.value)).collect();
            Some(FractionLine {
                fraction: *fraction,
                relative: fit(&xy, Weighting::Relative)?,
                ordinary: fit(&xy, Weighting::Ordinary)?,
            })
        })
        .collect();
    Sweep { points, lines }
}

impl Sweep {
    pub fn line(&self, fraction: f64) -> Option<&FractionLine> {
        self.lines.iter().find(|line| line.fraction == fraction)
    }

    pub fn point(&self, heap_bytes: u64, fraction: f64) -> Option<&Point> {
        self.points.iter().find(|p| p.heap_bytes == heap_bytes && p.fraction == fraction)
    }

    /// The document's base cost of a fork: the mean intercept of its three lines over 1000.
    pub fn base_cost_ns(&self) -> Option<f64> {
        let intercepts: Vec<f64> = [0.1, 0.5, 0.9]
            .iter()
            .filter_map(|f| Some(self.line(*f)?.relative.intercept.value))
            .collect();
        (intercepts.len() == 3).then(|| intercepts.iter().sum::<f64>() / 3.0 / FORKS)
    }

    /// The largest relative residual of all lines, with its line.
    pub fn worst(&self) -> Option<(&FractionLine, f64)> {
        let residual = |line: &FractionLine| Some(line.relative.worst()?.relative_residual());
        let all = self.lines.iter().filter_map(|line| Some((line, residual(line)?)));
        all.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
    }

    /// The equation's terms: the lines' slopes over the fraction are a line again, whose slope is
    /// the cost of a copied page and whose start is that of an entry.
    pub fn terms(&self, page: u64) -> Option<Terms> {
        let slopes: Vec<(f64, f64)> =
            self.lines.iter().map(|l| (l.fraction, l.relative.slope.value)).collect();
        terms_of(&slopes, page, self.base_cost_ns()?)
    }
}

/// The terms for slopes (fraction; ns a byte for 1000 forks), as measured here or as published.
pub fn terms_of(slopes: &[(f64, f64)], page: u64, process: f64) -> Option<Terms> {
    let per_page: Vec<(f64, f64)> =
        slopes.iter().map(|(fraction, slope)| (*fraction, slope * page as f64 / FORKS)).collect();
    let line = fit(&per_page, Weighting::Ordinary)?;
    Some(Terms { copied_page: line.slope, entry: line.intercept, process })
}

impl FractionLine {
    /// Page-fault service rate, number · frac / slope, in bytes a second; `None` where nothing is
    /// written.
    pub fn service_bytes_per_s(&self) -> Option<Estimate> {
        let slope = self.relative.slope;
        let rate = |slope_ns: f64| FORKS * self.fraction / slope_ns * 1e9;
        (self.fraction > 0.0 && slope.low > 0.0).then(|| Estimate {
            value: rate(slope.value),
            low: rate(slope.high),
            high: rate(slope.low),
            count: slope.count,
        })
    }
}
