// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples picked by what they measure.

use std::collections::{BTreeMap, BTreeSet};

use cowlab_model::Estimate;
use cowlab_model::stats::{estimate, median};
use cowlab_schema::{Cell, Field, Is, Key, Stored, Value};
use cowlab_store::{Histogram, Named, Params, Sample, deserialise};

/// A parameter's name.
pub trait Called {
    /// As samples have it.
    fn name(&self) -> &str;
}

/// A parameter with values of the kind `V`.
pub trait Param<V>: Called {
    /// The value, as samples have it.
    fn stored(&self, value: &V) -> String;
}

impl<T: Value> Called for Key<T> {
    fn name(&self) -> &str {
        Key::name(self)
    }
}

impl<T: Value, V: Is<T>> Param<V> for Key<T> {
    fn stored(&self, value: &V) -> String {
        value.stored().into_owned()
    }
}

impl Called for &str {
    fn name(&self) -> &str {
        self
    }
}

impl<V: ToString> Param<V> for &str {
    fn stored(&self, value: &V) -> String {
        value.to_string()
    }
}

/// Some of a run's samples, in their order.
#[derive(Debug, Clone, Default)]
pub struct Picked<'a>(Vec<&'a Sample>);

impl<'a> Picked<'a> {
    /// Every sample.
    pub fn all(samples: &'a [Sample]) -> Self {
        Picked(samples.iter().collect())
    }

    /// Those of one bench.
    pub fn of(samples: &'a [Sample], bench: &str) -> Self {
        Picked::all(samples).of_bench(bench)
    }

    /// One more.
    pub(crate) fn push(&mut self, sample: &'a Sample) {
        self.0.push(sample);
    }

    /// Of these, those of one bench.
    pub fn of_bench(&self, bench: &str) -> Self {
        Picked(self.0.iter().copied().filter(|sample| sample.bench == bench).collect())
    }

    /// The same by their environments.
    pub fn by_environment(&self) -> Vec<(u32, Picked<'a>)> {
        let found: BTreeSet<u32> = self.0.iter().map(|sample| sample.environment).collect();
        found.into_iter().map(|index| (index, self.in_environment(index))).collect()
    }

    /// Those of one environment.
    pub fn in_environment(&self, index: u32) -> Self {
        Picked(self.0.iter().copied().filter(|sample| sample.environment == index).collect())
    }

    /// These and those.
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Those whose parameter `key` is `value`.
    pub fn with<V>(&self, key: impl Param<V>, value: V) -> Self {
        let value = key.stored(&value);
        let has = |sample: &&Sample| sample.params.get(key.name()) == Some(&value);
        Picked(self.0.iter().copied().filter(has).collect())
    }

    /// Those of a bench's cell, whatever the parameters `free` are. What a run of before did not
    /// store was the default.
    pub fn of_cell(&self, cell: &impl Cell, free: &[&str]) -> Self {
        let mut values = cell.values();
        values
            .retain(|(field, _)| field.stored() != Stored::Never && !free.contains(&field.name()));
        let has = |sample: &Sample, field: &dyn Field, text: &str| {
            sample.params.get(field.name()).map_or(field.is_default(text), |own| own == text)
        };
        let all = |sample: &&Sample| values.iter().all(|(field, text)| has(sample, *field, text));
        Picked(self.0.iter().copied().filter(all).collect())
    }

    /// Those that have no parameter `key`.
    pub fn without(&self, key: &str) -> Self {
        let has_none = |sample: &&Sample| !sample.params.contains_key(key);
        Picked(self.0.iter().copied().filter(has_none).collect())
    }

    /// Those of one metric.
    pub fn of_metric(&self, metric: impl Named) -> Self {
        Picked(self.0.iter().copied().filter(|sample| sample.metric == metric.name()).collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values of one metric.
    pub fn values(&self, metric: impl Named) -> Vec<f64> {
        self.0.iter().filter(|s| s.metric == metric.name()).map(|s| s.value).collect()
    }

    /// The median of one metric, with its interval.
    pub fn estimate(&self, metric: impl Named) -> Option<Estimate> {
        estimate(&self.values(metric))
    }

    /// Two metrics of the same invocations.
    pub fn pairs(&self, first: impl Named, second: impl Named) -> Vec<(f64, f64)> {
        let of = |metric: &dyn Named| -> BTreeMap<(&Params, i64, u32), f64> {
            let found = self.0.iter().filter(|s| s.metric == metric.name());
            found.map(|s| ((&s.params, s.start_unix_ns, s.rep), s.value)).collect()
        };
        let seconds = of(&second);
        of(&first).iter().filter_map(|(key, a)| Some((*a, *seconds.get(key)?))).collect()
    }

    /// One metric by round; the median where a round has several.
    pub fn by_round(&self, metric: impl Named) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for sample in self.0.iter().filter(|s| s.metric == metric.name()) {
            rounds.entry(sample.rep).or_default().push(sample.value);
        }
        rounds.into_iter().filter_map(|(rep, values)| Some((rep, median(&values)?))).collect()
    }

    /// The sum of one metric by round.
    pub fn sum_by_round(&self, metric: impl Named) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, f64> = BTreeMap::new();
        for sample in self.0.iter().filter(|s| s.metric == metric.name()) {
            *rounds.entry(sample.rep).or_default() += sample.value;
        }
        rounds
    }

    /// The median of the rounds' medians, with the interval of the rounds: what one round has many
    /// of is not as many independent measurements. Of one round the interval says nothing.
    pub fn estimate_of_rounds(&self, metric: impl Named) -> Option<Estimate> {
        estimate(&self.by_round(metric).into_values().collect::<Vec<_>>())
    }

    /// The values that a parameter has, in the order of their first samples.
    pub fn words(&self, key: impl Called) -> Vec<&'a str> {
        let mut found = Vec::new();
        for value in self.0.iter().filter_map(|s| s.params.get(key.name())) {
            if !found.contains(&value.as_str()) {
                found.push(value.as_str());
            }
        }
        found
    }

    /// The values that a numeric parameter has, ascending.
    pub fn numbers(&self, key: impl Called) -> Vec<u64> {
        let mut found: Vec<u64> =
            self.0.iter().filter_map(|s| s.params.get(key.name())?.parse().ok()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The same samples by their parameters, of which `without` is left out.
    pub fn by_params(&self, without: &[&str]) -> Vec<(Params, Picked<'a>)> {
        let mut groups: BTreeMap<Params, Vec<&'a Sample>> = BTreeMap::new();
        for sample in &self.0 {
            let mut params = sample.params.clone();
            params.retain(|key, _| !without.contains(&key.as_str()));
            groups.entry(params).or_default().push(sample);
        }
        groups.into_iter().map(|(params, samples)| (params, Picked(samples))).collect()
    }

    /// How many rounds were made.
    pub fn rounds(&self) -> usize {
        let mut rounds: Vec<u32> = self.0.iter().map(|sample| sample.rep).collect();
        rounds.sort_unstable();
        rounds.dedup();
        rounds.len()
    }

    /// Every distribution among them, merged. Damaged ones are left out.
    pub fn distribution(&self) -> Option<Histogram<u64>> {
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
