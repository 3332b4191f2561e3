// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Table cells of what may not have been measured.

use cowlab_model::Estimate;

use crate::document::Cell;
use crate::fmt;

/// Why most figures are missing.
pub const MISSING: &str = "was not measured";
/// Why what others are compared with has no change.
pub const ITSELF: &str = "is what the others are compared with";
/// Why there is no share of copies ahead.
pub const NOTHING_AHEAD: &str = "nothing was copied ahead, or the kernel does not tell";

/// A cell, or why there is none.
pub fn or(cell: Option<Cell>, missing: &str) -> Cell {
    cell.unwrap_or_else(|| Cell::Missing(missing.to_owned()))
}

/// A figure against plain copy-on-write, which has none itself.
pub fn unless_itself(is_base: bool, cell: impl FnOnce() -> Cell) -> Cell {
    or((!is_base).then(cell), ITSELF)
}

/// A figure with its interval, or why it is missing.
pub fn estimate(figure: Option<Estimate>, unit: &str, missing: &str) -> Cell {
    or(figure.map(|e| known(e, unit)), missing)
}

fn known(e: Estimate, unit: &str) -> Cell {
    match e.count {
        0 | 1 => Cell::number(e.value, unit),
        _ => Cell::estimate(e.value, e.low, e.high, unit),
    }
}

/// The same where it is known why.
pub fn estimate_or_reason(figure: Result<Estimate, &str>, unit: &str) -> Cell {
    figure.map_or_else(|reason| Cell::Missing(reason.to_owned()), |e| known(e, unit))
}

pub fn number(figure: Option<f64>, unit: &str, missing: &str) -> Cell {
    or(figure.map(|value| Cell::number(value, unit)), missing)
}

/// The same, exact where it is a count of pages or the like.
pub fn counted(figure: Option<f64>, unit: &str, missing: &str) -> Cell {
    match figure {
        Some(count) if matches!(unit, "pages" | "spans" | "faults") => {
            Cell::count(count.round() as u64)
        }
        figure => number(figure, unit, missing),
    }
}

/// `+17.0%`, `-0.13%`: a tenth of a percent matters where little changes.
pub fn signed(change: f64) -> String {
    let percent = change * 100.0;
    if percent.abs() < 9.995 { format!("{percent:+.2}%") } else { format!("{percent:+.1}%") }
}

/// A relative change with its sign.
pub fn change(figure: Option<Estimate>, missing: &str) -> Cell {
    let known = |Estimate { value, low, high, .. }| {
        let text = format!("{} ({} to {})", signed(value), signed(low), signed(high));
        Cell::Estimate { value, low, high, text }
    };
    or(figure.map(known), missing)
}

/// A figure over another; of one of a single run without an interval.
pub fn ratio(of: Estimate) -> Cell {
    match of {
        _ if of.low.is_finite() => Cell::estimate(of.value, of.low, of.high, ""),
        _ if of.value.is_finite() => Cell::number(of.value, ""),
        _ => Cell::Missing("a figure of 0 or less has no ratio".into()),
    }
}

/// `2.13 µs (2.05 to 2.21)`.
pub fn words(e: Estimate, unit: &str) -> String {
    match e.count {
        0 | 1 => fmt::quantity(e.value, unit),
        _ => fmt::estimate(e.value, e.low, e.high, unit),
    }
}

/// `2.05 µs to 2.21 µs`.
pub fn interval(low: f64, high: f64, unit: &str) -> String {
    format!("{} to {}", fmt::quantity(low, unit), fmt::quantity(high, unit))
}

/// Whether two intervals have no value in common, so that a difference was seen.
pub fn apart(a: Estimate, b: Estimate) -> bool {
    a.high < b.low || b.high < a.low
}
