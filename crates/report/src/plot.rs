// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plot shows. Values are raw, in their axis' unit; scaling and ticks are the renderer's.

use serde::Serialize;

mod axis;
mod field;
mod hover;
mod spec;
mod trace;

pub(crate) use spec::spec;

/// Points kept of a cumulative distribution: more than a screen has columns.
const CDF_POINTS: usize = 1000;

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
    /// The area between two curves, such as a prediction's interval.
    Band {
        /// Legend entry.
        name: String,
        /// Positions.
        x: Vec<f64>,
        /// Lower curve.
        low: Vec<f64>,
        /// Upper curve.
        high: Vec<f64>,
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
    /// Counts of samples between successive edges.
    Histogram {
        /// Legend entry.
        name: String,
        /// Edges, ascending; one more than `counts`.
        edges: Vec<f64>,
        /// Samples from each edge (inclusive) to the next (exclusive).
        counts: Vec<f64>,
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
    /// A box plot of raw samples: quartiles, median and outliers.
    Spread {
        /// Category and legend entry.
        name: String,
        /// The samples.
        values: Vec<f64>,
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
    /// Points in three dimensions, such as the measurements that a surface was fitted to.
    Cloud {
        /// Legend entry.
        name: String,
        /// Positions along x.
        x: Vec<f64>,
        /// Positions along y.
        y: Vec<f64>,
        /// Values.
        z: Vec<f64>,
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

    /// Whether it needs three dimensions, and so WebGL.
    pub fn is_spatial(&self) -> bool {
        self.series.iter().any(|s| matches!(s, Series::Surface { .. } | Series::Cloud { .. }))
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
    pub fn points(name: impl Into<String>, x: Vec<f64>, y: Vec<f64>) -> Self {
        Series::Points { name: name.into(), x, y, low: None, high: None, labels: None }
    }

    /// Points with intervals.
    pub fn estimates(
        name: impl Into<String>,
        x: Vec<f64>,
        y: Vec<f64>,
        low: Vec<f64>,
        high: Vec<f64>,
    ) -> Self {
        let (low, high) = (Some(low), Some(high));
        Series::Points { name: name.into(), x, y, low, high, labels: None }
    }

    /// The cumulative distribution of `samples`, thinned to what a screen can show.
    pub fn cdf(name: impl Into<String>, samples: &[f64]) -> Self {
        let sorted = sorted(samples);
        let last = sorted.len().saturating_sub(1);
        let step = last / CDF_POINTS + 1;
        let kept = || (0..sorted.len()).filter(|index| index % step == 0 || *index == last);
        let x = kept().map(|index| sorted[index]).collect();
        let p = kept().map(|index| (index + 1) as f64 / sorted.len() as f64).collect();
        Series::Cdf { name: name.into(), x, p }
    }

    /// A histogram of `samples` in `bins` bins of one width, or one ratio if `log`.
    ///
    /// Samples that are not finite, or not positive if `log`, are left out.
    pub fn histogram(name: impl Into<String>, samples: &[f64], bins: usize, log: bool) -> Self {
        let name = name.into();
        let sorted: Vec<f64> = sorted(samples).into_iter().filter(|v| !log || *v > 0.0).collect();
        let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else {
            return Series::Histogram { name, edges: Vec::new(), counts: Vec::new() };
        };
        let to = |v: f64| if log { v.ln() } else { v };
        let from = |v: f64| if log { v.exp() } else { v };
        let bins = bins.max(1);
        let width = (to(last) - to(first)) / bins as f64;
        let width = if width > 0.0 { width } else { 1.0 };
        let mut counts = vec![0.0; bins];
        for value in sorted {
            counts[(((to(value) - to(first)) / width) as usize).min(bins - 1)] += 1.0;
        }
        let edges = (0..=bins).map(|bin| from(to(first) + width * bin as f64)).collect();
        Series::Histogram { name, edges, counts }
    }

    /// The legend entry.
    pub fn name(&self) -> &str {
        match self {
            Series::Points { name, .. }
            | Series::Line { name, .. }
            | Series::Band { name, .. }
            | Series::Diagonal { name }
            | Series::Cdf { name, .. }
            | Series::Histogram { name, .. }
            | Series::Bars { name, .. }
            | Series::Spread { name, .. }
            | Series::Surface { name, .. }
            | Series::Cloud { name, .. }
            | Series::Heatmap { name, .. } => name,
        }
    }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}
