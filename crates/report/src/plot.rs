// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plot shows. Values are raw, in their axis' unit; scaling and ticks are the renderer's.

use cowlab_model::Estimate;
use serde::Serialize;

mod axis;
mod field;
mod hover;
mod spec;
mod trace;

pub(crate) use spec::spec;

/// A plot.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Plot {
    /// Anchor, unique in the document.
    pub id: String,
    /// The heading: what is seen, as a sentence if there is one.
    pub title: String,
    /// How to read it; markup as in [`Block::Text`](crate::document::Block::Text).
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis; for a surface or heat map the second horizontal one.
    pub y: Axis,
    /// The value of a surface or heat map.
    pub z: Option<Axis>,
    /// What is drawn, later ones on top. Series of one name share a colour and a legend entry.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Axis {
    /// What it shows, without the unit.
    pub title: String,
    /// Unit of the raw values, as in metric names: `ns`, `bytes`, `fraction`, `per_s`, `pages`, …
    pub unit: Option<String>,
    /// Whether it is logarithmic.
    pub log: bool,
}

/// Something drawn in a plot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Series {
    /// Measured points, with error bars where intervals are known.
    Points {
        /// Legend entry.
        name: String,
        /// Positions.
        x: Vec<f64>,
        /// Values.
        y: Vec<f64>,
        /// Lower ends of the intervals.
        low: Option<Vec<f64>>,
        /// Upper ends of the intervals.
        high: Option<Vec<f64>>,
        /// What the pointer shows for each point besides its figures.
        labels: Option<Vec<String>>,
    },
    /// A line, for a model or a guide.
    Line {
        /// Legend entry.
        name: String,
        /// Positions.
        x: Vec<f64>,
        /// Values.
        y: Vec<f64>,
        /// Whether it is dashed: for what was predicted or published, not measured here.
        dashed: bool,
    },
    /// The line y = x, for predicted against measured; makes both axes' ranges the same.
    Diagonal {
        /// Legend entry.
        name: String,
    },
    /// A cumulative distribution: the fraction `p` of samples is at most `x`.
    Cdf {
        /// Legend entry.
        name: String,
        /// Values, ascending.
        x: Vec<f64>,
        /// Fractions from 0 to 1, ascending.
        p: Vec<f64>,
    },
    /// A bar for each category.
    Bars {
        /// Legend entry.
        name: String,
        /// Categories.
        labels: Vec<String>,
        /// Heights.
        y: Vec<f64>,
        /// Lower ends of the intervals.
        low: Option<Vec<f64>>,
        /// Upper ends of the intervals.
        high: Option<Vec<f64>>,
    },
    /// A surface over a grid, in three dimensions; needs [`Plot::z`].
    Surface {
        /// Legend entry.
        name: String,
        /// Grid positions along x.
        x: Vec<f64>,
        /// Grid positions along y.
        y: Vec<f64>,
        /// Values, a row for each y.
        z: Vec<Vec<f64>>,
    },
    /// A grid of coloured cells; the axis shows labels where they are given.
    Heatmap {
        /// Legend entry.
        name: String,
        /// Grid positions along x.
        x: Vec<f64>,
        /// Grid positions along y.
        y: Vec<f64>,
        /// Values, a row for each y.
        z: Vec<Vec<f64>>,
        /// Categories along x instead of positions.
        x_labels: Option<Vec<String>>,
        /// Categories along y instead of positions.
        y_labels: Option<Vec<String>>,
    },
}

impl Plot {
    /// A plot without series.
    pub fn new(id: impl Into<String>, title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Plot { id: id.into(), title: title.into(), x, y, ..Self::default() }
    }

    /// Sets how to read it.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Sets the value axis of a surface or heat map.
    pub fn z(mut self, axis: Axis) -> Self {
        self.z = Some(axis);
        self
    }

    /// Adds a series.
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

    /// Whether it needs three dimensions, and so WebGL.
    pub fn is_spatial(&self) -> bool {
        self.series.iter().any(|s| matches!(s, Series::Surface { .. }))
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
    /// Points without intervals or labels.
    pub fn points(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let (x, y) = points.into_iter().unzip();
        Series::Points { name: name.into(), x, y, low: None, high: None, labels: None }
    }

    /// The same points with what the pointer shows besides their figures.
    pub fn labelled(mut self, own: Vec<String>) -> Self {
        if let Series::Points { labels, .. } = &mut self {
            *labels = Some(own);
        }
        self
    }

    /// Points with intervals.
    pub fn estimates(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, Estimate)>,
    ) -> Self {
        let (x, estimates): (_, Vec<Estimate>) = points.into_iter().unzip();
        let of = |end: fn(&Estimate) -> f64| estimates.iter().map(end).collect();
        let (low, high) = (Some(of(|e| e.low)), Some(of(|e| e.high)));
        Series::Points { name: name.into(), x, y: of(|e| e.value), low, high, labels: None }
    }

    /// A line, dashed for what was not measured here.
    pub fn line(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
        dashed: bool,
    ) -> Self {
        let (x, y) = points.into_iter().unzip();
        Series::Line { name: name.into(), x, y, dashed }
    }

    /// A cumulative distribution, by its values and the shares that are at most as large.
    pub fn cdf(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let (x, p) = points.into_iter().unzip();
        Series::Cdf { name: name.into(), x, p }
    }

    fn is_empty(&self) -> bool {
        match self {
            Series::Points { x, .. } | Series::Line { x, .. } | Series::Cdf { x, .. } => {
                x.is_empty()
            }
            _ => false,
        }
    }

    /// The legend entry.
    pub fn name(&self) -> &str {
        match self {
            Series::Points { name, .. }
            | Series::Line { name, .. }
            | Series::Diagonal { name }
            | Series::Cdf { name, .. }
            | Series::Bars { name, .. }
            | Series::Surface { name, .. }
            | Series::Heatmap { name, .. } => name,
        }
    }
}
