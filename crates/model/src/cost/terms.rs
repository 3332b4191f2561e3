// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Terms of the equation, and costs that depend on how many pages there are.

use crate::profile::{CycleCurve, CyclePoint, Measured};
use crate::stats::{log_spread, median};

/// Least relative spread between rounds: a quiet machine is not always quiet.
const LEAST_SPREAD: f64 = 0.01;

/// A term of the sum: nanoseconds, and their standard deviation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Term {
    /// The time.
    pub ns: f64,
    /// Its deviation.
    pub deviation_ns: f64,
}

impl Term {
    pub fn sum(terms: &[Term]) -> Term {
        Term {
            ns: terms.iter().map(|term| term.ns).sum(),
            // A slow round is slow in every term: deviations add up, not their squares.
            deviation_ns: terms.iter().map(|term| term.deviation_ns).sum(),
        }
    }
}

/// A cost per page at some numbers of pages, ascending.
pub(super) struct PerPage(pub Vec<(f64, Measured)>);

impl PerPage {
    /// The curve's cost beyond `base`, divided by the pages.
    pub fn above(
        curve: &CycleCurve,
        part: impl Fn(&CyclePoint) -> Option<Measured>,
        base: f64,
    ) -> PerPage {
        let per_page = |point: &CyclePoint| {
            let pages = point.pages as f64;
            let total = part(point)?;
            let ns = (total.ns - base).max(0.0) / pages;
            Some((pages, Measured { ns, log_spread: total.log_spread }))
        };
        let points = curve.points.iter().filter(|point| point.pages > 0);
        PerPage::pooled(points.filter_map(per_page), curve.rounds)
    }

    /// Costs with one spread for all: a few rounds tell little of the spread at one size, but all
    /// sizes together tell much.
    ///
    /// And costs drawn towards their common mean as far as their differences may be noise (an
    /// empirical Bayes estimate): with another running thread a copy costs one of two figures for
    /// seconds at a time on some machines, and the median of a few rounds is one or the other.
    pub fn pooled(costs: impl Iterator<Item = (f64, Measured)>, rounds: u32) -> PerPage {
        let mut costs: Vec<(f64, Measured)> = costs.collect();
        let spreads: Vec<f64> = costs.iter().map(|(_, cost)| cost.log_spread).collect();
        let spread = median(&spreads).unwrap_or(0.0).max(LEAST_SPREAD);
        let logs: Vec<f64> = costs.iter().map(|(_, cost)| cost.ns.ln()).collect();
        let between = log_spread(&costs.iter().map(|(_, cost)| cost.ns).collect::<Vec<_>>());
        // The variance of a median of normal values is π/2 times that of their mean.
        let noise = spread.powi(2) * std::f64::consts::FRAC_PI_2 / f64::from(rounds.max(1));
        let trust = match between {
            Some(between) if between > 0.0 && logs.iter().all(|log| log.is_finite()) => {
                (1.0 - noise / between.powi(2)).max(0.0)
            }
            _ => 1.0,
        };
        let centre = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        for (_, cost) in &mut costs {
            cost.log_spread = spread;
            if trust < 1.0 {
                cost.ns = (centre + trust * (cost.ns.ln() - centre)).exp();
            }
        }
        PerPage(costs)
    }

    /// Interpolated over ln(pages); constant beyond the ends.
    pub fn at(&self, pages: f64) -> Option<Measured> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        if pages <= first.0 {
            return Some(first.1);
        }
        if pages >= last.0 {
            return Some(last.1);
        }
        let above = self.0.iter().position(|point| point.0 >= pages)?;
        let ((x0, a), (x1, b)) = (self.0[above - 1], self.0[above]);
        let share = (pages / x0).ln() / (x1 / x0).ln();
        let mix = |a: f64, b: f64| a + (b - a) * share;
        Some(Measured { ns: mix(a.ns, b.ns), log_spread: mix(a.log_spread, b.log_spread) })
    }

    /// The cost of `pages`, if one's depends on `scale` pages.
    pub fn term(&self, pages: u64, scale: u64) -> Option<Term> {
        if pages == 0 {
            return Some(Term { ns: 0.0, deviation_ns: 0.0 });
        }
        let cost = self.at(scale as f64)?;
        let ns = cost.ns * pages as f64;
        Some(Term { ns, deviation_ns: ns * cost.log_spread })
    }
}
