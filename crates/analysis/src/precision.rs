// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How precisely a study is to know its figures, and how precisely it does.

use std::collections::BTreeMap;

use cowlab_model::stats::median;
use cowlab_schema::fork_sweep::{WRITE_FRACTION, WRITE_NS};
use cowlab_schema::{Params, QUANTILE, Quantile};

use crate::difference::{FEWEST_PAIRS, half_width};
use crate::figures::Key;
use crate::samples::Samples;

/// Half the width of a figure's 95% interval, relative to it, at which it is measured no more. Two runs'
/// ratio is then known to 4.2%, which a slowdown of 10% leaves.
pub const PRECISION: f64 = 0.03;

/// Rounds of which fewer have no such interval.
pub const FEWEST_ROUNDS: usize = FEWEST_PAIRS;

/// The times that the measured programs take themselves. CPU times and times from outside scatter more, and
/// nobody decides by them.
const DECIDING: [&str; 7] =
    ["fork_ns", "write_ns", "rest_ns", "cycle_ns", "real_ns", "elapsed_ns", "fault_ns"];

/// Whether a figure is to be known precisely: not the time of no writes, which is the clock's, nor a quantile
/// that one measurement has a few values beyond.
pub fn decides(metric: &str, params: &Params) -> bool {
    let nothing = metric == WRITE_NS.name && WRITE_FRACTION.of(params) == Some(0.0);
    let is_rare = matches!(QUANTILE.of(params), Some(Quantile::P99_9 | Quantile::Max));
    DECIDING.contains(&metric) && !nothing && !is_rare
}

/// Whether measurements, one a round, tell their figure as precisely as is wanted.
pub fn is_reached(values: &[f64]) -> bool {
    half_width(values).is_some_and(|half| half <= PRECISION)
}

/// How many of the figures that decide are known precisely, and how many there are.
pub fn reached(samples: &Samples) -> (usize, usize) {
    let mut figures: BTreeMap<Key, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
    for sample in samples.unshown().filter(|sample| decides(&sample.metric, &sample.params)) {
        let rounds = figures.entry(Key::of(sample)).or_default();
        rounds.entry(sample.rep).or_default().push(sample.value);
    }
    let known = figures.values().filter(|rounds| {
        is_reached(&rounds.values().filter_map(|values| median(values)).collect::<Vec<_>>())
    });
    (known.count(), figures.len())
}
