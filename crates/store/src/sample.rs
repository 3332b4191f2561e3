// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One measurement, and the parameters that it was made with.

use cowlab_schema::Metric;
pub use cowlab_schema::Params;
use serde::{Deserialize, Serialize};

/// One line of `samples.ndjson.gz`, and one element of `samples` in `--json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    #[serde(default)]
    pub environment: u32,
    /// The benchmark: `fork-sweep`, `cow-faults`, …
    pub bench: String,
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
    /// For a distribution, of which `value` is the median: an HDR histogram (V2, in `unit`), in JSON as base64.
    #[serde(default, with = "base64_text", skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Vec<u8>>,
}

mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| STANDARD.encode(bytes)).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| STANDARD.decode(text)).transpose().map_err(D::Error::custom)
    }
}

impl Sample {
    /// A figure of the metric's bench; of the first repetition, at no known time.
    pub fn of(metric: Metric, params: Params, value: f64) -> Sample {
        Sample {
            environment: 0,
            bench: metric.bench.to_owned(),
            params,
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            value,
            rep: 0,
            start_unix_ns: 0,
            histogram: None,
        }
    }
}

/// Something that could not be measured, and why. Absent figures are never 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    pub metric: String,
    pub reason: String,
}
