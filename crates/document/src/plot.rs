// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plot shows. Values are raw, in the axis's unit; scaling and ticks are the renderer's.

use cowlab_model::Estimate;
use serde::Serialize;

mod axis;
mod draw;

pub(crate) use draw::{chart, symbols};

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Plot {
    pub id: String,
    /// The heading: what is seen, as a sentence if there is one.
    pub title: String,
    /// How to read it; markup as in [`Block::Text`](crate::document::Block::Text).
    pub caption: String,
    pub x: Axis,
    pub y: Axis,
    pub z: Option<Axis>,
    /// What is drawn, later ones on top. Series of one name share a colour and a legend entry.
    pub series: Vec<Series>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Axis {
    /// What it shows, without the unit.
    pub title: String,
    /// Unit of the raw values, as in metric names: `ns`, `bytes`, `fraction`, `per_s`, `pages`, …
    pub unit: Option<String>,
    /// Whether it is logarithmic.
    pub log: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Points,
    /// A line, for a model or a guide.
    Line,
    /// A dashed line, for what was predicted or published, not measured here.
    Dashed,
    /// The line y = x, for predicted against measured; makes both axes' ranges the same.
    Diagonal,
    /// A cumulative distribution: the fraction y, from 0 to 1, of samples is at most x.
    Cdf,
    Bars,
    /// A grid of coloured cells; needs [`Plot::z`].
    Map,
}

/// Something drawn in a plot. What its kind does not have is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Series {
    pub name: String,
    pub kind: Kind,
    /// Positions, of a grid as well.
    pub x: Vec<f64>,
    /// Values; of a grid its positions along y.
    pub y: Vec<f64>,
    /// Lower ends of the values' intervals, where they are known.
    pub low: Vec<f64>,
    pub high: Vec<f64>,
    /// Values over a grid, a row for each y.
    pub z: Vec<Vec<f64>>,
    /// What the pointer shows for each point besides its figures; names of bars, and of a map's
    /// columns instead of their positions.
    pub labels: Vec<String>,
    /// Names of a map's rows instead of their positions.
    pub y_labels: Vec<String>,
}

impl Plot {
    /// A plot without series.
    pub fn new(id: impl Into<String>, title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Plot { id: id.into(), title: title.into(), x, y, ..Self::default() }
    }

    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Sets the value axis of a map.
    pub fn z(mut self, axis: Axis) -> Self {
        self.z = Some(axis);
        self
    }

    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a series, if it has any points.
    pub fn draw(&mut self, series: Series) {
        if !series.is_empty() {
            self.series.push(series);
        }
    }

    /// The plot, if anything is drawn in it.
    pub fn drawn(self) -> Option<Plot> {
        (!self.series.is_empty()).then_some(self)
    }

    fn has(&self, kind: Kind) -> bool {
        self.series.iter().any(|series| series.kind == kind)
    }

    fn unit_of_z(&self) -> &str {
        self.z.as_ref().unwrap_or(&self.y).unit()
    }
}

impl Axis {
    /// A linear axis in `unit` (`""` for none).
    pub fn linear(title: impl Into<String>, unit: &str) -> Self {
        let unit = (!unit.is_empty()).then(|| unit.to_owned());
        Axis { title: title.into(), unit, log: false }
    }

    /// A logarithmic axis in `unit` (`""` for none).
    pub fn log(title: impl Into<String>, unit: &str) -> Self {
        Axis { log: true, ..Self::linear(title, unit) }
    }

    /// The unit, or `""`.
    pub(crate) fn unit(&self) -> &str {
        self.unit.as_deref().unwrap_or("")
    }
}

impl Series {
    fn of(
        kind: Kind,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let (x, y) = points.into_iter().unzip();
        Series { name: name.into(), kind, x, y, ..Series::default() }
    }

    /// Points without intervals or labels.
    pub fn points(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Series::of(Kind::Points, name, points)
    }

    pub fn estimates(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, Estimate)>,
    ) -> Self {
        let (x, estimates): (Vec<f64>, Vec<Estimate>) = points.into_iter().unzip();
        Series { name: name.into(), x, ..Series::default() }.measured(&estimates)
    }

    /// A line, dashed for what was not measured here.
    pub fn line(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
        dashed: bool,
    ) -> Self {
        Series::of(if dashed { Kind::Dashed } else { Kind::Line }, name, points)
    }

    pub fn diagonal(name: impl Into<String>) -> Self {
        Series::of(Kind::Diagonal, name, [])
    }

    /// A cumulative distribution, by its values and the shares that are at most as large.
    pub fn cdf(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Series::of(Kind::Cdf, name, points)
    }

    pub fn bars(name: impl Into<String>, labels: Vec<String>, y: Vec<f64>) -> Self {
        Series { name: name.into(), kind: Kind::Bars, labels, y, ..Series::default() }
    }

    /// Values over a grid, a row for each y.
    pub fn map(name: impl Into<String>, [x, y]: [Vec<f64>; 2], z: Vec<Vec<f64>>) -> Self {
        Series { name: name.into(), kind: Kind::Map, x, y, z, ..Series::default() }
    }

    /// The same with these values and their intervals.
    pub fn measured(self, estimates: &[Estimate]) -> Self {
        let of = |end: fn(&Estimate) -> f64| estimates.iter().map(end).collect();
        Series { y: of(|e| e.value), low: of(|e| e.low), high: of(|e| e.high), ..self }
    }

    /// The same with what the pointer shows besides the figures, or with names instead of positions.
    pub fn labelled(self, labels: Vec<String>) -> Self {
        Series { labels, ..self }
    }

    fn is_empty(&self) -> bool {
        self.kind != Kind::Diagonal && self.y.is_empty()
    }
}
