// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values over a grid: as a surface that can be turned, and as a flat map of coloured cells.

use serde_json::{Value, json};

use super::axis::{Axes, Prepared, compact, escape, round_figures};
use super::hover::Point;
use super::{Axis, Kind, Plot, Series};
use crate::fmt;

/// Distinguishable without colour vision and in grey print.
const COLOURS: &str = "Viridis";
/// Maps with at most this many cells have their values written in them.
const MAX_WRITTEN_CELLS: usize = 60;

/// The drawing in three dimensions.
pub(super) fn spatial(plot: &Plot, axes: &Axes) -> Value {
    let surfaces = plot.series.iter().filter(|series| series.kind == Kind::Surface);
    let data = surfaces.map(|series| {
        let mut trace = grid(series, axes, "surface");
        trace["x"] = json!(axes.x.scaled(&series.x));
        trace["y"] = json!(axes.y.scaled(&series.y));
        let heights = series.z.iter().map(|row| axes.z.scaled(row));
        trace["z"] = json!(heights.collect::<Vec<_>>());
        trace["surfacecolor"] = json!(colour_values(axes, &series.z));
        trace["contours"] = json!({
            "z": { "show": true, "usecolormap": false, "color": "$ink/0.35", "width": 1 },
        });
        trace["lighting"] =
            json!({ "ambient": 0.85, "diffuse": 0.4, "specular": 0.05, "roughness": 0.9 });
        trace
    });
    let data: Vec<Value> = data.collect();
    let axis = |prepared: &Prepared| {
        let mut layout = prepared.layout();
        layout.insert("nticks".into(), json!(6));
        layout
    };
    // The colour bar names what the height is; a title there would lie on the ticks.
    let mut height = axis(&axes.z);
    height.insert("title".into(), json!({ "text": "" }));
    json!({
        "data": data,
        "layout": {
            "scene": {
                "xaxis": axis(&axes.x), "yaxis": axis(&axes.y), "zaxis": height,
                "camera": { "eye": { "x": 1.4, "y": -1.4, "z": 0.8 }, "center": { "x": 0, "y": 0, "z": -0.22 } },
                "aspectmode": "manual", "aspectratio": { "x": 1.2, "y": 1.2, "z": 0.85 },
                "dragmode": "turntable",
            },
        },
    })
}

/// The same plot with its surface as a map, for where there is no WebGL.
pub(super) fn flattened(plot: &Plot) -> Plot {
    let surfaces = plot.series.iter().filter(|series| series.kind == Kind::Surface);
    // Steps on a logarithmic axis are even as categories, and cells would be uneven.
    let ticks = |axis: &Axis, at: &[f64]| -> Vec<String> {
        at.iter().filter(|_| axis.log).map(|value| fmt::tick(*value, axis.unit())).collect()
    };
    let map = |series: &Series| Series {
        kind: Kind::Map,
        labels: ticks(&plot.x, &series.x),
        y_labels: ticks(&plot.y, &series.y),
        ..series.clone()
    };
    Plot { series: surfaces.map(map).collect(), ..plot.clone() }
}

/// A map's trace.
pub(super) fn heatmap(series: &Series, axes: &Axes) -> Value {
    let Series { x, y, z, labels, y_labels, .. } = series;
    let positions = |axis: &Prepared, values: &[f64], labels: &[String]| match labels {
        [] => json!(axis.scaled(values)),
        labels => json!(labels.iter().map(|label| escape(label)).collect::<Vec<_>>()),
    };
    let mut trace = grid(series, axes, "heatmap");
    trace["x"] = positions(&axes.x, x, labels);
    trace["y"] = positions(&axes.y, y, y_labels);
    trace["z"] = json!(colour_values(axes, z));
    (trace["xgap"], trace["ygap"]) = (json!(1), json!(1));
    if z.iter().map(Vec::len).sum::<usize>() <= MAX_WRITTEN_CELLS {
        let texts: Vec<Vec<String>> =
            z.iter().map(|row| row.iter().map(|value| axes.z.text(*value)).collect()).collect();
        trace["text"] = json!(texts);
        trace["texttemplate"] = json!("%{text}");
    }
    trace
}

/// What surfaces and maps have in common: name, colours, and what the pointer shows.
fn grid(series: &Series, axes: &Axes, drawn: &str) -> Value {
    let mut trace = json!({ "type": drawn, "name": escape(&series.name), "hoverinfo": "text" });
    coloured(&mut trace, axes, &series.z);
    trace["hovertext"] = grid_texts(series, axes);
    trace
}

/// What colours stand for: the values as drawn, or their logarithms.
fn colour_values(axes: &Axes, z: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let colour = |value: &f64| {
        let drawn = axes.z.one(*value);
        if axes.z.log { compact(drawn.log10()) } else { drawn }
    };
    z.iter().map(|row| row.iter().map(colour).collect()).collect()
}

/// Colour scale and colour bar, whose ticks are written as an axis' would be.
fn coloured(trace: &mut Value, axes: &Axes, z: &[Vec<f64>]) {
    let mut bar = json!({
        "title": { "text": axes.z.title(), "side": "right" }, "thickness": 14, "outlinewidth": 0,
    });
    if axes.z.log {
        let positive =
            || z.iter().flatten().copied().filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) =
            (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
        let mut ticks = round_figures(low, high);
        ticks.retain(|tick| (low..=high).contains(tick));
        let text = |tick: &f64| fmt::tick(*tick, &axes.z.unit);
        bar["ticktext"] = json!(ticks.iter().map(text).collect::<Vec<_>>());
        bar["tickvals"] =
            json!(ticks.iter().map(|tick| compact(axes.z.one(*tick).log10())).collect::<Vec<_>>());
    } else {
        for (key, value) in axes.z.tick_format() {
            bar[key] = value.clone();
        }
    }
    trace["colorbar"] = bar;
    trace["colorscale"] = json!(COLOURS);
}

fn grid_texts(Series { name, x, y, z, .. }: &Series, axes: &Axes) -> Value {
    let text = |x: f64, y: f64, z: f64| {
        Point { at: &[(&axes.x, x), (&axes.y, y), (&axes.z, z)], interval: None, label: None }
            .text(name)
    };
    let rows = z
        .iter()
        .zip(y)
        .map(|(row, y)| row.iter().zip(x).map(|(z, x)| text(*x, *y, *z)).collect::<Vec<String>>());
    json!(rows.collect::<Vec<_>>())
}
