// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is one set of measurements different from another?
//!
//! The ratio is the Hodges-Lehmann estimate (the median of all pairwise ratios) with the interval
//! that inverts the Mann-Whitney test, or Wilcoxon's signed-rank test where measurements are
//! paired: both exact for few repetitions, and neither is moved by one bad round.

use serde::Serialize;

use crate::stats::{Estimate, median};

/// What can be said of two sets of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval of the ratio, widened by the drift between runs, excludes 1.
    Different,
    /// It contains 1: no difference was seen.
    NoneSeen,
    /// Too few repetitions for an interval of 95%.
    TooFew,
}

/// The second set over the first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// second ÷ first, with its 95% interval before it is widened; no interval if too few.
    pub ratio: Estimate,
    /// Whether measurements were compared pair by pair.
    pub paired: bool,
    /// What follows.
    pub verdict: Verdict,
}

/// How many of the `2^n` (signed ranks) or `C(m+n, n)` (ranks) arrangements give each value of
/// the test's statistic: the product of (1 + x^k), or the Gaussian binomial coefficient.
fn arrangements(first: usize, second: usize, paired: bool) -> Vec<f64> {
    if paired {
        let mut counts = vec![0.0; first * (first + 1) / 2 + 1];
        counts[0] = 1.0;
        for rank in 1..=first {
            for sum in (rank..counts.len()).rev() {
                counts[sum] += counts[sum - rank];
            }
        }
        return counts;
    }
    // counts[j][u]: arrangements of j of the second set among those of the first seen so far.
    let most = first * second;
    let mut counts = vec![vec![0.0; most + 1]; second + 1];
    counts[0][0] = 1.0;
    for i in 1..=first + second {
        for j in (1..=second.min(i)).rev() {
            // The i-th in order is of the second set: it exceeds the i − j of the first before it.
            let above = i - j;
            if above > first {
                continue;
            }
            for u in (above..=most).rev() {
                counts[j][u] += counts[j - 1][u - above];
            }
        }
    }
    counts.swap_remove(second)
}

/// How many of the sorted pairwise values to leave out at each end for 95%; `None`: too few.
fn left_out(first: usize, second: usize, paired: bool) -> Option<usize> {
    let counts = arrangements(first, second, paired);
    let all: f64 = counts.iter().sum();
    let mut below = 0.0;
    for (statistic, count) in counts.iter().enumerate() {
        below += count;
        if below / all > 0.025 {
            return statistic.checked_sub(1);
        }
    }
    None
}

/// Compare positive measurements. `drift` is the relative difference between runs of the same
/// thing that is not to be called one (0.02 for 2%). `paired`: the i-th of both belong together.
/// `None` if a set is empty or not positive.
pub fn compare(first: &[f64], second: &[f64], paired: bool, drift: f64) -> Option<Difference> {
    let logs = |values: &[f64]| -> Option<Vec<f64>> {
        values.iter().map(|v| (*v > 0.0).then(|| v.ln())).collect()
    };
    let (a, b) = (logs(first)?, logs(second)?);
    let paired = paired && a.len() == b.len();
    let mut shifts: Vec<f64> = if paired {
        // Walsh averages of the pairs' differences.
        let pairs: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b - a).collect();
        (0..pairs.len())
            .flat_map(|i| (i..pairs.len()).map(move |j| (i, j)))
            .map(|(i, j)| (pairs[i] + pairs[j]) / 2.0)
            .collect()
    } else {
        b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect()
    };
    shifts.sort_by(f64::total_cmp);
    let value = median(&shifts)?.exp();
    let count = a.len().min(b.len());
    let Some(skip) = left_out(a.len(), b.len(), paired) else {
        let ratio = Estimate { value, low: f64::NAN, high: f64::NAN, count };
        return Some(Difference { ratio, paired, verdict: Verdict::TooFew });
    };
    let (low, high) = (shifts[skip], shifts[shifts.len() - 1 - skip]);
    let allowed = drift.ln_1p();
    let verdict = if low - allowed > 0.0 || high + allowed < 0.0 {
        Verdict::Different
    } else {
        Verdict::NoneSeen
    };
    let ratio = Estimate { value, low: low.exp(), high: high.exp(), count };
    Some(Difference { ratio, paired, verdict })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    /// Critical values of published tables, two-sided 5%: U for Mann-Whitney, T for Wilcoxon.
    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (m, n, u) in [(4, 4, 0), (5, 5, 2), (6, 6, 5), (8, 8, 13), (10, 10, 23), (5, 8, 6)] {
            assert_eq!(left_out(m, n, false), Some(u), "U for {m}, {n}");
        }
        for (n, t) in [(6, 0), (8, 3), (10, 8), (15, 25)] {
            assert_eq!(left_out(n, n, true), Some(t), "T for {n}");
        }
        assert_eq!(left_out(3, 3, false), None);
        assert_eq!(left_out(5, 5, true), None);
    }

    fn noisy(random: &mut StdRng, centre: f64, count: usize) -> Vec<f64> {
        (0..count)
            .map(|_| {
                let noise: f64 = (0..6).map(|_| random.random::<f64>() - 0.5).sum();
                centre * (1.0 + 0.02 * noise)
            })
            .collect()
    }

    #[test]
    fn equal_sets_are_rarely_called_different_and_ten_percent_always() {
        let mut random = StdRng::seed_from_u64(3);
        let (mut alarms, mut found) = (0, 0);
        for _ in 0..300 {
            let a = noisy(&mut random, 100.0, 6);
            let same = compare(&a, &noisy(&mut random, 100.0, 6), false, 0.0).unwrap();
            let slower = compare(&a, &noisy(&mut random, 110.0, 6), false, 0.0).unwrap();
            alarms += usize::from(same.verdict == Verdict::Different);
            found += usize::from(slower.verdict == Verdict::Different);
        }
        assert!(alarms <= 24, "{alarms} of 300 false alarms");
        assert!(found >= 295, "{found} of 300 found");
    }

    #[test]
    fn one_bad_round_does_not_decide() {
        let a = [100.0, 101.0, 99.0, 100.5, 100.2, 99.7];
        let b = [100.3, 300.0, 99.5, 100.1, 99.9, 100.4];
        assert_eq!(compare(&a, &b, false, 0.0).unwrap().verdict, Verdict::NoneSeen);
    }

    #[test]
    fn pairs_see_what_drift_hides() {
        let a: Vec<f64> = (0..8).map(|i| 100.0 + 20.0 * f64::from(i)).collect();
        let b: Vec<f64> = a.iter().map(|v| v * 1.05).collect();
        assert_eq!(compare(&a, &b, false, 0.0).unwrap().verdict, Verdict::NoneSeen);
        let paired = compare(&a, &b, true, 0.0).unwrap();
        assert_eq!(paired.verdict, Verdict::Different);
        assert!((paired.ratio.value - 1.05).abs() < 1e-9);
    }

    #[test]
    fn too_few_or_not_positive_is_said() {
        let few = compare(&[1.0, 2.0], &[3.0, 4.0], false, 0.0).unwrap();
        assert_eq!(few.verdict, Verdict::TooFew);
        assert_eq!(compare(&[], &[1.0], false, 0.0), None);
        assert_eq!(compare(&[0.0], &[1.0], false, 0.0), None);
    }
}
