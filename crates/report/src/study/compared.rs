// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What two configurations say together.

use cowlab_model::Estimate;
use cowlab_model::stats::estimate;

use super::picked::Picked;

/// Relative change of a metric, round by round.
pub(super) fn change(plain: &Picked, case: &Picked, metric: &str) -> Option<Estimate> {
    let own = case.by_round(metric);
    let changes: Vec<f64> = plain
        .by_round(metric)
        .into_iter()
        .filter(|(_, value)| *value != 0.0)
        .filter_map(|(round, value)| Some(own.get(&round)? / value - 1.0))
        .collect();
    estimate(&changes)
}

/// Of the throughput that plain copy-on-write loses in a round, the part that the case does not.
pub(super) fn won_back(reference: &Picked, plain: &Picked, case: &Picked) -> Option<Estimate> {
    let metric = "throughput_per_s";
    let (plain, case) = (plain.by_round(metric), case.by_round(metric));
    let parts: Vec<f64> = reference
        .by_round(metric)
        .into_iter()
        .filter_map(|(round, whole)| {
            let (plain, case) = (plain.get(&round)?, case.get(&round)?);
            (whole > *plain).then(|| (case - plain) / (whole - plain))
        })
        .collect();
    estimate(&parts)
}

/// The median of one metric over the medians of two, `above / (above + beside)`.
fn share(case: &Picked, above: &str, beside: &str) -> Option<f64> {
    let value = |metric: &str| case.estimate(metric).map(|e| e.value);
    let (above, beside) = (value(above)?, value(beside)?);
    (above + beside > 0.0).then(|| above / (above + beside))
}

/// Pages copied ahead, of all that were copied: Table 1's pre-copy ratio.
pub(super) fn precopied(case: &Picked) -> Option<f64> {
    share(case, "precopy_pages", "cow_faults").filter(|share| *share > 0.0)
}

/// Table 1's estimator: the growth of the footprint over the share that was copied ahead. By PSS:
/// the sum of RSS, which the document names, counts a shared page for each process and so does not
/// grow.
pub(super) fn estimated_waste(plain: &Picked, case: &Picked) -> Option<f64> {
    Some(change(plain, case, "pss_sum_bytes")?.value / precopied(case)?)
}

/// Of the pages copied ahead whose end is known, those that were never written.
pub(super) fn counted_waste(case: &Picked) -> Option<f64> {
    share(case, "precopy_wasted", "precopy_written")
}
