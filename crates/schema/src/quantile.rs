// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The quantiles of distributions.

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
        /// the most
        Max = "max",
        /// not a quantile, but the mean
        Mean = "mean",
    }
}
