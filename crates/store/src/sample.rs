// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One measurement, and the parameters that it was made with.

use cowlab_schema::Metric;
pub use cowlab_schema::Params;
use serde::{Deserialize, Serialize};

/// One row of `samples.parquet`, and one element of `samples` in `--json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Index into the run's environments.
    #[serde(default)]
    pub environment: u32,
    /// The benchmark: `fork-sweep`, `cow-faults`, …
    pub bench: String,
    /// What was asked of it.
    pub params: Params,
    /// What was measured; its last word is the unit.
    pub metric: String,
    /// `ns`, `bytes`, `pages`, `per_s`, `faults`, `ratio`, …
    pub unit: String,
    /// The figure, in `unit`.
    pub value: f64,
    /// The repetition, from 0. Equal numbers were measured in the same round of the run.
    pub rep: u32,
    /// When the measurement started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    /// For a distribution, of which `value` is the median: an HDR histogram (V2, in `unit`).
    #[serde(skip)]
    pub histogram: Option<Vec<u8>>,
}

impl Sample {
    /// A figure in the unit that the metric's name ends with; of the first repetition, at no known
    /// time.
    pub fn new(bench: &str, params: Params, metric: impl Named, value: f64) -> Sample {
        Sample {
            environment: 0,
            bench: bench.to_owned(),
            params,
            metric: metric.name().to_owned(),
            unit: metric.unit().to_owned(),
            value,
            rep: 0,
            start_unix_ns: 0,
            histogram: None,
        }
    }
}

/// A metric's name and unit.
pub trait Named {
    /// Its name.
    fn name(&self) -> &str;
    /// Its unit.
    fn unit(&self) -> &str;
}

impl Named for &str {
    fn name(&self) -> &str {
        self
    }
    fn unit(&self) -> &str {
        unit_of(self)
    }
}

impl Named for &String {
    fn name(&self) -> &str {
        self
    }
    fn unit(&self) -> &str {
        unit_of(self)
    }
}

impl Named for Metric {
    fn name(&self) -> &str {
        self.name
    }
    fn unit(&self) -> &str {
        self.unit
    }
}

/// Something that could not be measured, and why. Absent figures are never 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// The benchmark or metric.
    pub metric: String,
    /// Why, and what would help.
    pub reason: String,
}

/// The unit that a metric's name ends with: `fork_ns` → `ns`, `rate_per_s` → `per_s`.
pub fn unit_of(metric: &str) -> &str {
    const COMPOUND: [&str; 7] = [
        "ns_per_page",
        "ns_per_huge_page",
        "bytes_per_page",
        "bytes_per_s",
        "per_s",
        "pages_per_fault",
        "faults_per_fork",
    ];
    match COMPOUND.iter().find(|unit| metric.ends_with(*unit)) {
        Some(unit) => unit,
        None => {
            let last = metric.rsplit('_').next().unwrap_or(metric);
            match last {
                "written" | "mapped" | "wasted" | "unknown" | "attempts" | "success" => "pages",
                _ => last,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::unit_of;

    #[test]
    fn a_metrics_name_ends_with_its_unit() {
        for (metric, unit) in [
            ("fork_ns", "ns"),
            ("pte_ns_per_page", "ns_per_page"),
            ("memcpy_bytes_per_s", "bytes_per_s"),
            ("rate_per_s", "per_s"),
            ("pages_written", "pages"),
            ("minor_faults", "faults"),
            ("precopy_wasted", "pages"),
            ("flushes", "flushes"),
            ("extra_bytes", "bytes"),
        ] {
            assert_eq!(unit_of(metric), unit, "{metric}");
        }
    }
}
