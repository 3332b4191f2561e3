// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distributions: HDR histograms with three significant digits, serialised as V2.

use anyhow::{Context, Result};
use cowlab_schema::Quantile;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

/// A histogram of `values`, from 1 up and without an upper bound.
pub fn histogram_of(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).expect("three significant digits are allowed");
    for value in values {
        histogram.record(value).expect("an auto-resizing histogram takes every value");
    }
    histogram
}

/// The value at a quantile; of the mean, the mean.
pub fn value_at(histogram: &Histogram<u64>, quantile: Quantile) -> u64 {
    match quantile {
        Quantile::Min => histogram.min(),
        Quantile::Max => histogram.max(),
        _ => match quantile.share() {
            Some(share) => histogram.value_at_quantile(share),
            None => histogram.mean() as u64,
        },
    }
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
        for quantile in cowlab_schema::QUANTILES {
            assert_eq!(value_at(&before, quantile), value_at(&after, quantile));
        }
        assert_eq!(value_at(&after, Quantile::P50), 500);
        assert_eq!(value_at(&after, Quantile::P99_9), 999);
        assert!(deserialise(&serialise(&before)[..20]).is_err());
    }
}
