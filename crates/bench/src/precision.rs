// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How well a task's figures are known so far, and which tasks to measure again.

use std::collections::BTreeMap;
use std::time::Duration;

use cowlab_analysis::precision::{decides, is_reached};
use cowlab_model::stats::median;
use cowlab_schema::Params;
use cowlab_store::Sample;

/// What is known of a task.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// What its last measurement took.
    pub last: Duration,
    spent: Duration,
    /// Of each figure that decides, one value a round.
    figures: BTreeMap<(String, Params), Vec<f64>>,
}

impl Known {
    /// Add what a round gave, and the time that it took.
    pub fn add(&mut self, samples: &[Sample], took: Duration) {
        self.last = took;
        self.spent += took;
        let mut round: BTreeMap<(String, Params), Vec<f64>> = BTreeMap::new();
        for sample in samples.iter().filter(|sample| decides(&sample.metric, &sample.params)) {
            let figure = (sample.metric.clone(), sample.params.clone());
            round.entry(figure).or_default().push(sample.value);
        }
        for (figure, values) in round {
            self.figures.entry(figure).or_default().extend(median(&values));
        }
    }

    fn is_precise(&self) -> bool {
        self.figures.values().all(|values| is_reached(values))
    }
}

/// Of `tasks` those to measure again: what is not known precisely, and of that the half on which the least
/// time was spent.
pub fn least_known(tasks: Vec<usize>, known: &[Known]) -> Vec<usize> {
    let mut left: Vec<usize> =
        tasks.into_iter().filter(|task| !known[*task].is_precise()).collect();
    left.sort_by_key(|task| known[*task].spent);
    left.truncate(left.len().div_ceil(2));
    left
}

#[cfg(test)]
mod tests {
    use cowlab_schema::fork_sweep::{FORK_NS, USER_NS};

    use super::*;

    fn known(values: &[f64], seconds: u64) -> Known {
        let mut known = Known::default();
        for value in values {
            let samples = [FORK_NS, USER_NS].map(|metric| {
                Sample::of(metric, Params::new(), if metric == FORK_NS { *value } else { 0.0 })
            });
            known.add(&samples, Duration::from_secs(seconds));
        }
        known
    }

    #[test]
    fn what_is_imprecise_and_cheap_is_measured_again() {
        let precise = known(&[100.0, 101.0, 99.0, 100.0, 101.0, 100.0], 1);
        let wide = [100.0, 130.0, 90.0, 100.0, 120.0, 80.0];
        let all =
            [precise, known(&wide, 5), known(&wide, 1), known(&wide[..5], 2), Known::default()];
        assert_eq!(least_known((0..5).collect(), &all), [2, 3]);
        // The dear one comes where nothing cheaper is left.
        assert_eq!(least_known(vec![0, 1], &all), [1]);
        assert!(least_known(vec![0, 4], &all).is_empty(), "a task without such figures is done");
    }
}
