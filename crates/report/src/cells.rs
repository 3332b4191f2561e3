// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cells and columns of samples.

use cowlab_analysis::samples::Samples;
use cowlab_schema::Metric;

pub(crate) use cowlab_document::cells::*;

use crate::{Cell, Rows};

/// Columns of a metric in its own unit.
pub(crate) trait OfSamples<T> {
    /// One that each round has many of, with the interval of the rounds.
    fn of_rounds<'s>(self, name: &str, metric: Metric, samples: impl Fn(&T) -> Samples<'s>)
    -> Self;

    /// One of some samples.
    fn metric<'s>(self, name: &str, metric: Metric, samples: impl Fn(&T) -> Samples<'s>) -> Self;
}

impl<T> OfSamples<T> for Rows<'_, T> {
    fn of_rounds<'s>(
        self,
        name: &str,
        metric: Metric,
        samples: impl Fn(&T) -> Samples<'s>,
    ) -> Self {
        let figure = |thing: &T| samples(thing).estimate_of_rounds(metric);
        self.estimate(name, metric.unit, MISSING, figure)
    }

    fn metric<'s>(self, name: &str, metric: Metric, samples: impl Fn(&T) -> Samples<'s>) -> Self {
        self.estimate(name, metric.unit, MISSING, |thing| samples(thing).estimate(metric))
    }
}

#[cfg(test)]
mod tests {
    use cowlab_schema::fork_sweep::FORK_NS;
    use cowlab_store::{Params, Sample};

    use super::*;

    /// So many of each round, all but the same.
    fn samples(rounds: &[f64]) -> Vec<Sample> {
        let of = |(rep, middle): (u32, &f64)| {
            let value = |at: u32| *middle + f64::from(at % 3) - 1.0;
            let one = |at| Sample { rep, ..Sample::of(FORK_NS, Params::default(), value(at)) };
            (0..99).map(one).collect::<Vec<_>>()
        };
        (0..).zip(rounds).flat_map(of).collect()
    }

    fn of_rounds(samples: &Samples) -> Cell {
        estimate(samples.estimate_of_rounds(FORK_NS), "ns", "was not measured")
    }

    #[test]
    fn what_a_round_has_in_common_is_not_taken_for_many_measurements() {
        let all = samples(&[100.0, 200.0, 300.0]);
        let cell = of_rounds(&Samples::all(&all));
        let Cell::Estimate { value, low, high, .. } = cell else { panic!("{cell:?}") };
        assert_eq!((low, value, high), (100.0, 200.0, 300.0));
    }

    #[test]
    fn one_round_has_a_value_and_no_interval() {
        let all = samples(&[100.0]);
        let cell = of_rounds(&Samples::all(&all));
        assert!(matches!(cell, Cell::Number { value: 100.0, .. }), "{cell:?}");
        let cell = of_rounds(&Samples::default());
        assert!(matches!(cell, Cell::Missing(_)), "{cell:?}");
    }
}
