// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Medians with bootstrap intervals.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub use cowlab_schema::Estimate;

/// Resamples of a bootstrap; the interval's ends then vary by a few per mille of its width.
const RESAMPLES: usize = 2000;

/// The value below which `share` of the values lie, interpolated between neighbours (Hyndman and
/// Fan's type 7); `None` without values.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    Some(below + (above - below) * position.fract())
}

/// The median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The variance of what the values are a sample of.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// The median with a percentile-bootstrap 95% interval; the same values give the same interval.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let value = median(values)?;
    let mut random = StdRng::seed_from_u64(values.len() as u64);
    let mut resample = vec![0.0; values.len()];
    let medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            resample.fill_with(|| values[random.random_range(0..values.len())]);
            median(&resample)
        })
        .collect();
    let (low, high) = (quantile(&medians, 0.025)?, quantile(&medians, 0.975)?);
    Some(Estimate { value, low, high, count: values.len() })
}

/// Mean of the second set over that of the first, with a bootstrap 95% interval that draws whole
/// groups (boots, runs) and then their members, so that what a group has in common is not taken for
/// many measurements. `None` where a set is empty or the first's mean is 0.
pub fn ratio_of_groups(first: &[Vec<f64>], second: &[Vec<f64>]) -> Option<Estimate> {
    let full =
        |groups: &[Vec<f64>]| groups.iter().filter(|group| !group.is_empty()).cloned().collect();
    let (first, second): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (full(first), full(second));
    let mean = |groups: &[Vec<f64>]| {
        let means = groups.iter().map(|group| group.iter().sum::<f64>() / group.len() as f64);
        means.sum::<f64>() / groups.len() as f64
    };
    let (before, after) = (mean(&first), mean(&second));
    if first.is_empty() || second.is_empty() || before == 0.0 {
        return None;
    }
    let count = first.len().min(second.len());
    let mut random = StdRng::seed_from_u64((first.len() * 1000 + second.len()) as u64);
    let mut drawn = |groups: &[Vec<f64>]| {
        let mut sum = 0.0;
        for _ in groups {
            let group = &groups[random.random_range(0..groups.len())];
            let members = group.iter().map(|_| group[random.random_range(0..group.len())]);
            sum += members.sum::<f64>() / group.len() as f64;
        }
        sum / groups.len() as f64
    };
    let ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let before = drawn(&first);
            drawn(&second) / before
        })
        .filter(|ratio| ratio.is_finite())
        .collect();
    let (low, high) = (quantile(&ratios, 0.025)?, quantile(&ratios, 0.975)?);
    Some(Estimate { value: after / before, low, high, count })
}

/// Standard deviation of the logarithms, so a relative spread; `None` under two positive values.
pub fn log_spread(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> = values.iter().filter(|v| **v > 0.0).map(|v| v.ln()).collect();
    if logs.len() < 2 {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
    Some((squares / (logs.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_groups_knows_what_a_group_has_in_common() {
        let steady = |value: f64| vec![vec![value, value + 0.1]; 3];
        let ratio = ratio_of_groups(&steady(10.0), &steady(9.0)).unwrap();
        assert!(ratio.high < 0.92 && ratio.low > 0.88 && ratio.count == 3, "{ratio:?}");
        // Three boots that differ by more than the change does: no difference is seen.
        let wild = |by: f64| vec![vec![8.0 + by; 50], vec![10.0 + by; 50], vec![12.0 + by; 50]];
        let ratio = ratio_of_groups(&wild(0.0), &wild(-0.5)).unwrap();
        assert!(ratio.low < 1.0 && ratio.high > 1.0, "{ratio:?}");
        assert_eq!(ratio_of_groups(&[], &steady(1.0)), None);
        assert_eq!(ratio_of_groups(&steady(1.0), &[vec![]]), None);
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.75), Some(4.0));
    }

    #[test]
    fn the_interval_covers_the_true_median_about_95_times_of_100() {
        let mut random = StdRng::seed_from_u64(7);
        let covered = (0..400)
            .filter(|_| {
                let values: Vec<f64> = (0..25).map(|_| random.random::<f64>()).collect();
                let e = estimate(&values).unwrap();
                e.low <= 0.5 && 0.5 <= e.high
            })
            .count();
        assert!((360..=400).contains(&covered), "covered {covered} of 400");
    }

    #[test]
    fn spread_is_relative() {
        let spread = log_spread(&[100.0, 110.0]).unwrap();
        assert!((spread - log_spread(&[1000.0, 1100.0]).unwrap()).abs() < 1e-12);
        assert_eq!(log_spread(&[1.0, 0.0]), None);
    }
}
