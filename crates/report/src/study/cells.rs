// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Table cells of what may not have been measured.

use cowlab_model::Estimate;

use super::picked::Picked;
use crate::document::Cell;
use crate::fmt;

/// A figure with its interval, or why it is missing.
pub(super) fn estimate(figure: Option<Estimate>, unit: &str, missing: &str) -> Cell {
    figure.map_or_else(|| Cell::Missing(missing.to_owned()), |e| known(e, unit))
}

/// One measurement has no interval.
fn known(e: Estimate, unit: &str) -> Cell {
    match e.count {
        0 | 1 => Cell::number(e.value, unit),
        _ => Cell::estimate(e.value, e.low, e.high, unit),
    }
}

/// The same where it is known why.
pub(super) fn estimate_or_reason(figure: Result<Estimate, &str>, unit: &str) -> Cell {
    match figure {
        Ok(e) => known(e, unit),
        Err(reason) => Cell::Missing(reason.to_owned()),
    }
}

/// A figure that a round has many of, with the interval of its rounds; alone where there is one.
pub(super) fn of_rounds(samples: &Picked, metric: &str, unit: &str, missing: &str) -> Cell {
    estimate(samples.estimate_of_rounds(metric), unit, missing)
}

/// A figure, or why it is missing.
pub(super) fn number(figure: Option<f64>, unit: &str, missing: &str) -> Cell {
    figure.map_or_else(|| Cell::Missing(missing.to_owned()), |value| Cell::number(value, unit))
}

/// `2.13 µs (2.05 to 2.21)`.
pub(super) fn words(e: Estimate, unit: &str) -> String {
    match e.count {
        0 | 1 => fmt::quantity(e.value, unit),
        _ => fmt::estimate(e.value, e.low, e.high, unit),
    }
}

/// `2.05 µs to 2.21 µs`.
pub(super) fn interval(low: f64, high: f64, unit: &str) -> String {
    format!("{} to {}", fmt::quantity(low, unit), fmt::quantity(high, unit))
}

/// Whether two intervals have no value in common, so that a difference was seen.
pub(super) fn apart(a: Estimate, b: Estimate) -> bool {
    a.high < b.low || b.high < a.low
}
