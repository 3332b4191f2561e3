// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plot as HTML and SVG. Places are in percent, so that it fits any width and its texts keep their size;
//! colours are classes, which follow the theme. `data-t` is what the page's script shows at a mark.

use maud::{Markup, html};

use super::axis::Scale;
use super::{Kind, Plot, Series};
use crate::fmt;

const STYLES: usize = 7;
const DASHES: usize = 4;
/// Above this many points, markers shrink so that they do not cover each other.
const MANY: usize = 200;
/// A curve shows the figures of so many of its points.
const MOST_TEXTS: usize = 100;
/// Maps with at most this many cells have their values written in them.
const MOST_WRITTEN_CELLS: usize = 60;
/// Viridis: distinguishable without colour vision and in grey print. The style sheet's ramp is the same.
const COLOURS: [[f64; 3]; 5] = [
    [68.0, 1.0, 84.0],
    [59.0, 82.0, 139.0],
    [33.0, 145.0, 140.0],
    [94.0, 201.0, 98.0],
    [253.0, 231.0, 37.0],
];

/// The symbols, which marks of all plots of a page refer to.
pub(crate) fn symbols() -> Markup {
    let shapes = [
        "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
        "M-4-4H4V4H-4Z",
        "M0-5.5L5.5 0 0 5.5-5.5 0Z",
        "M0-5L5 4H-5Z",
        "M-1.5-5h3v3.5H5v3H1.5V5h-3V1.5H-5v-3h3.5Z",
        "M0 5L5-4H-5Z",
        "M-5-3L0-1 5-3 2 1 4 5 0 3-4 5-2 1Z",
    ];
    html! {
        svg.symbols aria-hidden="true" {
            defs { @for (index, shape) in shapes.iter().enumerate() { path id={ "mark-" (index) } d=(shape) {} } }
        }
    }
}

/// The drawing; `label` is its description for readers who do not see it.
pub(crate) fn chart(plot: &Plot, label: &str) -> Markup {
    let drawing = Drawing::of(plot);
    let (x, y) = (&drawing.x, &drawing.y);
    let widest = y.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
    html! {
        @if drawing.names.len() > 1 {
            ul.legend { @for (index, name) in drawing.names.iter().enumerate() { (drawing.key(index, name)) } }
        }
        @if let Some(z) = &drawing.z {
            p.legend { (z.title) ": " @for (value, end) in z.ends().into_iter().zip(["", " to "]) { (end) (fmt::quantity(value, plot.unit_of_z())) } " " i.ramp {} }
        }
        div.chart style={ "--ticks:" (widest.min(18)) "ch" } {
            div.y-title { (y.title) }
            div.y-ticks { @for (at, text) in &y.ticks { span style={ "bottom:" (at) "%" } { (text) } } }
            svg.area role="img" aria-label=(label) { (drawing.marks()) }
            div.x-ticks style={ "--width:" (96 / x.ticks.len().max(1)) "%" } { @for (at, text) in &x.ticks { span style={ "left:" (at) "%" } { (text) } } }
            div.x-title { (x.title) }
        }
    }
}

struct Drawing<'a> {
    plot: &'a Plot,
    x: Scale,
    y: Scale,
    z: Option<Scale>,
    /// In order of appearance; the diagonal has no colour and stands in no legend.
    names: Vec<&'a str>,
    bars: Vec<&'a Series>,
}

impl<'a> Drawing<'a> {
    fn of(plot: &'a Plot) -> Self {
        let all = |values: fn(&Series) -> Vec<f64>| -> Vec<f64> {
            plot.series.iter().flat_map(values).collect()
        };
        let mut xs = all(|s| s.x.clone());
        let mut ys = all(|s| [&s.y[..], &s.low, &s.high].concat());
        if plot.has(Kind::Diagonal) {
            xs.extend(&ys);
            ys.clone_from(&xs);
        }
        let bars: Vec<_> = plot.series.iter().filter(|s| s.kind == Kind::Bars).collect();
        let map = plot.series.iter().find(|s| s.kind == Kind::Map);
        let (x, y) = match (map, bars.first()) {
            (Some(map), _) => (
                Scale::of_names(&plot.x, &map.labels, &map.x),
                Scale::of_names(&plot.y, &map.y_labels, &map.y),
            ),
            (None, Some(bars)) => {
                (Scale::of_names(&plot.x, &bars.labels, &[]), Scale::new(&plot.y, &ys, true))
            }
            (None, None) => (
                Scale::new(&plot.x, &xs, false),
                Scale::new(&plot.y, &ys, !plot.has(Kind::Diagonal)),
            ),
        };
        let z = map.map(|map| {
            let axis = plot.z.as_ref().unwrap_or(&plot.y);
            Scale::exact(axis, &map.z.concat())
        });
        let mut names = Vec::new();
        for series in plot.series.iter().filter(|s| s.kind != Kind::Diagonal) {
            if !series.name.is_empty() && !names.contains(&series.name.as_str()) {
                names.push(series.name.as_str());
            }
        }
        Drawing { plot, x, y, z, names, bars }
    }

    fn style(&self, series: &Series) -> usize {
        self.names.iter().position(|name| *name == series.name).unwrap_or(0)
    }

    /// A name in the legend: as its points are drawn, else as its line.
    fn key(&self, index: usize, name: &str) -> Markup {
        let own = || self.plot.series.iter().filter(|series| series.name == name);
        let shown = own().find(|s| !is_curve(s.kind)).or_else(|| own().next());
        let kind = shown.map_or(Kind::Points, |series| series.kind);
        html! {
            li {
                svg class={ "key c" (index % STYLES) } aria-hidden="true" {
                    @if is_curve(kind) { line class=(curve_class(kind, index)) x1="0" x2="100%" y1="50%" y2="50%" {} }
                    @else if kind == Kind::Bars { rect x="25%" width="50%" height="100%" {} }
                    @else { use href={ "#mark-" (index % STYLES) } x="50%" y="50%" {} }
                }
                (name)
            }
        }
    }

    fn marks(&self) -> Markup {
        let (x, y) = (&self.x, &self.y);
        let is_map = self.z.is_some();
        html! {
            @if !is_map {
                @for (at, _) in &y.ticks { line.grid x1="0" x2="100%" y1=(up(*at)) y2=(up(*at)) {} }
                @if self.bars.is_empty() { @for (at, _) in &x.ticks { line.grid x1={ (at) "%" } x2={ (at) "%" } y1="0" y2="100%" {} } }
            }
            svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%" {
                @for series in &self.plot.series { @if is_curve(series.kind) { (self.curve(series)) } }
            }
            @for series in &self.plot.series {
                g class={ "c" (self.style(series) % STYLES) } {
                    @match series.kind {
                        Kind::Map => (self.map(series)),
                        Kind::Bars => (self.bars(series)),
                        Kind::Points => (self.points(series)),
                        Kind::Diagonal => {},
                        Kind::Line | Kind::Dashed | Kind::Cdf => (self.places(series)),
                    }
                }
            }
        }
    }

    fn curve(&self, series: &Series) -> Markup {
        let ends = self.x.ends();
        let (xs, ys) = match series.kind {
            Kind::Diagonal => (&ends[..], &ends[..]),
            _ => (&series.x[..], &series.y[..]),
        };
        let mut path = String::new();
        let (mut is_drawn, mut last) = (false, (f64::NAN, f64::NAN));
        for (x, y) in xs.iter().zip(ys) {
            let (Some(x), Some(y)) = (self.x.at(*x), self.y.at(*y)) else {
                is_drawn = false;
                continue;
            };
            let place = (x, 100.0 - y);
            // A long distribution has many points to a pixel.
            if is_drawn && (place.0 - last.0).abs() < 0.1 && (place.1 - last.1).abs() < 0.1 {
                continue;
            }
            let (x, y) = ((place.0 * 100.0).round() / 100.0, (place.1 * 100.0).round() / 100.0);
            path += &match series.kind {
                Kind::Cdf if is_drawn => format!("H{x}V{y}"),
                _ => format!("{}{x} {y}", if is_drawn { 'L' } else { 'M' }),
            };
            (is_drawn, last) = (true, place);
        }
        let style = self.style(series);
        html! { path class={ (curve_class(series.kind, style)) " c" (style % STYLES) } d=(path) {} }
    }

    /// What the pointer finds along a curve.
    fn places(&self, series: &Series) -> Markup {
        let every = series.x.len().div_ceil(MOST_TEXTS).max(1);
        html! {
            @for at in (0..series.x.len()).step_by(every) {
                @if let Some((x, y)) = self.place(series, at) {
                    circle.place cx={ (x) "%" } cy=(up(y)) r="4" data-t=(self.text(series, at)) {}
                }
            }
        }
    }

    fn points(&self, series: &Series) -> Markup {
        let style = self.style(series) % STYLES;
        let is_small = series.x.len() > MANY;
        html! {
            @for at in 0..series.x.len() {
                @if let Some((x, y)) = self.place(series, at) {
                    (self.interval(series, at, x))
                    use.small[is_small] href={ "#mark-" (style) } x={ (x) "%" } y=(up(y)) data-t=(self.text(series, at)) {}
                }
            }
        }
    }

    fn bars(&self, series: &Series) -> Markup {
        let group = 100.0 / self.x.ticks.len().max(1) as f64;
        let width = group * 0.8 / self.bars.len() as f64;
        let own = self.bars.iter().position(|bars| std::ptr::eq(*bars, series)).unwrap_or(0);
        let left = |at: usize| group * (at as f64 + 0.1) + width * own as f64;
        let zero = self.y.at(0.0).unwrap_or(0.0);
        html! {
            @for (at, value) in series.y.iter().enumerate() {
                @if let Some(y) = self.y.at(*value) {
                    rect x={ (two(left(at))) "%" } width={ (two(width * 0.94)) "%" } y=(up(y.max(zero))) height={ (two((y - zero).abs())) "%" }
                        data-t=(self.text(series, at)) {}
                    g.whisker { (self.interval(series, at, two(left(at) + width * 0.47))) }
                }
            }
        }
    }

    fn map(&self, series: &Series) -> Markup {
        let Some(scale) = &self.z else { return html! {} };
        let (rows, columns) = (series.z.len(), series.z.iter().map(Vec::len).max().unwrap_or(0));
        let (width, height) = (100.0 / columns as f64, 100.0 / rows as f64);
        let is_written = rows * columns <= MOST_WRITTEN_CELLS;
        let name =
            |labels: &[String], scale: &Scale, figures: &[f64], at: usize| match labels.get(at) {
                Some(label) => label.clone(),
                None => scale.named(figures.get(at).copied().unwrap_or(f64::NAN), None),
            };
        let cells = series.z.iter().enumerate().flat_map(|(row, values)| {
            values.iter().enumerate().map(move |(column, value)| (row, column, *value))
        });
        let drawn = cells.filter_map(|(row, column, value)| {
            let share = scale.at(value)? / 100.0;
            let text = [
                name(&series.labels, &self.x, &series.x, column),
                name(&series.y_labels, &self.y, &series.y, row),
                scale.named(value, None),
            ];
            let (x, y) = (width * column as f64, height * (rows - 1 - row) as f64);
            Some((
                two(x),
                two(y),
                share,
                text.join("\n"),
                fmt::quantity(value, self.plot.unit_of_z()),
            ))
        });
        html! {
            @for (x, y, share, text, value) in drawn {
                rect.cell x={ (x) "%" } y={ (y) "%" } width={ (two(width)) "%" } height={ (two(height)) "%" } fill=(colour(share)) data-t=(text) {}
                @if is_written {
                    text.bright[share < 0.6] x={ (two(x + width / 2.0)) "%" } y={ (two(y + height / 2.0)) "%" } { (value) }
                }
            }
        }
    }

    fn interval(&self, series: &Series, at: usize, x: f64) -> Markup {
        let end = |ends: &[f64]| self.y.at(*ends.get(at)?);
        let ends = end(&series.low).zip(end(&series.high));
        html! {
            @if let Some((low, high)) = ends { line.interval x1={ (x) "%" } x2={ (x) "%" } y1=(up(low)) y2=(up(high)) {} }
        }
    }

    fn place(&self, series: &Series, at: usize) -> Option<(f64, f64)> {
        Some((self.x.at(*series.x.get(at)?)?, self.y.at(*series.y.get(at)?)?))
    }

    /// What the pointer shows: name, figures and label.
    fn text(&self, series: &Series, at: usize) -> String {
        let interval = series.low.get(at).copied().zip(series.high.get(at).copied());
        let lines = [
            Some(series.name.clone()),
            series.x.get(at).map(|x| self.x.named(*x, None)),
            series.y.get(at).map(|y| self.y.named(*y, interval)),
            series.labels.get(at).cloned(),
        ];
        let lines: Vec<String> =
            lines.into_iter().flatten().filter(|line| !line.is_empty()).collect();
        lines.join("\n")
    }
}

fn is_curve(kind: Kind) -> bool {
    matches!(kind, Kind::Line | Kind::Dashed | Kind::Diagonal | Kind::Cdf)
}

fn curve_class(kind: Kind, style: usize) -> String {
    match kind {
        Kind::Dashed => format!("line dash-{}", style % DASHES),
        Kind::Diagonal => "line diagonal".to_owned(),
        _ => "line".to_owned(),
    }
}

/// A height as SVG has it: from the top.
fn up(percent: f64) -> String {
    format!("{}%", two(100.0 - percent))
}

/// Two decimals: a tenth of a pixel.
fn two(percent: f64) -> f64 {
    (percent * 100.0).round() / 100.0
}

fn colour(share: f64) -> String {
    let place = share.clamp(0.0, 1.0) * (COLOURS.len() - 1) as f64;
    let at = (place as usize).min(COLOURS.len() - 2);
    let mixed = |part: usize| {
        let (one, other) = (COLOURS[at][part], COLOURS[at + 1][part]);
        (one + (other - one) * (place - at as f64)).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mixed(0), mixed(1), mixed(2))
}
