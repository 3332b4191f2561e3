// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A histogram as a curve.

use cowlab_store::Histogram;

use crate::document::Series;

/// The cumulative distribution; `None` of an empty histogram.
pub(crate) fn cdf(name: String, histogram: &Histogram<u64>) -> Option<Series> {
    let total = histogram.len() as f64;
    let steps = histogram.iter_recorded().scan(0, |below, step| {
        *below += step.count_at_value();
        Some((step.value_iterated_to() as f64, *below as f64 / total))
    });
    (total > 0.0).then(|| Series::cdf(name, steps))
}
