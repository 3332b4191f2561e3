// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The quantiles of distributions.

use crate::Key;
use crate::choice::choices;

choices! {
    /// A quantile, by its name in samples.
    Quantile, "quantile", {
        /// the least
        Min = "min",
        /// of 1%
        P1 = "p1",
        /// of 5%
        P5 = "p5",
        /// of 10%
        P10 = "p10",
        /// of a quarter
        P25 = "p25",
        /// the median
        P50 = "p50",
        /// of three quarters
        P75 = "p75",
        /// of 90%
        P90 = "p90",
        /// of 95%
        P95 = "p95",
        /// of 99%
        P99 = "p99",
        /// of 99.9%
        P99_9 = "p99.9",
        /// of 99.99%
        P99_99 = "p99.99",
        /// the most
        Max = "max",
        /// not a quantile, but the mean
        Mean = "mean",
    }
}

/// The quantile of a distribution, in every bench that has any.
pub const QUANTILE: Key<Quantile> = Key::new("quantile", "Of a distribution");

/// The quantiles that reports quote.
pub const QUANTILES: [Quantile; 7] = [
    Quantile::Min,
    Quantile::P50,
    Quantile::P90,
    Quantile::P95,
    Quantile::P99,
    Quantile::P99_9,
    Quantile::Max,
];

impl Quantile {
    /// Its share of the values; `None` for the mean.
    pub fn share(self) -> Option<f64> {
        match self {
            Quantile::Min => Some(0.0),
            Quantile::Max => Some(1.0),
            Quantile::Mean => None,
            // Parsed, since 99.9 / 100 is more than 0.999.
            _ => format!("{}e-2", self.name().strip_prefix('p')?).parse().ok(),
        }
    }
}
