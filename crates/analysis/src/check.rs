// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How good predictions are: of points that the model was not fitted to.

use anyhow::Result;
use cowlab_model::cost::{Prediction, Question, predict};
use cowlab_model::profile::{MachineProfile, Writer};
use cowlab_model::stats::{Estimate, estimate, median, quantile};
use cowlab_schema::fork_sweep::{HEAP_BYTES, THREADS, WRITE_FRACTION, WRITER};
use cowlab_schema::predict_check::{BENCH, ELAPSED_NS, POINT};
use cowlab_store::{Params, Sample};
use serde::Serialize;

use crate::samples::Samples;

/// One point: what was predicted and what was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    pub question: Question,
    pub prediction: Prediction,
    /// What was measured, with the repeat noise.
    pub measured_ns: Estimate,
    /// Of the single measurements those that lie in the prediction interval, and all of them.
    pub in_interval: (usize, usize),
}

impl Checked {
    pub fn relative_error(&self) -> f64 {
        self.prediction.elapsed_ns.value / self.measured_ns.value - 1.0
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Check {
    pub points: Vec<Checked>,
    /// Median of the absolute relative errors.
    pub median_error: f64,
    pub p95_error: f64,
    /// Share of the single measurements in their point's prediction interval, which promises it for
    /// single ones.
    pub coverage: f64,
    /// Median half width of the prediction intervals, relative to the prediction.
    pub interval_half_width: f64,
}

impl Check {
    pub fn bias(&self) -> f64 {
        self.median(Checked::relative_error)
    }

    /// How far repetitions of one measurement spread: smaller errors cannot be told from noise.
    pub fn repeat_noise(&self) -> f64 {
        self.median(|p| (p.measured_ns.high - p.measured_ns.low) / 2.0 / p.measured_ns.value)
    }

    pub fn worst_error(&self) -> f64 {
        self.points.iter().map(|point| point.relative_error().abs()).fold(0.0, f64::max)
    }

    fn median(&self, of: impl Fn(&Checked) -> f64) -> f64 {
        median(&self.points.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    }
}

/// Predict every measured point in `samples`. `None` if there is none.
pub fn check(samples: &[Sample], profile: &MachineProfile) -> Result<Option<Check>> {
    let all = Samples::of(samples, BENCH).of_metric(ELAPSED_NS);
    let mut points = Vec::new();
    for point in all.numbers(POINT) {
        let own = all.with(POINT, point);
        let values = own.values(ELAPSED_NS);
        let Some(measured_ns) = estimate(&values) else { continue };
        let question = own.params().next().and_then(|of| question_of(of, profile.page_size_bytes));
        let Some(question) = question else { continue };
        let prediction = predict(profile, &question)?;
        let interval = prediction.elapsed_ns.low..=prediction.elapsed_ns.high;
        let inside = values.iter().filter(|ns| interval.contains(*ns)).count();
        let in_interval = (inside, values.len());
        points.push(Checked { question, prediction, measured_ns, in_interval });
    }
    let errors: Vec<f64> = points.iter().map(|p| p.relative_error().abs()).collect();
    let widths: Vec<f64> = points
        .iter()
        .map(|p| {
            let predicted = p.prediction.elapsed_ns;
            (predicted.high - predicted.low) / 2.0 / predicted.value
        })
        .collect();
    let (Some(median_error), Some(p95_error), Some(interval_half_width)) =
        (quantile(&errors, 0.5), quantile(&errors, 0.95), quantile(&widths, 0.5))
    else {
        return Ok(None);
    };
    let sum = |of: fn(&(usize, usize)) -> usize| points.iter().map(|p| of(&p.in_interval)).sum();
    let (inside, all): (usize, usize) = (sum(|of| of.0), sum(|of| of.1));
    let coverage = inside as f64 / all as f64;
    Ok(Some(Check { points, median_error, p95_error, coverage, interval_half_width }))
}

fn question_of(params: &Params, page: u64) -> Option<Question> {
    let heap = HEAP_BYTES.of(params)? as f64;
    let written = (heap * WRITE_FRACTION.of(params)? / page as f64).ceil() as u64;
    let writer = match WRITER.of(params)? {
        Writer::Child => Writer::Child,
        _ => Writer::Parent,
    };
    Some(Question {
        pages: (heap / page as f64).ceil() as u64,
        written,
        // Steady state: the parent's own writes since the last fork.
        written_before: if writer == Writer::Child { 0 } else { written },
        writer,
        threads: f64::from(THREADS.of(params)?),
        page_size_bytes: page,
        split_pages: None,
        among_work: false,
        cpu_ns_per_copy: None,
        nearby_share: None,
        vmas: None,
    })
}
