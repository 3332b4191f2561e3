// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model against measurements that it was not fitted to.

use cowlab_analysis::check::{Check, Checked};
use cowlab_analysis::study::Study;
use cowlab_model::Estimate;
use cowlab_model::cost::Predicted;

use crate::Rows;
use crate::document::{Axis, Block, Cell, Plot, Section, Series, Table};
use crate::fmt::{self, percent};
use crate::study::not_available;

/// Anchor of the plot of predictions.
pub(super) const PLOT: &str = "predicted";

pub(super) fn section(study: &Study) -> Section {
    let title = "The model, checked";
    let mut blocks = vec![Block::Text(
        "The model is the document's equation with what the calibration measures: costs per page \
         that depend on the size of the memory, who writes, and whether another thread runs. It \
         predicted forks at random points (sizes, fractions, writers, threads chosen by the run's \
         seed) that were used to fit nothing and were measured between the calibration's rounds."
            .into(),
    )];
    let Some(check) = study.check.as_ref().filter(|check| !check.points.is_empty()) else {
        let needs = "random points that the study of this machine measures and predicts";
        blocks.push(not_available(study, "The check", &["predict-check"], needs));
        return Section::new("model", title, blocks);
    };
    blocks.push(Block::Table(figures(check)));
    blocks.push(Block::Plot(predicted(check)));
    blocks.push(Block::Table(points(check, study.profile.page_size_bytes)));
    Section::new("model", title, blocks)
}

fn figures(check: &Check) -> Table {
    let figures = [
        ("median error", check.median_error, "half of the predictions are closer, either way"),
        ("95th percentile of the error", check.p95_error, "19 of 20 predictions are closer"),
        ("worst error", check.worst_error(), "of all of them"),
        (
            "coverage",
            check.coverage,
            "single measurements that lie in their 95% prediction interval; less than 95% would \
             mean intervals that promise too much",
        ),
        (
            "half width of the intervals",
            check.interval_half_width,
            "median, relative to the prediction: what coverage costs",
        ),
        (
            "bias",
            check.bias(),
            "median of the signed errors: below 0, predictions tend to be too short",
        ),
        (
            "repeat noise",
            check.repeat_noise(),
            "median half width of the measurements' own intervals",
        ),
    ];
    let caption = format!("How good {} predictions were", fmt::count(check.points.len() as u64));
    Rows::of("model-figures", caption, &figures)
        .text("Figure", |(name, ..)| *name)
        .figure("Value", |(_, share, _)| Cell::number(*share, "fraction"))
        .text("Meaning", |(.., meaning)| *meaning)
        .table()
}

/// `the child writes, another thread running`.
fn kind(point: &Checked) -> String {
    let with = if point.question.threads > 0.0 { ", another thread running" } else { "" };
    format!("the {} writes{with}", point.question.writer)
}

/// The points by their kind, in order of first appearance.
fn by_kind(check: &Check) -> Vec<(String, Vec<&Checked>)> {
    let mut kinds: Vec<(String, Vec<&Checked>)> = Vec::new();
    for point in &check.points {
        let kind = kind(point);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, points)) => points.push(point),
            None => kinds.push((kind, vec![point])),
        }
    }
    kinds
}

fn predicted(check: &Check) -> Plot {
    let mut plot = Plot::new(
        PLOT,
        "Predicted against measured time of a fork, its writes and its end",
        Axis::log("Measured", "ns"),
        Axis::log("Predicted", "ns"),
    )
    .caption("Bars are 95% prediction intervals; points on the diagonal were predicted exactly.");
    plot.series.push(Series::diagonal("predicted = measured"));
    for (kind, points) in by_kind(check) {
        let points = points.iter().map(|p| {
            let Predicted { value, low, high } = p.prediction.elapsed_ns;
            (p.measured_ns.value, Estimate { value, low, high, count: 1 })
        });
        plot.draw(Series::estimates(kind, points));
    }
    plot
}

fn points(check: &Check, page: u64) -> Table {
    let mut sorted: Vec<&Checked> = check.points.iter().collect();
    sorted.sort_by_key(|p| p.question.pages);
    Rows::of("model-points", "Every point of the check", &sorted)
        .unit("Heap", "bytes", |p| Cell::number((p.question.pages * page) as f64, "bytes"))
        .unit("Written", "fraction", |p| {
            let of = p.question.written as f64 / p.question.pages.max(1) as f64;
            Cell::number(of, "fraction")
        })
        .text("Case", |p| kind(p))
        .unit("Predicted (95% prediction interval)", "ns", |p| {
            let Predicted { value, low, high } = p.prediction.elapsed_ns;
            Cell::estimate(value, low, high, "ns")
        })
        .unit("Measured (95% interval)", "ns", |p| {
            let Estimate { value, low, high, .. } = p.measured_ns;
            Cell::estimate(value, low, high, "ns")
        })
        .unit("Error of the prediction", "fraction", |p| {
            Cell::number(p.relative_error(), "fraction")
        })
        .text("In the interval", |p| format!("{} of {}", p.in_interval.0, p.in_interval.1))
        .table()
}

pub(super) fn sentence(check: &Check) -> String {
    format!(
        "The model predicts a fork, its writes and its end within {} (median) and {} (19 of 20).",
        percent(check.median_error),
        percent(check.p95_error)
    )
}
