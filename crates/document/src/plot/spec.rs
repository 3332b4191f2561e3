// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plot as the JSON that the page's script hands to the plotting library.
//!
//! Colours are tokens, `$ink`, `$0` to `$6` or `$2/0.2` (a colour and its opacity), which the script
//! replaces by the palette of the current theme.

use serde_json::{Map, Value, json};

use super::axis::{Axes, Prepared};
use super::{Kind, Plot, Series, field, trace};

const HEIGHT: u32 = 420;
const SMALL_HEIGHT: u32 = 240;
const SPATIAL_HEIGHT: u32 = 560;

/// Everything the page needs to draw `plot`: `{data, layout, height, spatial, flat?}`.
pub(crate) fn spec(plot: &Plot) -> Value {
    let [mut xs, mut ys, zs] = trace::extents(plot);
    if plot.has(Kind::Diagonal) {
        xs.extend(ys.iter());
        ys.clone_from(&xs);
    }
    let axes = Axes {
        x: Prepared::new(&plot.x, &xs),
        y: Prepared::new(&plot.y, &ys),
        z: Prepared::new(plot.z.as_ref().unwrap_or(&plot.y), &zs),
    };
    let spatial = plot.is_spatial();
    let mut spec = if spatial { field::spatial(plot, &axes) } else { flat(plot, &axes, &xs) };
    spec["height"] = json!(match plot.is_small {
        _ if spatial => SPATIAL_HEIGHT,
        true => SMALL_HEIGHT,
        false => HEIGHT,
    });
    spec["spatial"] = json!(spatial);
    if spatial {
        let plot = field::flattened(plot);
        spec["flat"] = flat(&plot, &axes, &xs);
    }
    spec
}

/// A drawing in two dimensions.
fn flat(plot: &Plot, axes: &Axes, xs: &[f64]) -> Value {
    let colours = Colours::of(plot);
    let mut data: Vec<Value> = Vec::new();
    for (index, series) in plot.series.iter().enumerate() {
        if let Some(mut trace) = trace::trace(series, axes, xs, colours.index(&series.name)) {
            let shown = stands_for_its_name(plot, index) && series.kind != Kind::Map;
            trace["showlegend"] = json!(shown);
            trace["legendgroup"] = json!(series.name);
            data.push(trace);
        }
    }
    let mut x = axis(&axes.x, plot.series.iter().any(|s| categories(s)[0]));
    let mut y = axis(&axes.y, plot.series.iter().any(|s| categories(s)[1]));
    if plot.has(Kind::Diagonal) {
        let range = trace::diagonal_range(&axes.x, xs);
        x.insert("range".into(), json!(range));
        y.insert("range".into(), json!(range));
    } else if !axes.y.log && !plot.has(Kind::Map) {
        y.insert("rangemode".into(), json!("tozero"));
    }
    if plot.has(Kind::Cdf) {
        y.insert("range".into(), json!([0, axes.y.one(1.02)]));
    }
    let named = colours.names.iter().filter(|name| !name.is_empty()).count();
    json!({
        "data": data,
        "layout": {
            "xaxis": x,
            "yaxis": y,
            "showlegend": named > 1,
            "barmode": "group",
        },
    })
}

fn axis(prepared: &Prepared, categorical: bool) -> Map<String, Value> {
    let mut layout = prepared.layout();
    if categorical {
        layout.retain(|key, _| key == "title");
        layout.insert("type".into(), json!("category"));
    }
    layout.insert("automargin".into(), json!(true));
    layout
}

/// Whether a series puts names instead of figures on the x and the y axis.
fn categories(series: &Series) -> [bool; 2] {
    let named = matches!(series.kind, Kind::Bars | Kind::Map);
    [named && !series.labels.is_empty(), !series.y_labels.is_empty()]
}

/// Whether the legend shows this series for all of its name: points before lines.
fn stands_for_its_name(plot: &Plot, index: usize) -> bool {
    let name = &plot.series[index].name;
    let peers = plot.series.iter().enumerate().filter(|(_, series)| series.name == *name);
    peers
        .min_by_key(|(_, series)| matches!(series.kind, Kind::Line | Kind::Dashed))
        .is_some_and(|(first, _)| first == index)
}

/// Which names have which colour: in order of first appearance; the diagonal has none.
struct Colours<'a> {
    names: Vec<&'a str>,
}

impl<'a> Colours<'a> {
    fn of(plot: &'a Plot) -> Self {
        let mut names = Vec::new();
        for series in &plot.series {
            if series.kind != Kind::Diagonal && !names.contains(&series.name.as_str()) {
                names.push(series.name.as_str());
            }
        }
        Colours { names }
    }

    fn index(&self, name: &str) -> usize {
        self.names.iter().position(|known| *known == name).unwrap_or(0)
    }
}
