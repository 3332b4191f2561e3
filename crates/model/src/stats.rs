// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Medians with bootstrap intervals.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

/// Resamples of a bootstrap; the interval's ends then vary by a few per mille of its width.
const RESAMPLES: usize = 2000;

/// A median and its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// Lower end of the 95% interval.
    pub low: f64,
    /// Upper end of the 95% interval.
    pub high: f64,
    /// How many measurements it rests on.
    pub count: usize,
}

impl Estimate {
    /// The same estimate in another unit.
    pub fn scaled(self, factor: f64) -> Estimate {
        Estimate {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
            count: self.count,
        }
    }
}

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
