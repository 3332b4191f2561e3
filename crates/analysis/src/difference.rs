// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is one set of measurements different from another?
//!
//! The ratio is the Hodges-Lehmann estimate (the median of all pairwise ratios) with the interval
//! that inverts the Mann-Whitney test, or Wilcoxon's signed-rank test where measurements are
//! paired: both exact for few repetitions, and neither is moved by one bad round.

use cowlab_model::stats::{Estimate, median};
use serde::Serialize;

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

/// The second set beside the first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// second ÷ first, with its 95% interval before it is widened; no interval if too few, and not a
    /// number where one of the measurements is 0 or less, which have no ratio.
    pub ratio: Estimate,
    /// Whether measurements were compared pair by pair.
    pub paired: bool,
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

/// Beyond so many pairwise values their number is counted no more: the normal approximation is as good.
const MOST_COUNTED: usize = 2500;
/// Pairs of which fewer have no interval of 95%, by the signed ranks.
pub const FEWEST_PAIRS: usize = 6;

/// How many of the sorted pairwise values to leave out at each end for 95%; `None`: too few.
fn left_out(first: usize, second: usize, paired: bool) -> Option<usize> {
    let (m, n) = (first as f64, second as f64);
    if first * second > MOST_COUNTED {
        let (mean, variance) = match paired {
            true => (m * (m + 1.0) / 4.0, m * (m + 1.0) * (2.0 * m + 1.0) / 24.0),
            false => (m * n / 2.0, m * n * (m + n + 1.0) / 12.0),
        };
        return Some((mean - 1.96 * variance.sqrt()).floor() as usize);
    }
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

/// How well positive measurements tell what they are of: half the width of its 95% interval (the signed
/// ranks'), relative to it. `None` of too few for an interval, and of what is not positive.
pub fn half_width(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|v| v.ln()).collect();
    if logs.len() < values.len() {
        return None;
    }
    let skip = left_out(logs.len(), logs.len(), true)?;
    let walsh = walsh_averages(&logs);
    Some((walsh[walsh.len() - 1 - skip] - walsh[skip]) / 2.0)
}

/// The means of all pairs, each with itself as well, ascending.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let of = |i: usize| values[i..].iter().map(move |other| (values[i] + other) / 2.0);
    let mut means: Vec<f64> = (0..values.len()).flat_map(of).collect();
    means.sort_by(f64::total_cmp);
    means
}

/// Compare measurements: by their ratios, or where one is 0 or less by their differences, which give
/// a verdict and no ratio. `drift` is the relative difference between runs of the same thing that is
/// not to be called one (0.02 for 2%). `paired`: the i-th of both belong together; too few pairs for
/// an interval are compared as if they did not. `None` if a set is empty.
pub fn compare(first: &[f64], second: &[f64], paired: bool, drift: f64) -> Option<Difference> {
    let is_positive = first.iter().chain(second).all(|value| *value > 0.0);
    let logs = |values: &[f64]| -> Vec<f64> { values.iter().map(|v| v.ln()).collect() };
    let (a, b) = match is_positive {
        true => (logs(first), logs(second)),
        false => (first.to_vec(), second.to_vec()),
    };
    let paired = paired && a.len() == b.len() && a.len() >= FEWEST_PAIRS;
    let shifts = if paired {
        walsh_averages(&a.iter().zip(&b).map(|(a, b)| b - a).collect::<Vec<_>>())
    } else {
        let mut shifts: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
        shifts.sort_by(f64::total_cmp);
        shifts
    };
    let shift = median(&shifts)?;
    let as_ratio = |shift: f64| if is_positive { shift.exp() } else { f64::NAN };
    let value = as_ratio(shift);
    let count = a.len().min(b.len());
    let Some(skip) = left_out(a.len(), b.len(), paired) else {
        let ratio = Estimate { value, low: f64::NAN, high: f64::NAN, count };
        return Some(Difference { ratio, paired, verdict: Verdict::TooFew });
    };
    let (low, high) = (shifts[skip], shifts[shifts.len() - 1 - skip]);
    let allowed = match is_positive {
        true => drift.ln_1p(),
        false => drift * median(first)?.abs().max(median(second)?.abs()),
    };
    let verdict = if low - allowed > 0.0 || high + allowed < 0.0 {
        Verdict::Different
    } else {
        Verdict::NoneSeen
    };
    let ratio = Estimate { value, low: as_ratio(low), high: as_ratio(high), count };
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

    #[test]
    fn the_width_of_an_interval_falls_with_the_root_of_the_measurements() {
        let mut random = StdRng::seed_from_u64(11);
        // Of a relative deviation of 1.41%.
        let mut of = |count| half_width(&noisy(&mut random, 50.0, count)).unwrap();
        let (few, many) = (of(10), of(90));
        assert!((0.005..0.015).contains(&few) && (0.002..0.004).contains(&many), "{few} {many}");
        assert_eq!(half_width(&[1.0, 1.1, 1.0, 1.1, 1.0]), None, "five have no interval of 95%");
        assert_eq!(half_width(&[0.0; 9]), None);
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
        let zero = compare(&[0.0], &[1.0], false, 0.0).unwrap();
        assert!(zero.verdict == Verdict::TooFew && zero.ratio.value.is_nan());
    }

    #[test]
    fn what_has_no_ratio_has_a_verdict() {
        let none = [0.0; 6];
        let lost = [5000.0, 4800.0, 5100.0, 4900.0, 5050.0, 5000.0];
        let found = compare(&none, &lost, false, 0.01).unwrap();
        assert!(found.verdict == Verdict::Different && found.ratio.value.is_nan());
        assert_eq!(compare(&none, &none, false, 0.01).unwrap().verdict, Verdict::NoneSeen);
        let (below, above) = ([-1.0, 2.0, -3.0, 4.0, -5.0, 6.0], [1.0, -2.0, 3.0, -4.0, 5.0, -6.0]);
        assert_eq!(compare(&below, &above, false, 0.0).unwrap().verdict, Verdict::NoneSeen);
    }

    #[test]
    fn many_are_compared_as_fewer_are_and_in_no_time() {
        for (m, n) in [(50, 50), (40, 60)] {
            let exact = left_out(m, n, false).unwrap() as f64;
            let (a, b) = (m as f64, n as f64);
            let normal = a * b / 2.0 - 1.96 * (a * b * (a + b + 1.0) / 12.0).sqrt();
            assert!((exact - normal).abs() < 8.0, "{exact} {normal}");
        }
        assert!(left_out(400, 400, false).is_some() && left_out(400, 400, true).is_some());
    }

    #[test]
    fn pairs_too_few_for_an_interval_are_compared_without() {
        let (a, b) = ([100.0, 101.0, 99.0, 100.5, 100.2], [110.0, 111.0, 109.0, 110.5, 110.2]);
        let found = compare(&a, &b, true, 0.0).unwrap();
        assert_eq!((found.paired, found.verdict), (false, Verdict::Different));
    }
}
