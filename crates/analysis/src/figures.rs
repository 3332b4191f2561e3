// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures: what was measured repeatedly with the same parameters, and its median.

use std::collections::BTreeMap;

use cowlab_model::Estimate;
use cowlab_store::{Params, Sample};
use serde::Serialize;

use crate::samples::Samples;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    pub bench: String,
    pub params: Params,
    pub metric: String,
    pub unit: String,
}

/// A figure: its median over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    #[serde(flatten)]
    pub key: Key,
    #[serde(flatten)]
    pub estimate: Estimate,
}

impl Key {
    /// What `sample` is of.
    pub fn of(sample: &Sample) -> Key {
        Key {
            bench: sample.bench.clone(),
            params: sample.params.clone(),
            metric: sample.metric.clone(),
            unit: sample.unit.clone(),
        }
    }
}

/// Samples by what they measure, in the order of their keys.
pub fn grouped(samples: &[Sample]) -> BTreeMap<Key, Samples<'_>> {
    Samples::all(samples).grouped(Key::of)
}

/// The figures in `samples`.
pub fn figures(samples: &[Sample]) -> Vec<Figure> {
    let figure =
        |(key, samples): (Key, Samples)| Some(Figure { key, estimate: samples.estimate_of_all()? });
    grouped(samples).into_iter().filter_map(figure).collect()
}
