// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values over a grid: as a surface that can be turned, and as a flat map of coloured cells.

use serde_json::{Value, json};

use super::axis::{Axes, Prepared, compact, escape, round_figures};
use super::hover::Point;
use super::{Plot, Series};
use crate::fmt;

/// Distinguishable without colour vision and in grey print.
const COLOURS: &str = "Viridis";
/// Maps with at most this many cells have their values written in them.
const MAX_WRITTEN_CELLS: usize = 60;

/// The drawing in three dimensions.
pub(super) fn spatial(plot: &Plot, axes: &Axes) -> Value {
    let mut data = Vec::new();
    for series in &plot.series {
        if let Series::Surface { name, x, y, z } = series {
            let mut trace = json!({
                "type": "surface", "name": escape(name),
                "x": axes.x.scaled(x), "y": axes.y.scaled(y),
                "z": z.iter().map(|row| axes.z.scaled(row)).collect::<Vec<_>>(),
                "surfacecolor": colour_values(axes, z),
                "contours": { "z": { "show": true, "usecolormap": false, "color": "$ink/0.35", "width": 1 } },
                "lighting": { "ambient": 0.85, "diffuse": 0.4, "specular": 0.05, "roughness": 0.9 },
            });
            coloured(&mut trace, axes, z);
            trace["hovertext"] = grid_texts(name, axes, x, y, z);
            trace["hoverinfo"] = json!("text");
            data.push(trace);
        }
    }
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
    let map = |series: &Series| match series {
        Series::Surface { name, x, y, z } => Some(Series::Heatmap {
            name: name.clone(),
            x: x.clone(),
            y: y.clone(),
            z: z.clone(),
            // Steps on a logarithmic axis are even as categories, and cells would be uneven.
            x_labels: plot.x.log.then(|| x.iter().map(|v| fmt::tick(*v, plot.x.unit())).collect()),
            y_labels: plot.y.log.then(|| y.iter().map(|v| fmt::tick(*v, plot.y.unit())).collect()),
        }),
        _ => None,
    };
    Plot { series: plot.series.iter().filter_map(map).collect(), ..plot.clone() }
}

/// A heat map's trace; `None` for any other series.
pub(super) fn heatmap(series: &Series, axes: &Axes) -> Option<Value> {
    let Series::Heatmap { name, x, y, z, x_labels, y_labels } = series else { return None };
    let positions = |axis: &Prepared, values: &[f64], labels: &Option<Vec<String>>| match labels {
        Some(labels) => json!(labels.iter().map(|label| escape(label)).collect::<Vec<_>>()),
        None => json!(axis.scaled(values)),
    };
    let mut trace = json!({
        "type": "heatmap", "name": escape(name),
        "x": positions(&axes.x, x, x_labels), "y": positions(&axes.y, y, y_labels),
        "z": colour_values(axes, z), "xgap": 1, "ygap": 1, "showlegend": false,
    });
    coloured(&mut trace, axes, z);
    if z.iter().map(Vec::len).sum::<usize>() <= MAX_WRITTEN_CELLS {
        let texts: Vec<Vec<String>> =
            z.iter().map(|row| row.iter().map(|value| axes.z.text(*value)).collect()).collect();
        trace["text"] = json!(texts);
        trace["texttemplate"] = json!("%{text}");
    }
    trace["hovertext"] = grid_texts(name, axes, x, y, z);
    trace["hoverinfo"] = json!("text");
    Some(trace)
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

fn grid_texts(name: &str, axes: &Axes, x: &[f64], y: &[f64], z: &[Vec<f64>]) -> Value {
    let cell = |x: f64, y: f64, z: f64| {
        Point { at: &[(&axes.x, x), (&axes.y, y), (&axes.z, z)], interval: None, label: None }
            .text(name)
    };
    let rows = z.iter().enumerate().map(|(row, values)| {
        let y = y.get(row).copied().unwrap_or(f64::NAN);
        let at = |column: usize| x.get(column).copied().unwrap_or(f64::NAN);
        values.iter().enumerate().map(|(column, z)| cell(at(column), y, *z)).collect()
    });
    json!(rows.collect::<Vec<Vec<String>>>())
}
