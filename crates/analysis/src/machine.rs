// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine profile that a calibration's samples give.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use cowlab_model::cost::{Question, predict};
use cowlab_model::profile::{
    Cost, CycleCurve, CyclePoint, EntryPoint, MachineProfile, Measured, PacePoint, Writer,
    WrittenCycle,
};
use cowlab_model::stats::{log_spread, median, quantile};
use cowlab_schema::calibrate_cycle::{
    CYCLE_NS, FORK_NS, HEAP_BYTES, REST_NS, THREADS, WRITE_FRACTION, WRITE_NS, WRITER,
};
use cowlab_schema::{
    Metric, Pattern, calibrate, calibrate_among_work, calibrate_cycle, calibrate_pace,
};
use cowlab_store::Sample;

use crate::samples::Samples;

/// The machine profile that the samples of a calibration give. Fails without a calibration in the
/// samples.
pub fn profile_of(
    samples: &[Sample],
    page_size_bytes: u64,
    huge_page_bytes: Option<u64>,
) -> Result<MachineProfile> {
    let measured = Samples::of(samples, calibrate::BENCH);
    let cost = |metric: &Metric| {
        let (name, unit) = (metric.what().to_owned(), metric.unit.to_owned());
        let estimate = measured.estimate(*metric)?;
        Some((metric.name.to_owned(), Cost { name, unit, estimate }))
    };
    let costs: BTreeMap<String, Cost> = calibrate::BENCH.metrics.iter().filter_map(cost).collect();
    let mut curves = Vec::new();
    for writer in [Writer::Child, Writer::Parent] {
        for threads in [0, 1] {
            let of_curve = cycles_of(samples, writer, threads);
            let points = points_of(&of_curve, page_size_bytes);
            if !points.is_empty() {
                // Of its points some were measured more often.
                let of_heap =
                    |heap| of_curve.with(HEAP_BYTES, heap).with(WRITE_FRACTION, 0.0).rounds();
                let rounds = of_curve.numbers(HEAP_BYTES).into_iter().map(of_heap);
                let rounds = rounds.filter(|rounds| *rounds > 0).min().unwrap_or(0) as u32;
                curves.push(CycleCurve { writer, threads, rounds, misfit: None, points });
            }
        }
    }
    if curves.is_empty() {
        bail!("these samples hold no calibration");
    }
    let of_huge = [calibrate::THP_SPLIT_NS, calibrate::THP_FORK_AMONG_WORK_NS_PER_HUGE_PAGE];
    let has_huge = of_huge.iter().all(|cost| costs.contains_key(cost.name));
    let huge = has_huge.then_some(huge_page_bytes).flatten();
    let entries_among_work = entries_of(samples, page_size_bytes);
    let mut profile = MachineProfile {
        page_size_bytes,
        huge_page_bytes: huge,
        costs,
        curves,
        entries_among_work,
        copies_by_pace: copies_of(samples, Pattern::Random),
        copies_in_order: copies_of(samples, Pattern::Sequential),
        is_usual: false,
    };
    try_on_half_written(&mut profile, samples);
    Ok(profile)
}

/// What one entry costs among work, by size of the heap.
fn entries_of(samples: &[Sample], page: u64) -> Vec<EntryPoint> {
    let entries = Samples::of(samples, calibrate_among_work::BENCH);
    let heaps = entries.numbers(calibrate_among_work::HEAP_BYTES).into_iter();
    let point = |heap: u64| {
        let own = entries.with(calibrate_among_work::HEAP_BYTES, heap);
        let values = own.values(calibrate_among_work::PTE_AMONG_WORK_NS_PER_PAGE);
        Some(EntryPoint { pages: heap / page, entry: measured_of(&values)? })
    };
    heaps.filter_map(point).collect()
}

/// What a copy costs by the program's own work between two, least first.
fn copies_of(samples: &[Sample], pattern: Pattern) -> Vec<PacePoint> {
    let paces = Samples::of(samples, calibrate_pace::BENCH);
    // Older runs have one pattern and no parameter for it.
    let paces = match pattern {
        Pattern::Random if paces.by(calibrate_pace::PATTERN).is_empty() => paces,
        _ => paces.with(calibrate_pace::PATTERN, pattern),
    };
    let point = |work_reads: u64| {
        let own = paces.with(calibrate_pace::WORK_READS, work_reads);
        let own_ns = median(&own.values(calibrate_pace::OWN_NS))?;
        let copy = measured_of(&own.values(calibrate_pace::COW_AT_PACE_NS))?;
        Some(PacePoint { own_ns, copy })
    };
    paces.numbers(calibrate_pace::WORK_READS).into_iter().filter_map(point).collect()
}

fn measured_of(values: &[f64]) -> Option<Measured> {
    Some(Measured { ns: median(values)?, log_spread: log_spread(values).unwrap_or(0.05) })
}

/// The fork cycles of one curve.
pub fn cycles_of(samples: &[Sample], writer: Writer, threads: u32) -> Samples<'_> {
    Samples::of(samples, calibrate_cycle::BENCH).with(WRITER, writer).with(THREADS, threads)
}

/// Predict the heaps of which half was written and keep how far off that is. Every round of every
/// heap counts, so that it holds how far single measurements lie from their median as well.
fn try_on_half_written(profile: &mut MachineProfile, samples: &[Sample]) {
    let mut misfits = Vec::new();
    for curve in &profile.curves {
        let cycles = cycles_of(samples, curve.writer, curve.threads).with(WRITE_FRACTION, 0.5);
        let mut sizes = Vec::new();
        for heap in cycles.numbers(HEAP_BYTES) {
            let pages = heap / profile.page_size_bytes;
            let written = pages.div_ceil(2);
            let question = Question {
                pages,
                written,
                written_before: if curve.writer == Writer::Child { 0 } else { written },
                writer: curve.writer,
                threads: f64::from(curve.threads),
                page_size_bytes: profile.page_size_bytes,
                split_pages: None,
                among_work: false,
                cpu_ns_per_copy: None,
                nearby_share: None,
                vmas: None,
            };
            let Ok(prediction) = predict(profile, &question) else { continue };
            let predicted = prediction.elapsed_ns.value;
            let values = cycles.with(HEAP_BYTES, heap).values(CYCLE_NS).into_iter();
            sizes.extend(values.map(|value| (predicted / value).ln().abs()));
        }
        // From the tail, since that is what an interval must cover: a machine that is in one of
        // two states for seconds at a time has errors that are nothing like normal.
        misfits.push(quantile(&sizes, 0.95).map(|tail| tail / 1.96));
    }
    for (curve, misfit) in profile.curves.iter_mut().zip(misfits) {
        curve.misfit = misfit;
    }
}

fn points_of(cycles: &Samples, page: u64) -> Vec<CyclePoint> {
    let point = |heap: u64| {
        let own = cycles.with(HEAP_BYTES, heap);
        let measured = |fraction: f64, metric: Metric| {
            measured_of(&own.with(WRITE_FRACTION, fraction).values(metric))
        };
        let written = || -> Option<WrittenCycle> {
            Some(WrittenCycle {
                fork: measured(1.0, FORK_NS)?,
                write: measured(1.0, WRITE_NS)?,
                rest: measured(1.0, REST_NS)?,
            })
        };
        Some(CyclePoint {
            pages: heap / page,
            fork: measured(0.0, FORK_NS)?,
            rest: measured(0.0, REST_NS)?,
            written: written(),
        })
    };
    cycles.numbers(HEAP_BYTES).into_iter().filter_map(point).collect()
}
