// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Count, sum, squares and distribution of durations, kept as whole ticks.

use hdrhistogram::Histogram;

/// What is known about many durations.
#[derive(Debug, Clone, Default)]
pub struct Moments {
    /// How many.
    pub count: u64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
    sum: u128,
    squares: u128,
    histogram: Option<Histogram<u32>>,
}

impl Moments {
    /// Add one. `distribution`: keep its place among the others as well, to 1%.
    #[inline]
    pub fn add(&mut self, value: u64, distribution: bool) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        self.squares = self.squares.saturating_add(u128::from(value) * u128::from(value));
        if distribution {
            let new = || Histogram::new(2).ok();
            if self.histogram.is_none() {
                self.histogram = new();
            }
            if let Some(histogram) = &mut self.histogram {
                // Fails only if it cannot grow; saturating_record would not let it grow at all.
                let _ = histogram.record(value);
            }
        }
    }

    /// The sum.
    pub fn sum(&self) -> f64 {
        self.sum as f64
    }

    /// The mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The variance of a sample; `None` under two values.
    pub fn variance(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let count = self.count as f64;
        // In integers where they hold it, since the difference is of large and almost equal numbers.
        let difference = match (
            self.squares.checked_mul(u128::from(self.count)),
            self.sum.checked_mul(self.sum),
        ) {
            (Some(a), Some(b)) => a.saturating_sub(b) as f64 / count,
            _ => (self.squares as f64 - self.sum as f64 * (self.sum as f64 / count)).max(0.0),
        };
        Some(difference / (count - 1.0))
    }

    /// The value below which a share of them lie; `None` where the distribution was not kept.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let histogram = self.histogram.as_ref()?;
        // A bucket's upper end may lie above all that is in it.
        Some(histogram.value_at_quantile(share).clamp(self.min, self.max))
    }

    /// Points of the cumulative distribution: value, and share of those at or below it.
    pub fn cumulative(&self) -> Vec<(u64, f64)> {
        let Some(histogram) = &self.histogram else { return Vec::new() };
        let mut below = 0;
        let all = histogram.len().max(1) as f64;
        let mut points = Vec::new();
        for bucket in histogram.iter_recorded() {
            below += bucket.count_since_last_iteration();
            points.push((bucket.value_iterated_to().clamp(self.min, self.max), below as f64 / all));
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::Moments;

    #[test]
    fn moments_are_those_of_the_values() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.variance(), moments.quantile(0.5)), (None, None, None));
        for value in 1..=100 {
            moments.add(value, true);
        }
        assert_eq!((moments.min, moments.max, moments.mean()), (1, 100, Some(50.5)));
        assert!((moments.variance().unwrap() - 841.666_666).abs() < 1e-3);
        assert_eq!((moments.quantile(0.5), moments.quantile(0.99)), (Some(50), Some(99)));
        assert_eq!(moments.cumulative().last(), Some(&(100, 1.0)));
    }

    #[test]
    fn large_values_do_not_overflow() {
        let mut moments = Moments::default();
        for value in 0..=4_000_000 {
            moments.add(value, true);
        }
        let median = moments.quantile(0.5).unwrap();
        assert!((1_980_000..2_020_000).contains(&median), "{median}");
        for _ in 0..10 {
            moments.add(u64::MAX, true);
            moments.add(0, true);
        }
        assert!(moments.variance().unwrap().is_finite());
        assert_eq!(moments.max, u64::MAX);
    }
}
