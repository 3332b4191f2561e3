// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples picked by what they measure.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};

use cowlab_model::Estimate;
use cowlab_model::stats::{estimate, median};
use cowlab_schema::{Bench, Cell, Field, Is, Key, Metric, Stored, Value};
use cowlab_store::{Histogram, Params, Sample, deserialise};

thread_local! {
    /// The samples whose values were taken, while a test asks.
    static TAKEN: RefCell<Option<HashSet<*const Sample>>> = const { RefCell::new(None) };
}

fn value(sample: &Sample) -> f64 {
    TAKEN.with_borrow_mut(|taken| taken.as_mut().map(|taken| taken.insert(sample)));
    sample.value
}

fn histogram(sample: &Sample) -> Option<&[u8]> {
    value(sample);
    sample.histogram.as_deref()
}

/// Of each sample, whether `work` took its value: a report shows nothing of the others.
pub fn taken_by(samples: &[Sample], work: impl FnOnce()) -> Vec<bool> {
    TAKEN.set(Some(HashSet::new()));
    work();
    let taken = TAKEN.take().unwrap_or_default();
    samples.iter().map(|sample| taken.contains(&std::ptr::from_ref(sample))).collect()
}

/// Some of a run's samples, in their order.
#[derive(Debug, Clone, Default)]
pub struct Samples<'a>(Vec<&'a Sample>);

impl<'a> Samples<'a> {
    pub fn all(samples: &'a [Sample]) -> Self {
        Samples(samples.iter().collect())
    }

    pub fn of(samples: &'a [Sample], bench: &Bench) -> Self {
        Samples::all(samples).of_bench(bench)
    }

    fn filtered(&self, is_one: impl Fn(&Sample) -> bool) -> Self {
        Samples(self.0.iter().copied().filter(|sample| is_one(sample)).collect())
    }

    /// Of these, those of one bench.
    pub fn of_bench(&self, bench: &Bench) -> Self {
        self.filtered(|sample| sample.bench == bench.name)
    }

    /// The same in groups, in the order of what `key` makes of them.
    pub fn grouped<K: Ord>(&self, key: impl Fn(&Sample) -> K) -> BTreeMap<K, Samples<'a>> {
        let mut groups: BTreeMap<K, Samples> = BTreeMap::new();
        for sample in &self.0 {
            groups.entry(key(sample)).or_default().0.push(sample);
        }
        groups
    }

    pub fn in_environment(&self, index: u32) -> Self {
        self.filtered(|sample| sample.environment == index)
    }

    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Those whose parameter `key` is `value`.
    pub fn with<T: Value>(&self, key: Key<T>, value: impl Is<T>) -> Self {
        let value = value.stored();
        self.filtered(|sample| sample.params.get(key.name()).is_some_and(|own| *own == value))
    }

    /// Those whose parameter `key` is anything but `value`, or that have none.
    pub fn not_with<T: Value>(&self, key: Key<T>, value: impl Is<T>) -> Self {
        let value = value.stored();
        self.filtered(|sample| sample.params.get(key.name()).is_none_or(|own| *own != value))
    }

    /// Those of a bench's cell, whatever the parameters `free` are. What a run of before did not
    /// store was the default.
    pub fn of_cell(&self, cell: &impl Cell, free: &[&dyn Field]) -> Self {
        let is_free = |field: &dyn Field| free.iter().any(|of| of.name() == field.name());
        let mut values = cell.values();
        values.retain(|(field, _)| field.stored() != Stored::Never && !is_free(*field));
        let has = |sample: &Sample, field: &dyn Field, text: &str| {
            sample.params.get(field.name()).map_or(field.is_default(text), |own| own == text)
        };
        self.filtered(|sample| values.iter().all(|(field, text)| has(sample, *field, text)))
    }

    /// Those that have no parameter `key`.
    pub fn without<T: Value>(&self, key: Key<T>) -> Self {
        self.filtered(|sample| !sample.params.contains_key(key.name()))
    }

    pub fn of_metric(&self, metric: Metric) -> Self {
        self.filtered(|sample| sample.metric == metric.name)
    }

    /// Each, for what counts them: to count is not to show.
    pub(crate) fn unshown(&self) -> impl Iterator<Item = &'a Sample> {
        self.0.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn having<'s>(&'s self, metric: Metric) -> impl Iterator<Item = &'a Sample> + use<'s, 'a> {
        self.0.iter().copied().filter(move |sample| sample.metric == metric.name)
    }

    pub fn values(&self, metric: Metric) -> Vec<f64> {
        self.having(metric).map(value).collect()
    }

    /// The first value of one metric, of which there is one.
    pub fn first(&self, metric: Metric) -> Option<f64> {
        self.having(metric).next().map(value)
    }

    pub fn largest(&self, metric: Metric) -> Option<f64> {
        self.having(metric).map(value).reduce(f64::max)
    }

    pub fn median(&self, metric: Metric) -> Option<f64> {
        median(&self.values(metric))
    }

    /// The median of one metric, with its interval.
    pub fn estimate(&self, metric: Metric) -> Option<Estimate> {
        estimate(&self.values(metric))
    }

    /// The median of all of them, which are of one metric.
    pub(crate) fn estimate_of_all(&self) -> Option<Estimate> {
        estimate(&self.0.iter().copied().map(value).collect::<Vec<_>>())
    }

    /// Two metrics of the same invocations.
    pub fn pairs(&self, first: Metric, second: Metric) -> Vec<(f64, f64)> {
        let of = |metric: Metric| -> BTreeMap<(&Params, i64, u32), f64> {
            self.having(metric).map(|s| ((&s.params, s.start_unix_ns, s.rep), value(s))).collect()
        };
        let seconds = of(second);
        of(first).iter().filter_map(|(key, a)| Some((*a, *seconds.get(key)?))).collect()
    }

    /// One metric by round; the median where a round has several.
    pub fn by_round(&self, metric: Metric) -> BTreeMap<u32, f64> {
        self.of_metric(metric).all_by_round()
    }

    /// All of them, which are of one metric, by round.
    pub fn all_by_round(&self) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for sample in &self.0 {
            rounds.entry(sample.rep).or_default().push(value(sample));
        }
        rounds.into_iter().filter_map(|(rep, values)| Some((rep, median(&values)?))).collect()
    }

    pub fn sum_by_round(&self, metric: Metric) -> BTreeMap<u32, f64> {
        let mut rounds: BTreeMap<u32, f64> = BTreeMap::new();
        for sample in self.having(metric) {
            *rounds.entry(sample.rep).or_default() += value(sample);
        }
        rounds
    }

    /// The values that a parameter has, in the order of their first samples.
    pub fn words<T: Value>(&self, key: Key<T>) -> Vec<&'a str> {
        let mut found = Vec::new();
        for value in self.0.iter().filter_map(|s| s.params.get(key.name())) {
            if !found.contains(&value.as_str()) {
                found.push(value.as_str());
            }
        }
        found
    }

    /// The same as what they are; none that is no such value.
    pub fn each<T: Value>(&self, key: Key<T>) -> Vec<T> {
        self.words(key).into_iter().filter_map(|word| T::parse(word).ok()).collect()
    }

    /// The same, ascending.
    pub fn numbers<T: Value + Ord>(&self, key: Key<T>) -> Vec<T> {
        let mut found = self.each(key);
        found.sort_unstable();
        found
    }

    /// Those that have a parameter, by its values in the order of their first samples.
    pub fn by<T: Value>(&self, key: Key<T>) -> Vec<(&'a str, Samples<'a>)> {
        let is = |sample: &Sample, word: &str| {
            sample.params.get(key.name()).is_some_and(|own| own == word)
        };
        let of = |word| (word, self.filtered(|sample| is(sample, word)));
        self.words(key).into_iter().map(of).collect()
    }

    /// The same samples by their parameters, of which `without` is left out.
    pub fn by_params(&self, without: &[&dyn Field]) -> BTreeMap<Params, Samples<'a>> {
        self.grouped(|sample| {
            let mut params = sample.params.clone();
            params.retain(|key, _| without.iter().all(|field| field.name() != key));
            params
        })
    }

    pub fn params(&self) -> impl Iterator<Item = &'a Params> + '_ {
        self.0.iter().map(|sample| &sample.params)
    }

    /// The number of the last round.
    pub fn last_round(&self) -> Option<u32> {
        self.0.iter().map(|sample| sample.rep).max()
    }

    pub fn of_round(&self, rep: u32) -> Self {
        self.filtered(|sample| sample.rep == rep)
    }

    /// When the first of one metric was measured, in ns since 1970.
    pub fn start_unix_ns(&self, metric: Metric) -> Option<i64> {
        self.having(metric).next().map(|sample| sample.start_unix_ns)
    }

    pub fn rounds(&self) -> usize {
        let mut rounds: Vec<u32> = self.0.iter().map(|sample| sample.rep).collect();
        rounds.sort_unstable();
        rounds.dedup();
        rounds.len()
    }

    /// Every distribution among them, merged. Damaged ones are left out.
    pub fn distribution(&self) -> Option<Histogram<u64>> {
        let mut stored = self.0.iter().filter_map(|sample| deserialise(histogram(sample)?).ok());
        let mut merged = stored.next()?;
        // A round may hold longer times than the first one has room for.
        merged.auto(true);
        for histogram in stored {
            merged.add(histogram).ok()?;
        }
        Some(merged)
    }
}
