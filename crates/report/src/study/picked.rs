// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples picked by what they measure.

use std::collections::BTreeMap;

use cowlab_model::Estimate;
use cowlab_model::stats::{estimate, median};
use cowlab_store::{Histogram, Params, Sample, deserialise};

/// Some of a run's samples, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Picked<'a>(Vec<&'a Sample>);

impl<'a> Picked<'a> {
    /// Those of one bench.
    pub(super) fn of(samples: &'a [Sample], bench: &str) -> Self {
        Picked(samples.iter().filter(|sample| sample.bench == bench).collect())
    }

    /// Those of one environment.
    pub(super) fn in_environment(&self, index: u32) -> Self {
        Picked(self.0.iter().copied().filter(|sample| sample.environment == index).collect())
    }

    /// These and those.
    pub(super) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Those whose parameter `key` is `value`.
    pub(super) fn with(&self, key: &str, value: impl ToString) -> Self {
        let value = value.to_string();
        let has = |sample: &&Sample| sample.params.get(key).is_some_and(|own| *own == value);
        Picked(self.0.iter().copied().filter(has).collect())
    }

    /// Those of one metric.
    pub(super) fn of_metric(&self, metric: &str) -> Self {
        Picked(self.0.iter().copied().filter(|sample| sample.metric == metric).collect())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The values of one metric.
    pub(super) fn values(&self, metric: &str) -> Vec<f64> {
        self.0.iter().filter(|s| s.metric == metric).map(|s| s.value).collect()
    }

    /// The median of one metric, with its interval.
    pub(super) fn estimate(&self, metric: &str) -> Option<Estimate> {
        estimate(&self.values(metric))
    }

    /// Two metrics of the same invocations.
    pub(super) fn pairs(&self, first: &str, second: &str) -> Vec<(f64, f64)> {
        let of = |metric: &str| -> BTreeMap<(&Params, i64, u32), f64> {
            let found = self.0.iter().filter(|s| s.metric == metric);
            found.map(|s| ((&s.params, s.start_unix_ns, s.rep), s.value)).collect()
        };
        let seconds = of(second);
        of(first).iter().filter_map(|(key, a)| Some((*a, *seconds.get(key)?))).collect()
    }

    /// One metric by round; the median where a round has several.
    pub(super) fn by_round(&self, metric: &str) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for sample in self.0.iter().filter(|s| s.metric == metric) {
            rounds.entry(sample.rep).or_default().push(sample.value);
        }
        rounds.into_iter().filter_map(|(rep, values)| Some((rep, median(&values)?))).collect()
    }

    /// The sum of one metric by round.
    pub(super) fn sum_by_round(&self, metric: &str) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, f64> = BTreeMap::new();
        for sample in self.0.iter().filter(|s| s.metric == metric) {
            *rounds.entry(sample.rep).or_default() += sample.value;
        }
        rounds
    }

    /// The median of the rounds' medians, with the interval of the rounds: what one round has many
    /// of is not as many independent measurements. Of one round the interval says nothing.
    pub(super) fn estimate_of_rounds(&self, metric: &str) -> Option<Estimate> {
        estimate(&self.by_round(metric).into_values().collect::<Vec<_>>())
    }

    /// The values that a parameter has, in the order of their first samples.
    pub(super) fn words(&self, key: &str) -> Vec<&'a str> {
        let mut found = Vec::new();
        for value in self.0.iter().filter_map(|s| s.params.get(key)) {
            if !found.contains(&value.as_str()) {
                found.push(value.as_str());
            }
        }
        found
    }

    /// The values that a numeric parameter has, ascending.
    pub(super) fn numbers(&self, key: &str) -> Vec<u64> {
        let mut found: Vec<u64> =
            self.0.iter().filter_map(|s| s.params.get(key)?.parse().ok()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The same samples by their parameters, of which `without` is left out.
    pub(super) fn by_params(&self, without: &str) -> Vec<(Params, Picked<'a>)> {
        let mut groups: BTreeMap<Params, Vec<&'a Sample>> = BTreeMap::new();
        for sample in &self.0 {
            let mut params = sample.params.clone();
            params.remove(without);
            groups.entry(params).or_default().push(sample);
        }
        groups.into_iter().map(|(params, samples)| (params, Picked(samples))).collect()
    }

    /// How many rounds were made.
    pub(super) fn rounds(&self) -> usize {
        let mut rounds: Vec<u32> = self.0.iter().map(|sample| sample.rep).collect();
        rounds.sort_unstable();
        rounds.dedup();
        rounds.len()
    }

    /// Every distribution among them, merged. Damaged ones are left out.
    pub(super) fn distribution(&self) -> Option<Histogram<u64>> {
        let mut stored =
            self.0.iter().filter_map(|sample| deserialise(sample.histogram.as_deref()?).ok());
        let mut merged = stored.next()?;
        // A round may hold longer times than the first one has room for.
        merged.auto(true);
        for histogram in stored {
            merged.add(histogram).ok()?;
        }
        Some(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Cell;
    use crate::study::cells::of_rounds;

    /// So many of each round, all but the same.
    fn samples(rounds: &[f64]) -> Vec<Sample> {
        let of = |(rep, middle): (u32, &f64)| {
            let value = |at: u32| *middle + f64::from(at % 3) - 1.0;
            let one =
                |at| Sample { rep, ..Sample::new("x", Params::default(), "fork_ns", value(at)) };
            (0..99).map(one).collect::<Vec<_>>()
        };
        (0..).zip(rounds).flat_map(of).collect()
    }

    #[test]
    fn what_a_round_has_in_common_is_not_taken_for_many_measurements() {
        let all = samples(&[100.0, 200.0, 300.0]);
        let cell = of_rounds(&Picked::of(&all, "x"), "fork_ns", "ns", "");
        let Cell::Estimate { value, low, high, .. } = cell else { panic!("{cell:?}") };
        assert_eq!((low, value, high), (100.0, 200.0, 300.0));
    }

    #[test]
    fn one_round_has_a_value_and_no_interval() {
        let all = samples(&[100.0]);
        let cell = of_rounds(&Picked::of(&all, "x"), "fork_ns", "ns", "");
        assert!(matches!(cell, Cell::Number { value: 100.0, .. }), "{cell:?}");
        let cell = of_rounds(&Picked::default(), "fork_ns", "ns", "was not measured");
        assert!(matches!(cell, Cell::Missing(_)), "{cell:?}");
    }
}
