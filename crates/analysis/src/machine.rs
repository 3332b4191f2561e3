// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine profile that a calibration's samples give.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use cowlab_model::cost::{Question, predict};
use cowlab_model::profile::{
    Cost, CycleCurve, CyclePoint, EntryPoint, MachineProfile, Measured, Writer, WrittenCycle,
};
use cowlab_model::stats::{estimate, log_spread, median, quantile};
use cowlab_schema::{calibrate, calibrate_among_work, calibrate_cycle};
use cowlab_store::Sample;

/// Primitive costs, in samples.
pub const BENCH: &str = calibrate::BENCH.name;
/// Fork cycles by size of the heap, in samples.
pub const CYCLES: &str = calibrate_cycle::BENCH.name;
/// Forks among work by size of the heap, in samples.
pub const AMONG_WORK: &str = calibrate_among_work::BENCH.name;

/// The machine profile that the samples of a calibration give. Fails without a calibration in the
/// samples.
pub fn profile_of(
    samples: &[Sample],
    page_size_bytes: u64,
    huge_page_bytes: Option<u64>,
) -> Result<MachineProfile> {
    let mut costs = BTreeMap::new();
    for metric in calibrate::BENCH.metrics {
        let figures: Vec<&Sample> =
            samples.iter().filter(|s| s.bench == BENCH && s.metric == metric.name).collect();
        let values: Vec<f64> = figures.iter().map(|s| s.value).collect();
        if let (Some(estimate), Some(first)) = (estimate(&values), figures.first()) {
            let cost = Cost { name: metric.what().to_owned(), unit: first.unit.clone(), estimate };
            costs.insert(metric.name.to_owned(), cost);
        }
    }
    let mut curves = Vec::new();
    for (writer, text) in [(Writer::Child, "child"), (Writer::Parent, "parent")] {
        for threads in [0, 1] {
            let of_curve = cycles_of(samples, text, threads);
            let points = points_of(&of_curve, page_size_bytes);
            if !points.is_empty() {
                let rounds = of_curve.iter().map(|s| s.rep + 1).max().unwrap_or(0);
                curves.push(CycleCurve { writer, threads, rounds, misfit: None, points });
            }
        }
    }
    if curves.is_empty() {
        bail!("these samples hold no calibration");
    }
    let of_huge = ["thp_split_ns", "thp_fork_among_work_ns_per_huge_page"];
    let has_huge = of_huge.iter().all(|cost| costs.contains_key(*cost));
    let huge = has_huge.then_some(huge_page_bytes).flatten();
    let entries_among_work = entries_of(samples, page_size_bytes);
    let mut profile = MachineProfile {
        page_size_bytes,
        huge_page_bytes: huge,
        costs,
        curves,
        entries_among_work,
    };
    try_on_half_written(&mut profile, samples);
    Ok(profile)
}

/// What one entry costs among work, by size of the heap.
fn entries_of(samples: &[Sample], page: u64) -> Vec<EntryPoint> {
    let mut by_pages: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.bench == AMONG_WORK) {
        if let Some(heap) = sample.params.get("heap_bytes").and_then(|heap| heap.parse().ok()) {
            let heap: u64 = heap;
            by_pages.entry(heap / page).or_default().push(sample.value);
        }
    }
    let point =
        |(pages, values): (u64, Vec<f64>)| Some(EntryPoint { pages, entry: measured_of(&values)? });
    by_pages.into_iter().filter_map(point).collect()
}

fn measured_of(values: &[f64]) -> Option<Measured> {
    Some(Measured { ns: median(values)?, log_spread: log_spread(values).unwrap_or(0.05) })
}

/// The fork cycles of one curve.
pub fn cycles_of<'a>(samples: &'a [Sample], writer: &str, threads: u32) -> Vec<&'a Sample> {
    let is = |sample: &Sample, key: &str, value: &str| {
        sample.params.get(key).is_some_and(|found| found == value)
    };
    let threads = threads.to_string();
    samples
        .iter()
        .filter(|s| s.bench == CYCLES && is(s, "writer", writer) && is(s, "threads", &threads))
        .collect()
}

/// Predict the heaps of which half was written and keep how far off that is. Every round of every
/// heap counts, so that it holds how far single measurements lie from their median as well.
fn try_on_half_written(profile: &mut MachineProfile, samples: &[Sample]) {
    let mut misfits = Vec::new();
    for curve in &profile.curves {
        let child = curve.writer == Writer::Child;
        let cycles = cycles_of(samples, if child { "child" } else { "parent" }, curve.threads);
        let errors: Vec<f64> = cycles
            .iter()
            .filter(|s| s.metric == "cycle_ns" && s.params["write_fraction"] == "0.5")
            .filter_map(|sample| {
                let pages =
                    sample.params["heap_bytes"].parse::<u64>().ok()? / profile.page_size_bytes;
                let written = pages.div_ceil(2);
                let question = Question {
                    pages,
                    written,
                    written_before: if child { 0 } else { written },
                    writer: curve.writer,
                    threads: curve.threads,
                    page_size_bytes: profile.page_size_bytes,
                    split_pages: None,
                    among_work: false,
                    vmas: None,
                };
                let predicted = predict(profile, &question).ok()?.elapsed_ns.value;
                Some((predicted / sample.value).ln())
            })
            .collect();
        // From the tail, since that is what an interval must cover: a machine that is in one of
        // two states for seconds at a time has errors that are nothing like normal.
        let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        misfits.push(quantile(&sizes, 0.95).map(|tail| tail / 1.96));
    }
    for (curve, misfit) in profile.curves.iter_mut().zip(misfits) {
        curve.misfit = misfit;
    }
}

fn points_of(samples: &[&Sample], page: u64) -> Vec<CyclePoint> {
    let measured = |heap: u64, fraction: &str, metric: &str| -> Option<Measured> {
        let values: Vec<f64> = samples
            .iter()
            .filter(|s| {
                s.metric == metric
                    && s.params.get("heap_bytes").is_some_and(|h| *h == heap.to_string())
                    && s.params.get("write_fraction").is_some_and(|f| f == fraction)
            })
            .map(|s| s.value)
            .collect();
        measured_of(&values)
    };
    let heap = |sample: &&Sample| sample.params.get("heap_bytes")?.parse().ok();
    let heaps: BTreeSet<u64> = samples.iter().filter_map(heap).collect();
    heaps
        .into_iter()
        .filter_map(|heap| {
            let written = || -> Option<WrittenCycle> {
                Some(WrittenCycle {
                    fork: measured(heap, "1", "fork_ns")?,
                    write: measured(heap, "1", "write_ns")?,
                    rest: measured(heap, "1", "rest_ns")?,
                })
            };
            Some(CyclePoint {
                pages: heap / page,
                fork: measured(heap, "0", "fork_ns")?,
                rest: measured(heap, "0", "rest_ns")?,
                written: written(),
            })
        })
        .collect()
}
