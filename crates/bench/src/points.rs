// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random points that the model was not fitted to: how good are its predictions?

use std::collections::BTreeMap;

use anyhow::Result;
use cowlab_model::cost::{Prediction, Question, predict};
use cowlab_model::profile::{MachineProfile, WritingProcess};
use cowlab_model::stats::{Estimate, estimate, quantile};
use cowlab_probes::{DoFork, Writer};
use cowlab_store::Sample;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use crate::calibrate::{Cycle, written_forks};
use crate::task::{Recorder, Task};

/// The name of these measurements in samples.
pub const BENCH: &str = "predict-check";

/// How many points.
pub const POINTS: usize = 40;

const SMALLEST_BYTES: f64 = (4 << 20) as f64;
const LARGEST_BYTES: f64 = (1 << 30) as f64;

/// Points chosen by `seed`: sizes evenly spread over their logarithm, fractions evenly, writers and
/// numbers of threads in turn.
pub fn points(seed: u64, page: u64, other_cpus: bool, largest_bytes: u64) -> Vec<DoFork> {
    let mut random = StdRng::seed_from_u64(seed);
    let largest = LARGEST_BYTES.min(largest_bytes as f64).max(SMALLEST_BYTES);
    (0..POINTS)
        .map(|index| {
            let bytes = SMALLEST_BYTES * (largest / SMALLEST_BYTES).powf(random.random::<f64>());
            let fraction = (random.random::<f64>() * 1000.0).round() / 1000.0;
            let pages = bytes as u64 / page;
            let writer = if index % 2 == 0 { Writer::Child } else { Writer::Parent };
            let threads = u32::from(other_cpus && index % 4 >= 2);
            let forks = written_forks(pages * page);
            DoFork { writer, threads, ..DoFork::new(forks, pages * page, fraction, page) }
        })
        .collect()
}

/// Measure each point once a round.
pub fn tasks(points: Vec<DoFork>) -> Vec<Task> {
    let task = |(index, settings): (usize, DoFork)| {
        Task::new(format!("{BENCH}: point {}", index + 1), move |runner, rep| {
            let result = settings.run(runner)?;
            let mut params = settings.params();
            params.insert("point".to_owned(), index.to_string());
            let mut out = Recorder::new(BENCH, params, rep, result.start_unix_ns);
            if let Some(cycle) = Cycle::of(&result) {
                out.add("elapsed_ns", cycle.cycle_ns);
            }
            Ok(out.finish())
        })
    };
    points.into_iter().enumerate().map(task).collect()
}

/// One point: what was predicted and what was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// What was asked.
    pub question: Question,
    /// What the model answered.
    pub prediction: Prediction,
    /// What was measured, with the repeat noise.
    pub measured_ns: Estimate,
    /// Of the single measurements those that lie in the prediction interval, and all of them.
    pub in_interval: (usize, usize),
}

impl Checked {
    /// (predicted − measured) ÷ measured.
    pub fn relative_error(&self) -> f64 {
        self.prediction.elapsed_ns.value / self.measured_ns.value - 1.0
    }
}

/// How good the predictions were.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Every point.
    pub points: Vec<Checked>,
    /// Median of the absolute relative errors.
    pub median_error: f64,
    /// Their 95th percentile.
    pub p95_error: f64,
    /// Share of the single measurements in their point's prediction interval, which promises it for
    /// single ones.
    pub coverage: f64,
    /// Median half width of the prediction intervals, relative to the prediction.
    pub interval_half_width: f64,
}

/// Predict every measured point in `samples`. `None` if there is none.
pub fn check(samples: &[Sample], profile: &MachineProfile) -> Result<Option<Check>> {
    let mut by_point: BTreeMap<usize, Vec<&Sample>> = BTreeMap::new();
    for sample in samples.iter().filter(|s| s.bench == BENCH && s.metric == "elapsed_ns") {
        if let Some(point) = sample.params.get("point").and_then(|p| p.parse().ok()) {
            by_point.entry(point).or_default().push(sample);
        }
    }
    let mut points = Vec::new();
    for samples in by_point.values() {
        let values: Vec<f64> = samples.iter().map(|s| s.value).collect();
        let Some(measured_ns) = estimate(&values) else { continue };
        let Some(question) = question_of(samples[0], profile.page_size_bytes) else { continue };
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

fn question_of(sample: &Sample, page: u64) -> Option<Question> {
    let param = |key: &str| sample.params.get(key);
    let heap: f64 = param("heap_bytes")?.parse().ok()?;
    let fraction: f64 = param("write_fraction")?.parse().ok()?;
    let child = param("writer")? == "child";
    let written = (heap * fraction / page as f64).ceil() as u64;
    Some(Question {
        pages: (heap / page as f64).ceil() as u64,
        written,
        // Steady state: the parent's own writes since the last fork.
        written_before: if child { 0 } else { written },
        writer: if child { WritingProcess::Child } else { WritingProcess::Parent },
        threads: param("threads")?.parse().ok()?,
        page_size_bytes: page,
        split_pages: None,
        among_work: false,
        vmas: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_follow_their_seed_and_range() {
        let chosen = points(1, 4096, true, u64::MAX);
        assert_eq!(chosen.len(), POINTS);
        assert_eq!(chosen, points(1, 4096, true, u64::MAX));
        assert_ne!(chosen, points(2, 4096, true, u64::MAX));
        for point in &chosen {
            assert!(
                (4 << 20..=1 << 30).contains(&(point.heap_bytes + 4096)),
                "{}",
                point.heap_bytes
            );
            assert_eq!(point.check(), Ok(()));
        }
        for (writer, threads) in
            [(Writer::Child, 0), (Writer::Child, 1), (Writer::Parent, 0), (Writer::Parent, 1)]
        {
            let of_kind = |p: &&DoFork| p.writer == writer && p.threads == threads;
            assert_eq!(chosen.iter().filter(of_kind).count(), POINTS / 4);
        }
        assert!(
            points(1, 4096, false, 64 << 20)
                .iter()
                .all(|p| p.threads == 0 && p.heap_bytes <= 64 << 20)
        );
    }
}
