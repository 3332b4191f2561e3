// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From an axis in raw units to what the plotting library draws: a factor, a title and ticks.

use serde_json::{Map, Value, json};

use super::Axis;
use crate::fmt;

/// At most this many ticks on an axis whose ticks are chosen here.
const MAX_TICKS: f64 = 7.0;

/// The axes of a plot, prepared for its data.
pub(super) struct Axes {
    pub(super) x: Prepared,
    pub(super) y: Prepared,
    pub(super) z: Prepared,
}

/// An axis prepared for the values that lie on it.
pub(super) struct Prepared {
    /// What raw values are multiplied by.
    pub(super) factor: f64,
    /// The title with the unit that ticks do not carry.
    title: String,
    pub(super) log: bool,
    pub(super) unit: String,
    raw_title: String,
    ticks: Map<String, Value>,
}

impl Prepared {
    /// Chooses scale and ticks for `values` (raw; those not finite are ignored).
    pub(super) fn new(axis: &Axis, values: &[f64]) -> Self {
        let unit = axis.unit();
        let usable = |v: &&f64| v.is_finite() && (!axis.log || **v > 0.0);
        let low = values.iter().filter(usable).copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().filter(usable).copied().fold(f64::NEG_INFINITY, f64::max);
        let largest = if low > high { 1.0 } else { low.abs().max(high.abs()) };

        let label = fmt::unit_label(unit);
        let mut prepared = Prepared {
            factor: 1.0,
            title: titled(&axis.title, &[&label]),
            log: axis.log,
            unit: unit.to_owned(),
            raw_title: axis.title.clone(),
            ticks: Map::new(),
        };
        match (fmt::base(unit), axis.log) {
            ("bytes", true) => prepared.tick_at(&powers_of_two(low, high)),
            (_, true) => prepared.tick_at(&round_figures(low, high)),
            ("ns" | "bytes", false) => {
                let scale = fmt::scale_for(largest, unit);
                prepared.factor = 1.0 / scale.divisor;
                prepared.title = titled(&axis.title, &[scale.suffix.trim(), &label]);
            }
            ("fraction", _) => {
                prepared.factor = 100.0;
                prepared.tick("ticksuffix", json!("%"));
            }
            ("percent" | "%", _) => prepared.tick("ticksuffix", json!("%")),
            ("per_s", _) => {
                prepared.tick("tickformat", json!("~s"));
                prepared.tick("ticksuffix", json!("/s"));
            }
            _ if largest >= 1e5 => prepared.tick("tickformat", json!("~s")),
            _ => {
                prepared.tick("exponentformat", json!("none"));
                prepared.tick("separatethousands", json!(true));
            }
        }
        prepared
    }

    /// `values` as they are drawn.
    pub(super) fn scaled(&self, values: &[f64]) -> Vec<f64> {
        values.iter().map(|value| self.one(*value)).collect()
    }

    /// A value as it is drawn; what a logarithmic axis cannot show becomes a gap.
    pub(super) fn one(&self, value: f64) -> f64 {
        if self.log && value <= 0.0 { f64::NAN } else { compact(value * self.factor) }
    }

    /// A value as people read it.
    pub(super) fn text(&self, value: f64) -> String {
        fmt::quantity(value, &self.unit)
    }

    /// `Heap: 4.00 MiB`, for what the pointer shows.
    pub(super) fn named(&self, text: &str) -> String {
        format!("{}: {text}", escape(&self.raw_title))
    }

    /// The library's description of the axis.
    pub(super) fn layout(&self) -> Map<String, Value> {
        let mut layout = self.ticks.clone();
        if !self.title.is_empty() {
            layout.insert("title".into(), json!({ "text": escape(&self.title) }));
        }
        if self.log {
            layout.insert("type".into(), json!("log"));
        }
        layout
    }

    /// How its figures are written, for a colour bar.
    pub(super) fn tick_format(&self) -> &Map<String, Value> {
        &self.ticks
    }

    /// The title with its unit, escaped.
    pub(super) fn title(&self) -> String {
        escape(&self.title)
    }

    fn tick(&mut self, key: &str, value: Value) {
        self.ticks.insert(key.into(), value);
    }

    fn tick_at(&mut self, values: &[f64]) {
        let texts: Vec<String> = values.iter().map(|value| fmt::tick(*value, &self.unit)).collect();
        self.tick("tickvals", json!(self.scaled(values)));
        self.tick("ticktext", json!(texts));
    }
}

/// Text in the plotting library knows some tags; ours has none but those written here.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Powers of 2 from at most `low` to at least `high`.
fn powers_of_two(low: f64, high: f64) -> Vec<f64> {
    if low > high {
        return Vec::new();
    }
    let (first, last) = (low.log2().floor() as i32, high.log2().ceil() as i32);
    let step = (f64::from(last - first) / MAX_TICKS).ceil().max(1.0) as usize;
    (first..=last).step_by(step).map(|power| 2f64.powi(power)).collect()
}

/// 1, 2 and 5 of each decade, or 1 alone where those are too many; one beyond each end.
pub(super) fn round_figures(low: f64, high: f64) -> Vec<f64> {
    if low > high {
        return Vec::new();
    }
    let steps: &[f64] = if high / low < 500.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let every = (f64::from(last - first) / MAX_TICKS).ceil().max(1.0) as usize;
    (first..=last)
        .step_by(every)
        .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
        .collect()
}

/// 7 significant digits: more than a screen shows, and half the bytes in the page.
pub(super) fn compact(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

/// `Time (µs per page)`.
fn titled(title: &str, units: &[&str]) -> String {
    let units: Vec<&str> = units.iter().copied().filter(|unit| !unit.is_empty()).collect();
    if units.is_empty() { title.to_owned() } else { format!("{title} ({})", units.join(" ")) }
}
