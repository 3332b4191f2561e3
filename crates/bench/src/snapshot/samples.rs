// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run of the probe as samples. docs/reference/snapshot.md says what each figure is.

use crate::probes::{Footprint, SnapshotResult};
use anyhow::{Result, bail};
use cowlab_machine::Smaps;
use cowlab_model::stats::{median, quantile};
use cowlab_schema::snapshot::{self, Forked, Snapshot};
use cowlab_schema::{Cell, Metric, Quantile};
use cowlab_store::{Histogram, histogram_of, serialise};

use super::BENCH;
use super::windows::{Curve, Recovery, epochs};
use crate::counts;
use crate::task::{Recorder, Round, median_of};

/// Windows of an interval between forks.
const WINDOWS: u64 = 50;
/// Windows of a run that never forks.
const REFERENCE_WINDOWS: u64 = 400;
/// Parts of an interval, for the course of the rate after a fork.
const PHASES: u64 = 20;

/// Quantiles of the rates of windows: the low ones are what a fork makes.
const RATE_QUANTILES: [Quantile; 9] = [
    Quantile::Min,
    Quantile::P1,
    Quantile::P5,
    Quantile::P10,
    Quantile::P25,
    Quantile::P50,
    Quantile::P75,
    Quantile::P90,
    Quantile::Max,
];

/// A figure of one, and what its mean and its largest sum are in samples.
type Figure = (Metric, Metric, fn(&Smaps) -> Option<u64>);

pub(super) fn of(round: &mut Round, settings: &Snapshot, result: &SnapshotResult) -> Result<()> {
    let mut out = round.record(BENCH, settings.params(), result.start_unix_ns);
    let elapsed_ns = result.elapsed_ns();
    out.add(snapshot::ELAPSED_NS, elapsed_ns);
    out.add(snapshot::THROUGHPUT_PER_S, result.writes as f64 * 1e9 / elapsed_ns.max(1) as f64);
    out.add(snapshot::WRITES_MADE, result.writes);
    out.add(snapshot::PREFERRED_FIFTH_WRITES, result.preferred_fifth_writes);
    out.add(snapshot::FORKS_MADE, result.forks.len());
    add_windows(&mut out, settings, result);
    if !result.forks.is_empty() {
        out.add(snapshot::UNMEASURED_FORKS, 1.0);
        let took = result.forks.iter().map(|fork| (fork.end_ns - fork.begin_ns).max(1));
        out.add_distribution(snapshot::FORK_NS, &histogram_of(took));
        out.add(snapshot::FIRST_WRITTEN_PAGES, result.first_written_pages.iter().sum::<u64>());
        add_coverage(&mut out, &result.by_percent_regions);
    }
    add_latency(&mut out, result)?;
    out.add(snapshot::MINOR_FAULTS, result.minor_faults);
    add_footprints(&mut out, result);
    counts::add(&mut out, result.counts.as_slice(), 1);
    Ok(())
}

/// What the calibration found; its parameter `forks` is `once`.
pub(super) fn of_calibration(
    round: &mut Round,
    settings: &Snapshot,
    result: &SnapshotResult,
    found: &Recovery,
    interval_ns: u64,
) {
    let mut out = round.record(BENCH, settings.params(), result.start_unix_ns);
    out.add(snapshot::NORMAL_PER_S, found.normal_per_s);
    out.add(snapshot::LOOKED_NS, found.looked_ns);
    out.known(snapshot::RECOVERY_NS, found.recovery_ns);
    out.add(snapshot::INTERVAL_NS_FOUND, interval_ns);
}

/// Windows and phases are measured from each fork's return; the fork itself has a figure of its own.
fn add_windows(out: &mut Recorder, settings: &Snapshot, result: &SnapshotResult) {
    let elapsed_ns = result.elapsed_ns();
    let interval_ns = (settings.forks == Forked::Yes).then_some(settings.interval_ns);
    let window_ns = interval_ns.map_or(elapsed_ns / REFERENCE_WINDOWS, |ns| ns / WINDOWS).max(1);
    out.add(snapshot::WINDOW_NS, window_ns);
    let curve = Curve::of(result);
    let epochs = epochs(result);
    let before = result.forks.first().map_or(elapsed_ns, |fork| fork.begin_ns);
    let steady = result.forks.first().is_some_and(|fork| fork.writes == 0);
    // Of a run that begins with a fork nothing is before it.
    let mut rates = if steady { Vec::new() } else { curve.rates(0, before, window_ns) };
    let mut lowest = Vec::new();
    for (begin, end) in &epochs {
        let own = curve.rates(*begin, *end, window_ns);
        lowest.extend(own.iter().copied().reduce(f64::min));
        rates.extend(own);
    }
    for of in RATE_QUANTILES {
        let Some(rate) = of.share().and_then(|share| quantile(&rates, share)) else { continue };
        let sample = out.add_quantile(snapshot::WINDOW_PER_S, of, rate);
        if of == Quantile::P50 {
            let whole = rates.iter().map(|rate| (rate.round() as u64).max(1));
            sample.histogram = Some(serialise(&histogram_of(whole)));
        }
    }
    let Some(interval_ns) = interval_ns else { return };
    out.add(snapshot::INTERVAL_NS_FOUND, interval_ns);
    out.add_known([(snapshot::LOWEST_WINDOW_PER_S, median(&lowest))]);
    let phase_ns = (interval_ns / PHASES).max(1);
    let courses: Vec<Vec<f64>> =
        epochs.iter().map(|(begin, end)| curve.rates(*begin, *end, phase_ns)).collect();
    for phase in 0..PHASES as usize {
        let rates: Vec<f64> = courses.iter().filter_map(|c| c.get(phase).copied()).collect();
        if let Some(rate) = median(&rates) {
            let sample = out.add(snapshot::AFTER_FORK_PER_S, rate);
            let percent = phase as u64 * 100 / PHASES;
            snapshot::PHASE_PERCENT.put(&mut sample.params, percent);
        }
    }
}

/// The time-stamp's own cost is removed from every write.
fn add_latency(out: &mut Recorder, result: &SnapshotResult) -> Result<()> {
    let Some(timer_ns) = median_of(&result.timer_ns) else { bail!("the timer was not measured") };
    out.add(snapshot::TIMER_NS, timer_ns);
    let mut times: Histogram<u64> = histogram_of([]);
    for (ns, count) in &result.write_ns {
        let without_timer = ns.saturating_sub(timer_ns as u64).max(1);
        times.record_n(without_timer, *count).expect("an auto-resizing histogram takes it");
    }
    if !times.is_empty() {
        out.add_distribution(snapshot::LATENCY_NS, &times);
    }
    Ok(())
}

/// How much of a region of 2 MiB is written in an epoch: what a threshold would see.
fn add_coverage(out: &mut Recorder, by_percent: &[u64]) {
    let mut regions: Histogram<u64> = histogram_of([]);
    for (percent, count) in by_percent.iter().enumerate() {
        // 0 is not in a histogram's range; 1% of a region is five pages.
        regions.record_n((percent as u64).max(1), *count).expect("a percentage fits");
    }
    if !regions.is_empty() {
        out.add_distribution(snapshot::COVERAGE_PERCENT, &regions);
    }
}

/// Those with as many children alive as there ever were: a run with fewer forks, since it was faster,
/// has no smaller footprint for that. The last epoch is cut by the run's end, so only if it must be.
fn steady(all: &[Footprint]) -> Vec<&Footprint> {
    let most = all.iter().map(|footprint| footprint.processes.len()).max().unwrap_or(0);
    let mut found: Vec<&Footprint> = all.iter().filter(|f| f.processes.len() == most).collect();
    if found.len() > 1 {
        found.pop();
    }
    found
}

/// Sums over the processes at the ends of epochs: their mean, and the largest.
fn add_footprints(out: &mut Recorder, result: &SnapshotResult) {
    let whole = steady(&result.footprints);
    let after = || whole.iter();
    let of: [Figure; 2] = [
        (snapshot::RSS_SUM_BYTES, snapshot::RSS_SUM_MAX_BYTES, |p| p.anonymous_bytes),
        (snapshot::PSS_SUM_BYTES, snapshot::PSS_SUM_MAX_BYTES, |p| p.pss_anonymous_bytes),
    ];
    for (mean_metric, max_metric, figure) in of {
        let sums: Option<Vec<u64>> = after().map(|footprint| footprint.sum(figure)).collect();
        let Some(sums) = sums.filter(|sums| !sums.is_empty()) else { continue };
        let mean = sums.iter().sum::<u64>() as f64 / sums.len() as f64;
        out.add(mean_metric, mean);
        out.known(max_metric, sums.iter().max().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footprint_is_taken_with_all_children_alive() {
        let with =
            |forks, processes| Footprint { forks, processes: vec![Smaps::default(); processes] };
        let forks =
            |all: &[Footprint]| -> Vec<u64> { steady(all).iter().map(|f| f.forks).collect() };
        let all = [with(0, 1), with(1, 2), with(2, 3), with(3, 3), with(4, 3)];
        assert_eq!(forks(&all), [2, 3]);
        assert_eq!(forks(&all[..3]), [2]);
        assert_eq!(forks(&all[..1]), [0]);
        assert!(forks(&[]).is_empty());
    }
}
