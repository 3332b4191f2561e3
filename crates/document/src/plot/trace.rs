// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Series in two dimensions as traces of the plotting library.

use serde_json::{Value, json};

use super::axis::{Axes, Prepared, compact, escape};
use super::field;
use super::hover::{self, Point};
use super::{Kind, Plot, Series};

const SYMBOLS: [&str; 7] =
    ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "star"];
const DASHES: [&str; 4] = ["dash", "dot", "dashdot", "longdash"];
/// Above this many points, markers shrink so that they do not cover each other.
const MANY: usize = 200;

/// All raw values that lie on x, y and z.
pub(super) fn extents(plot: &Plot) -> [Vec<f64>; 3] {
    let [mut xs, mut ys, mut zs] = [Vec::new(), Vec::new(), Vec::new()];
    for Series { x, y, low, high, z, .. } in &plot.series {
        xs.extend(x);
        ys.extend(y.iter().chain(low).chain(high));
        zs.extend(z.iter().flatten());
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

/// The trace that draws `series` in palette colour `colour`; `xs` are all values along x. A surface
/// has none: it is drawn by `field`, in three dimensions or flattened.
pub(super) fn trace(series: &Series, axes: &Axes, xs: &[f64], colour: usize) -> Option<Value> {
    let Series { name, kind, x, y, low, high, labels, .. } = series;
    let solid = format!("${}", colour % SYMBOLS.len());
    let dash = DASHES[colour % DASHES.len()];
    let mut trace = match kind {
        Kind::Surface => return None,
        Kind::Map => return Some(field::heatmap(series, axes)),
        Kind::Points => {
            let (size, opacity) = if x.len() > MANY { (5, 0.6) } else { (8, 1.0) };
            let symbol = SYMBOLS[colour % SYMBOLS.len()];
            json!({ "type": "scatter", "mode": "markers", "marker": {
                "color": solid, "symbol": symbol, "size": size, "opacity": opacity,
            } })
        }
        Kind::Bars => json!({
            "type": "bar", "marker": { "color": solid },
            "x": labels.iter().map(|label| escape(label)).collect::<Vec<_>>(),
        }),
        Kind::Line => curve(json!({ "color": solid, "dash": "solid", "width": 2 })),
        Kind::Dashed => curve(json!({ "color": solid, "dash": dash, "width": 2 })),
        Kind::Cdf => curve(json!({ "color": solid, "shape": "hv", "width": 2 })),
        Kind::Diagonal => curve(json!({ "color": "$ink", "dash": "dot", "width": 1.5 })),
    };
    trace["name"] = json!(escape(name));
    if *kind == Kind::Diagonal {
        let (low, high) = ends(&axes.x, xs);
        let far = if axes.x.log { [low / 10.0, high * 10.0] } else { [low.min(0.0), high * 2.0] };
        (trace["x"], trace["y"], trace["hoverinfo"]) = (json!(far), json!(far), json!("skip"));
        return Some(trace);
    }
    if *kind != Kind::Bars {
        trace["x"] = json!(axes.x.scaled(x));
    }
    trace["y"] = json!(axes.y.scaled(y));
    let intervals: Vec<(f64, f64)> = low.iter().copied().zip(high.iter().copied()).collect();
    error_bars(&mut trace, axes, y, &intervals, if *kind == Kind::Bars { "$ink" } else { &solid });
    let texts = y.iter().enumerate().map(|(index, y)| {
        let at = x.get(index).map(|x| (&axes.x, *x)).into_iter().chain([(&axes.y, *y)]);
        let interval = intervals.get(index).copied();
        let label = labels.get(index).map(String::as_str);
        Point { at: &at.collect::<Vec<_>>(), interval, label }.text(name)
    });
    hover::attach(&mut trace, texts.collect());
    Some(trace)
}

fn curve(line: Value) -> Value {
    json!({ "type": "scatter", "mode": "lines", "line": line })
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
