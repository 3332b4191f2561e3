// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Distributions: HDR histograms with three significant digits, serialised as V2.

use anyhow::{Result, anyhow};
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

/// The first bytes of a histogram that is not compressed.
const V2_COOKIE: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];
/// The header: cookie, length of the rest, offset, digits, lowest and highest value, ratio.
const HEADER_BYTES: usize = 40;

/// The histogram in the bytes of the `histogram` column. The library allocates what the header
/// declares before it reads anything, so that must be what is there.
pub fn deserialise(bytes: &[u8]) -> Result<Histogram<u64>> {
    let declared = bytes.get(4..8).map(|length| length.iter().fold(0, |n, b| n << 8 | *b as usize));
    let is_ours = bytes.starts_with(&V2_COOKIE)
        && declared == bytes.len().checked_sub(HEADER_BYTES)
        && bytes.get(12..16) == Some(&[0, 0, 0, 3]);
    let found = is_ours.then(|| Deserializer::new().deserialize(&mut &bytes[..]).ok()).flatten();
    // The library's sum of all counts stops there, and quantiles wrap around.
    let found = found.filter(|histogram: &Histogram<u64>| histogram.len() < u64::MAX);
    found.ok_or_else(|| anyhow!("a stored histogram is cut or damaged"))
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
        let whole = serialise(&before);
        for length in 0..whole.len() {
            assert!(deserialise(&whole[..length]).is_err(), "cut at {length}");
        }
        let wraps = include_bytes!("../../../fuzz/corpus/histogram/found-more-than-u64");
        assert!(deserialise(wraps).is_err(), "counts that do not fit");
        for (at, other) in [(0, 0), (4, 0xff), (7, 0), (15, 5)] {
            let mut changed = whole.clone();
            changed[at] = other;
            assert!(deserialise(&changed).is_err(), "byte {at} is {other}");
        }
    }
}
