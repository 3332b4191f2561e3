// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A histogram as a curve.

use cowlab_store::Histogram;

use crate::document::Series;

/// The cumulative distribution; `None` of an empty histogram.
pub(crate) fn cdf(name: String, histogram: &Histogram<u64>) -> Option<Series> {
    let total = histogram.len() as f64;
    let mut below = 0;
    let (mut x, mut p) = (Vec::new(), Vec::new());
    for step in histogram.iter_recorded() {
        below += step.count_at_value();
        x.push(step.value_iterated_to() as f64);
        p.push(below as f64 / total);
    }
    (total > 0.0).then_some(Series::Cdf { name, x, p })
}
