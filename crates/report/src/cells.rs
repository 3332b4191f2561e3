// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cells and columns of samples.

use cowlab_analysis::samples::Samples;
use cowlab_schema::Metric;

pub(crate) use cowlab_document::cells::*;

use crate::Rows;

/// Columns of a metric in its own unit.
pub(crate) trait OfSamples<T> {
    fn metric<'s>(self, name: &str, metric: Metric, samples: impl Fn(&T) -> Samples<'s>) -> Self;
}

impl<T> OfSamples<T> for Rows<'_, T> {
    fn metric<'s>(self, name: &str, metric: Metric, samples: impl Fn(&T) -> Samples<'s>) -> Self {
        self.estimate(name, metric.unit, MISSING, |thing| samples(thing).estimate(metric))
    }
}
