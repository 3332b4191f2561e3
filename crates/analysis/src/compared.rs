// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What two configurations say together.

use std::collections::BTreeMap;

use cowlab_model::Estimate;
use cowlab_model::stats::{estimate, median, quantile};
use cowlab_schema::Metric;
use cowlab_schema::snapshot::{
    COW_FAULTS, PRECOPY_PAGES, PRECOPY_WASTED, PRECOPY_WRITTEN, PSS_SUM_BYTES, THROUGHPUT_PER_S,
};

use crate::samples::Samples;

pub type Rounds = BTreeMap<u32, f64>;

fn each_times(plain: &Rounds, case: &Rounds) -> impl Iterator<Item = f64> {
    let plain = plain.iter().filter(|(_, value)| **value != 0.0);
    plain.filter_map(|(round, value)| Some(case.get(round)? / value))
}

/// How many times as much the case has, round by round.
pub fn times(plain: &Rounds, case: &Rounds) -> Option<Estimate> {
    estimate(&each_times(plain, case).collect::<Vec<_>>())
}

/// Relative change of a metric, round by round.
pub fn change(plain: &Samples, case: &Samples, metric: Metric) -> Option<Estimate> {
    let (plain, case) = (plain.by_round(metric), case.by_round(metric));
    estimate(&each_times(&plain, &case).map(|times| times - 1.0).collect::<Vec<_>>())
}

/// Two metrics' ratio, round by round.
pub fn ratio(samples: &Samples, above: Metric, below: Metric) -> Option<Estimate> {
    times(&samples.by_round(below), &samples.by_round(above))
}

/// Throughput that forks take, round by round: less than nothing where the round with forks was the
/// faster one.
pub fn lost(reference: &Samples, case: &Samples) -> Rounds {
    let own = case.by_round(THROUGHPUT_PER_S);
    let lost = reference.by_round(THROUGHPUT_PER_S).into_iter();
    lost.filter_map(|(round, whole)| Some((round, whole - own.get(&round)?))).collect()
}

/// Of what plain copy-on-write loses, the part that the case does not: the median of what it saves
/// over the median of what there was to lose; or why there is no such part. Every round counts, also
/// one without a loss: the losses alone that come out above 0 would make a case that does nothing win
/// half of them back.
pub fn won_back(plain: &Rounds, case: &Rounds) -> Result<Estimate, &'static str> {
    let both = plain.iter().filter_map(|(round, lost)| Some((lost - case.get(round)?, *lost)));
    let rounds: Vec<(f64, f64)> = both.collect();
    if rounds.is_empty() {
        return Err("was not measured");
    }
    if rounds.len() < 2 {
        return Err("needs two rounds");
    }
    let medians = |rounds: &[(f64, f64)]| -> Option<(f64, f64)> {
        let (saved, lost): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
        Some((median(&saved)?, median(&lost)?))
    };
    // Both of a round are drawn together: the round of plain copy-on-write is in both.
    let mut random = Random(rounds.len() as u64);
    let drawn: Vec<(f64, f64)> = (0..RESAMPLES)
        .filter_map(|_| {
            let some: Vec<_> = rounds.iter().map(|_| rounds[random.below(rounds.len())]).collect();
            medians(&some)
        })
        .collect();
    let losses: Vec<f64> = drawn.iter().map(|(_, lost)| *lost).collect();
    if quantile(&losses, 0.025).is_none_or(|low| low <= 0.0) {
        return Err("no loss was seen");
    }
    // Fewer than one in forty are without a loss now. Of nothing there is no part.
    let parts: Vec<f64> =
        drawn.iter().filter(|(_, lost)| *lost > 0.0).map(|(saved, lost)| saved / lost).collect();
    let part = || {
        let (saved, lost) = medians(&rounds)?;
        let (low, high) = (quantile(&parts, 0.025)?, quantile(&parts, 0.975)?);
        Some(Estimate { value: saved / lost, low, high, count: rounds.len() })
    };
    part().ok_or("was not measured")
}

/// Resamples of a bootstrap, as many as the model's own.
const RESAMPLES: usize = 2000;

/// SplitMix64 (Steele, Lea, Flood 2014): the same rounds give the same interval.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// The median of one metric over the medians of two, `above / (above + beside)`.
fn share(case: &Samples, above: Metric, beside: Metric) -> Option<f64> {
    let (above, beside) = (case.median(above)?, case.median(beside)?);
    (above + beside > 0.0).then(|| above / (above + beside))
}

/// Pages copied ahead, of all that were copied: Table 1's pre-copy ratio.
pub fn precopied(case: &Samples) -> Option<f64> {
    share(case, PRECOPY_PAGES, COW_FAULTS).filter(|share| *share > 0.0)
}

/// Table 1's estimator: the growth of the footprint over the share that was copied ahead. By PSS:
/// the sum of RSS, which the document names, counts a shared page for each process and so does not
/// grow.
pub fn estimated_waste(plain: &Samples, case: &Samples) -> Option<f64> {
    Some(change(plain, case, PSS_SUM_BYTES)?.value / precopied(case)?)
}

/// Of the pages copied ahead whose end is known, those that were never written.
/// Summed over all that a round did, since a copy's end is counted in a later phase.
pub fn counted_waste(case: &Samples) -> Option<f64> {
    let (wasted, written) = (case.sum_by_round(PRECOPY_WASTED), case.sum_by_round(PRECOPY_WRITTEN));
    let share = |(round, wasted): (u32, f64)| {
        let all = wasted + written.get(&round)?;
        (all > 0.0).then(|| wasted / all)
    };
    median(&wasted.into_iter().filter_map(share).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(values: &[f64]) -> Rounds {
        (0..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn noise_is_no_loss() {
        // Whole, plain and case from one distribution.
        let mut random = Random(7);
        let mut draw = || 1000.0 + random.below(100) as f64;
        let shown = (0..200)
            .filter(|_| {
                let draws: Vec<[f64; 3]> = (0..9).map(|_| [draw(), draw(), draw()]).collect();
                let of = |at: usize| -> Rounds {
                    (0..).zip(draws.iter().map(|[whole, others @ ..]| whole - others[at])).collect()
                };
                won_back(&of(0), &of(1)).is_ok()
            })
            .count();
        // Some five by the interval's own word; it was 100 when only losses counted.
        assert!(shown < 20, "{shown} of 200");
        let plain = rounds(&[5.0, -4.0, 3.0, -6.0]);
        assert_eq!(won_back(&plain, &rounds(&[-1.0, 2.0, 4.0, -3.0])), Err("no loss was seen"));
    }

    #[test]
    fn half_of_a_real_loss_is_half() {
        let (plain, case) = ([40.0, 42.0, 38.0, 41.0, 39.0], [20.0, 21.0, 19.0, 20.5, 19.5]);
        let part = won_back(&rounds(&plain), &rounds(&case)).unwrap();
        assert!((part.value - 0.5).abs() < 1e-9 && part.count == 5, "{part:?}");
        // Paired by round, so that rounds that differ make no interval.
        assert!(part.low > 0.45 && part.high < 0.55, "{part:?}");
    }

    #[test]
    fn a_round_that_contradicts_is_kept() {
        let plain = [40.0, 40.0, 40.0, 40.0, -10.0, 40.0, 40.0, 40.0, 40.0];
        let part = won_back(&rounds(&plain), &rounds(&[20.0; 9])).unwrap();
        assert_eq!((part.value, part.count), (0.5, 9));
    }

    #[test]
    fn one_round_has_no_interval_to_see_a_loss_by() {
        assert_eq!(won_back(&rounds(&[40.0]), &rounds(&[20.0])), Err("needs two rounds"));
        assert_eq!(won_back(&rounds(&[40.0]), &rounds(&[])), Err("was not measured"));
    }
}
