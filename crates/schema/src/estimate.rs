// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A median with its interval.

use serde::{Deserialize, Serialize};

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
    /// The standard deviation of single measurements, from the interval of their median, which for a
    /// normal distribution is 2 x 1.96 x 1.253 deviations wide over the root of their number.
    pub fn deviation(&self) -> f64 {
        (self.high - self.low) * (self.count as f64).sqrt() / 4.91
    }

    /// The same estimate in another unit.
    pub fn scaled(self, factor: f64) -> Estimate {
        self.map(|value| value * factor)
    }

    /// What a function that never falls makes of it.
    pub fn map(self, of: impl Fn(f64) -> f64) -> Estimate {
        let Estimate { value, low, high, count } = self;
        Estimate { value: of(value), low: of(low), high: of(high), count }
    }
}
