// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Series in two dimensions as traces of the plotting library.

use serde_json::{Value, json};

use super::axis::{Axes, Prepared, compact, escape};
use super::field;
use super::hover::{self, Point};
use super::{Plot, Series};

const SYMBOLS: [&str; 7] =
    ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "star"];
const DASHES: [&str; 4] = ["dash", "dot", "dashdot", "longdash"];
/// Above this many points, markers shrink so that they do not cover each other.
const MANY: usize = 200;

/// All raw values that lie on x, y and z.
pub(super) fn extents(plot: &Plot) -> [Vec<f64>; 3] {
    let [mut xs, mut ys, mut zs] = [Vec::new(), Vec::new(), Vec::new()];
    for series in &plot.series {
        match series {
            Series::Points { x, y, low, high, .. } => {
                xs.extend(x);
                ys.extend(y.iter().chain(low.iter().flatten()).chain(high.iter().flatten()));
            }
            Series::Line { x, y, .. } => {
                xs.extend(x);
                ys.extend(y);
            }
            Series::Cdf { x, p, .. } => {
                xs.extend(x);
                ys.extend(p);
            }
            Series::Bars { y, low, high, .. } => {
                ys.extend(y.iter().chain(low.iter().flatten()).chain(high.iter().flatten()));
            }
            Series::Surface { x, y, z, .. } | Series::Heatmap { x, y, z, .. } => {
                xs.extend(x);
                ys.extend(y);
                zs.extend(z.iter().flatten());
            }
            Series::Diagonal { .. } => {}
        }
    }
    [xs, ys, zs]
}

/// The range that both axes have around a diagonal, as the library wants it.
pub(super) fn diagonal_range(axis: &Prepared, values: &[f64]) -> [f64; 2] {
    let (low, high) = ends(axis, values);
    let (low, high) = if axis.log { (low.log10(), high.log10()) } else { (low.min(0.0), high) };
    let pad = if high > low { (high - low) * 0.05 } else { 0.5 };
    [if axis.log || low < 0.0 { low - pad } else { low }, high + pad]
}

/// The traces that draw `series` in palette colour `colour`; `xs` are all values along x.
pub(super) fn traces(series: &Series, axes: &Axes, xs: &[f64], colour: usize) -> Vec<Value> {
    let solid = format!("${}", colour % SYMBOLS.len());
    let symbol = SYMBOLS[colour % SYMBOLS.len()];
    match series {
        Series::Points { name, x, y, low, high, labels } => {
            let mut trace = json!({
                "type": "scatter", "mode": "markers", "name": escape(name),
                "x": axes.x.scaled(x), "y": axes.y.scaled(y),
                "marker": {
                    "color": solid, "symbol": symbol,
                    "size": if x.len() > MANY { 5 } else { 8 },
                    "opacity": if x.len() > MANY { 0.6 } else { 1.0 },
                },
            });
            let intervals = intervals(low, high);
            error_bars(&mut trace, axes, y, &intervals, &solid);
            let texts = x.iter().zip(y).enumerate().map(|(index, (x, y))| {
                Point {
                    at: &[(&axes.x, *x), (&axes.y, *y)],
                    interval: intervals.get(index).copied(),
                    label: labels.as_ref().and_then(|labels| labels.get(index)).map(String::as_str),
                }
                .text(name)
            });
            hover::attach(&mut trace, texts.collect());
            vec![trace]
        }
        Series::Line { name, x, y, dashed } => {
            let dash = if *dashed { DASHES[colour % DASHES.len()] } else { "solid" };
            let mut trace = curve(name, axes.x.scaled(x), axes.y.scaled(y));
            trace["line"] = json!({ "color": solid, "dash": dash, "width": 2 });
            hover::attach(&mut trace, pairs(name, axes, x, y));
            vec![trace]
        }
        Series::Cdf { name, x, p } => {
            let mut trace = curve(name, axes.x.scaled(x), axes.y.scaled(p));
            trace["line"] = json!({ "color": solid, "shape": "hv", "width": 2 });
            hover::attach(&mut trace, pairs(name, axes, x, p));
            vec![trace]
        }
        Series::Diagonal { name } => {
            let (low, high) = ends(&axes.x, xs);
            let far =
                if axes.x.log { [low / 10.0, high * 10.0] } else { [low.min(0.0), high * 2.0] };
            let mut trace = curve(name, far.to_vec(), far.to_vec());
            trace["line"] = json!({ "color": "$ink", "dash": "dot", "width": 1.5 });
            trace["hoverinfo"] = json!("skip");
            vec![trace]
        }
        Series::Bars { name, labels, y, low, high } => {
            let mut trace = json!({
                "type": "bar", "name": escape(name), "y": axes.y.scaled(y),
                "x": labels.iter().map(|label| escape(label)).collect::<Vec<_>>(),
                "marker": { "color": solid },
            });
            let intervals = intervals(low, high);
            error_bars(&mut trace, axes, y, &intervals, "$ink");
            let texts = labels.iter().zip(y).enumerate().map(|(index, (label, y))| {
                let interval = intervals.get(index).copied();
                Point { at: &[(&axes.y, *y)], interval, label: Some(label) }.text(name)
            });
            hover::attach(&mut trace, texts.collect());
            vec![trace]
        }
        Series::Heatmap { .. } => field::heatmap(series, axes).into_iter().collect(),
        // Drawn by `field`, in three dimensions or flattened.
        Series::Surface { .. } => Vec::new(),
    }
}

fn curve(name: &str, x: Vec<f64>, y: Vec<f64>) -> Value {
    json!({ "type": "scatter", "mode": "lines", "name": escape(name), "x": x, "y": y })
}

fn pairs(name: &str, axes: &Axes, x: &[f64], y: &[f64]) -> Vec<String> {
    let point = |(x, y): (&f64, &f64)| {
        Point { at: &[(&axes.x, *x), (&axes.y, *y)], interval: None, label: None }.text(name)
    };
    x.iter().zip(y).map(point).collect()
}

/// Lower and upper ends, where both are given.
fn intervals(low: &Option<Vec<f64>>, high: &Option<Vec<f64>>) -> Vec<(f64, f64)> {
    let (low, high) = (low.iter().flatten(), high.iter().flatten());
    low.copied().zip(high.copied()).collect()
}

fn error_bars(trace: &mut Value, axes: &Axes, y: &[f64], intervals: &[(f64, f64)], colour: &str) {
    if intervals.is_empty() {
        return;
    }
    let reach = |pick: fn(f64, (f64, f64)) -> f64| -> Vec<f64> {
        y.iter()
            .zip(intervals)
            .map(|(y, ends)| compact(pick(*y, *ends).max(0.0) * axes.y.factor))
            .collect()
    };
    trace["error_y"] = json!({
        "type": "data", "symmetric": false, "color": colour, "thickness": 1.5, "width": 4,
        "array": reach(|y, (_, high)| high - y),
        "arrayminus": reach(|y, (low, _)| y - low),
    });
}

/// Least and greatest value as drawn, leaving out what the axis cannot show.
fn ends(axis: &Prepared, values: &[f64]) -> (f64, f64) {
    let drawn = || values.iter().map(|value| axis.one(*value)).filter(|value| value.is_finite());
    let (low, high) =
        (drawn().fold(f64::INFINITY, f64::min), drawn().fold(f64::NEG_INFINITY, f64::max));
    if low <= high { (low, high) } else { (1.0, 10.0) }
}
