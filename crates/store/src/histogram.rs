// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distributions: HDR histograms with three significant digits, serialised as V2.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

/// The quantiles that reports quote, with their names in the parameter `quantile`.
pub const QUANTILES: [(&str, f64); 7] = [
    ("min", 0.0),
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("max", 1.0),
];

/// A histogram of `values`, from 1 up and without an upper bound.
pub fn histogram_of(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).expect("three significant digits are allowed");
    for value in values {
        histogram.record(value).expect("an auto-resizing histogram takes every value");
    }
    histogram
}

/// The bytes for the `histogram` column.
pub fn serialise(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(histogram, &mut bytes).expect("writing to memory does not fail");
    bytes
}

/// The histogram in the bytes of the `histogram` column.
pub fn deserialise(bytes: &[u8]) -> Result<Histogram<u64>> {
    Deserializer::new()
        .deserialize(&mut &bytes[..])
        .ok()
        .context("a stored histogram is cut or damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_survive_serialisation() {
        let before = histogram_of(1..=1000);
        let after = deserialise(&serialise(&before)).unwrap();
        for (_, quantile) in QUANTILES {
            assert_eq!(before.value_at_quantile(quantile), after.value_at_quantile(quantile));
        }
        assert_eq!(after.value_at_quantile(0.5), 500);
        assert!(deserialise(&serialise(&before)[..20]).is_err());
    }
}
