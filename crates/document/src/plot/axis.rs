// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where values lie along an axis, in percent of its length, and its ticks.

use super::Axis;
use crate::fmt;

/// At most so many steps between ticks.
const MOST_STEPS: f64 = 6.0;
const MOST_DECADES: f64 = 9.0;
/// Names made from figures are thinned out to so many.
const MOST_NAMES: usize = 8;

/// An axis, prepared for the values that lie on it.
pub(super) struct Scale {
    /// The title, with the part of the unit that ticks do not carry.
    pub(super) title: String,
    pub(super) ticks: Vec<(f64, String)>,
    name: String,
    unit: String,
    log: bool,
    low: f64,
    high: f64,
}

impl Scale {
    /// Chooses the range and its ticks.
    pub(super) fn new(axis: &Axis, values: &[f64], from_zero: bool) -> Scale {
        let usable = |v: &&f64| v.is_finite() && (!axis.log || **v > 0.0);
        let low = values.iter().filter(usable).copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().filter(usable).copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        let unit = axis.unit();
        let label = fmt::unit_label(unit);
        let mut scale = Scale {
            title: match label.is_empty() {
                true => axis.title.clone(),
                false => format!("{} ({label})", axis.title),
            },
            ticks: Vec::new(),
            name: axis.title.clone(),
            unit: unit.to_owned(),
            log: axis.log,
            low,
            high,
        };
        let at = if axis.log { scale.widen_log() } else { scale.widen(from_zero) };
        let text = |v: f64| if v == 0.0 { "0".to_owned() } else { fmt::tick(v, unit) };
        scale.ticks = at.into_iter().map(|v| (scale.at(v).unwrap_or(0.0), text(v))).collect();
        scale
    }

    /// A range that ends with the least and the greatest value, for colours.
    pub(super) fn exact(axis: &Axis, values: &[f64]) -> Scale {
        let mut scale = Scale::new(axis, values, false);
        let usable = || values.iter().copied().filter(|v| v.is_finite() && (!axis.log || *v > 0.0));
        scale.low = usable().fold(f64::INFINITY, f64::min);
        scale.high = usable().fold(f64::NEG_INFINITY, f64::max);
        scale
    }

    /// An axis of names, or of as many places named by the figures that lie there.
    pub(super) fn of_names(axis: &Axis, names: &[String], figures: &[f64]) -> Scale {
        let count = names.len().max(figures.len());
        let mut scale = Scale::new(axis, &[0.0, count as f64], true);
        (scale.low, scale.high) = (-0.5, count as f64 - 0.5);
        let names: Vec<(usize, String)> = match names {
            [] => figures.iter().map(|v| fmt::tick(*v, axis.unit())).enumerate().collect(),
            names => names.iter().cloned().enumerate().collect(),
        };
        let every = if figures.is_empty() { 1 } else { count.div_ceil(MOST_NAMES) };
        let place = |at: usize| (at as f64 + 0.5) / count as f64 * 100.0;
        scale.ticks =
            names.into_iter().step_by(every).map(|(at, name)| (place(at), name)).collect();
        scale
    }

    /// Where a value lies; `None` of what the axis cannot show.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let share = match self.log {
            _ if self.low == self.high => 0.0,
            true if value <= 0.0 => return None,
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        share.is_finite().then(|| (share * 10_000.0).round() / 100.0)
    }

    pub(super) fn ends(&self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// `Heap: 4.00 MiB`; with an interval `Time: 2.13 µs (2.05 to 2.21)`.
    pub(super) fn named(&self, value: f64, interval: Option<(f64, f64)>) -> String {
        let text = match interval {
            Some((low, high)) => fmt::estimate(value, low, high, &self.unit),
            None => fmt::quantity(value, &self.unit),
        };
        format!("{}: {text}", self.name)
    }

    /// Widens a linear range to whole steps, and returns those.
    fn widen(&mut self, from_zero: bool) -> Vec<f64> {
        if from_zero {
            (self.low, self.high) = (self.low.min(0.0), self.high.max(0.0));
        }
        if self.low == self.high {
            self.high += if self.high == 0.0 { 1.0 } else { self.high.abs() };
        }
        let divisor = fmt::scale_for(self.low.abs().max(self.high.abs()), &self.unit).divisor;
        let least = (self.high - self.low) / divisor / MOST_STEPS;
        let decade = 10f64.powf(least.log10().floor());
        let round = [1.0, 2.0, 5.0].into_iter().find(|step| step * decade >= least * 0.999_999);
        let step = round.unwrap_or(10.0) * decade * divisor;
        let (first, last) = ((self.low / step).floor(), (self.high / step).ceil());
        (self.low, self.high) = (first * step, last * step);
        (0..=(last - first) as usize).map(|at| (first + at as f64) * step).collect()
    }

    /// Widens a logarithmic range a little, or to the next ticks where fewer than two lie in it, and returns
    /// those that do.
    fn widen_log(&mut self) -> Vec<f64> {
        let mut ticks = match fmt::base(&self.unit) {
            "bytes" => powers_of_two(self.low, self.high),
            _ => round_figures(self.low, self.high),
        };
        let pad = (self.high / self.low).powf(0.03).max(1.02);
        let padded = self.low / pad..=self.high * pad;
        if ticks.iter().filter(|tick| padded.contains(tick)).count() >= 2 {
            ticks.retain(|tick| padded.contains(tick));
            (self.low, self.high) = padded.into_inner();
        } else {
            let below = ticks.iter().rposition(|tick| *tick <= self.low).unwrap_or(0);
            let above = ticks.iter().position(|tick| *tick >= self.high);
            ticks = ticks[below..=above.unwrap_or(ticks.len() - 1).max(below)].to_vec();
            self.low = self.low.min(ticks[0]) / 1.02;
            self.high = self.high.max(ticks[ticks.len() - 1]) * 1.02;
        }
        ticks
    }
}

/// Powers of 2 from at most `low` to at least `high`.
fn powers_of_two(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log2().floor() as i32, high.log2().ceil() as i32);
    let step = (f64::from(last - first) / MOST_STEPS).ceil().max(1.0) as usize;
    (first..=last).step_by(step).map(|power| 2f64.powi(power)).collect()
}

/// 1, 2 and 5 of each decade, or 1 alone where those are too many; one beyond each end.
fn round_figures(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = if high / low < 200.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let every = (f64::from(last - first) / MOST_DECADES).ceil().max(1.0) as usize;
    (first..=last)
        .step_by(every)
        .flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: Axis, values: &[f64]) -> String {
        let scale = Scale::new(&axis, values, false);
        assert!(values.iter().filter_map(|v| scale.at(*v)).all(|at| (0.0..=100.0).contains(&at)));
        let texts: Vec<_> = scale.ticks.into_iter().map(|(_, text)| text).collect();
        texts.join(", ")
    }

    #[test]
    fn ticks_are_round_and_few() {
        let (linear, log) = (Axis::linear, Axis::log);
        assert_eq!(ticks(linear("", "ns"), &[0.0, 5.5e6]), "0, 1 ms, 2 ms, 3 ms, 4 ms, 5 ms, 6 ms");
        assert_eq!(ticks(linear("", "fraction"), &[0.0, 1.0]), "0, 20%, 40%, 60%, 80%, 100%");
        assert_eq!(ticks(linear("", ""), &[7.0, 7.0]), "6, 8, 10, 12, 14");
        assert_eq!(ticks(log("", "ns"), &[2100.0, 9000.0]), "2 µs, 5 µs, 10 µs");
        assert_eq!(ticks(log("", "ns"), &[2e3, 3e9]), "10 µs, 100 µs, 1 ms, 10 ms, 100 ms, 1 s");
        assert_eq!(ticks(log("", "bytes"), &[1e6, 4.3e9]), "4 MiB, 32 MiB, 256 MiB, 2 GiB");
        assert_eq!(ticks(log("", "ns"), &[]), "1 ns, 2 ns, 5 ns, 10 ns");
    }

    #[test]
    fn what_an_axis_cannot_show_has_no_place() {
        let scale = Scale::new(&Axis::log("", ""), &[1.0, 10.0], false);
        assert_eq!((scale.at(0.0), scale.at(f64::NAN)), (None, None));
        let names = Scale::of_names(&Axis::default(), &["a".into(), "b".into()], &[]);
        assert_eq!(names.ticks, [(25.0, "a".into()), (75.0, "b".into())]);
    }
}
