// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A phase as samples. docs/reference/redis.md says what each figure is.

use cowlab_machine::cow_stats::ProcessCowStats;

use cowlab_schema::redis::{self as names, Part};
use cowlab_schema::{Metric, Quantile};
use cowlab_store::value_at;

use super::load::{Request, histogram_by_update, updates_of};
use super::phase::{Phase, Taken};
use crate::task::Recorder;

/// The course around a fork: from so long before it …
const BEFORE_MS: i64 = 200;
/// … until so long after it, in steps of …
const AFTER_MS: i64 = 1000;
const STEP_MS: i64 = 50;

/// A figure of one, and its name in samples.
type Figure = (Metric, fn(&Taken) -> Option<u64>);

pub(super) fn add(out: &mut Recorder, phase: &Phase) {
    let elapsed_ns = phase.elapsed_ns.max(1);
    out.add(names::ELAPSED_NS, elapsed_ns);
    out.add(names::UPDATES_ANSWERED, phase.updates());
    out.add(names::SERVED_UPDATES, phase.served_updates);
    phase.add_rate(out);
    add_latency(out, Part::All, phase.requests.iter());
    add_counts(out, phase);
    if phase.taken.is_empty() {
        return;
    }
    out.add(names::SNAPSHOTS_TAKEN, phase.taken.len());
    let during = |request: &&Request| phase.taken.iter().any(|taken| overlap(taken, request));
    let (within, outside): (Vec<&Request>, Vec<&Request>) = phase.requests.iter().partition(during);
    add_latency(out, Part::Snapshot, within.iter().copied());
    add_latency(out, Part::Outside, outside.into_iter());
    // Until the load ended; a snapshot may have gone on without it.
    let span = |taken: &Taken| taken.end_ns.min(elapsed_ns).saturating_sub(taken.begin_ns);
    let spans: u64 = phase.taken.iter().map(span).sum();
    let answered = |request: &&Request| {
        phase.taken.iter().any(|t| (t.begin_ns..=t.end_ns).contains(&request.end_ns))
    };
    if spans > 0 {
        let count = updates_of(within.iter().copied().filter(answered));
        out.add(names::SNAPSHOT_THROUGHPUT_PER_S, count as f64 * 1e9 / spans as f64);
    }
    add_taken(out, &phase.taken);
    add_course(out, phase);
}

fn overlap(taken: &Taken, request: &Request) -> bool {
    request.begin_ns <= taken.end_ns && request.end_ns >= taken.begin_ns
}

fn add_latency<'a>(out: &mut Recorder, part: Part, requests: impl Iterator<Item = &'a Request>) {
    let histogram = histogram_by_update(requests, Request::took_ns);
    if histogram.is_empty() {
        return;
    }
    for sample in out.add_distribution(names::LATENCY_NS, &histogram) {
        names::PART.put(&mut sample.params, part);
    }
}

/// What became of a page copied ahead is known at the next fork: of a phase's last snapshot, in the
/// phase after it.
fn add_counts(out: &mut Recorder, phase: &Phase) {
    let Some([before, after]) = &phase.counts else { return };
    let more = |count: fn(&ProcessCowStats) -> Option<u64>| {
        Some(count(after)?.saturating_sub(count(before)?) as f64)
    };
    out.add_known([
        (names::COW_FAULTS, more(|c| c.faults)),
        (names::PRECOPY_PAGES, more(|c| c.precopied)),
        (names::PRECOPY_WRITTEN, more(|c| c.precopy_written)),
        (names::PRECOPY_WASTED, more(|c| c.precopy_wasted)),
    ]);
}

fn add_taken(out: &mut Recorder, taken: &[Taken]) {
    let of: [Figure; 6] = [
        (names::FORK_NS, |t| t.fork_ns),
        (names::SNAPSHOT_NS, |t| Some(t.end_ns - t.begin_ns)),
        (names::COW_BYTES, |t| t.cow_bytes),
        (names::COW_PEAK_BYTES, |t| t.cow_peak_bytes),
        (names::PSS_SUM_BYTES, |t| t.pss_sum_bytes),
        (names::RSS_SUM_BYTES, |t| t.rss_sum_bytes),
    ];
    out.add_known(of.map(|(metric, figure)| {
        let values: Vec<u64> = taken.iter().filter_map(figure).collect();
        (metric, crate::task::median_of(&values))
    }));
}

/// The latency of updates by when they began, from before the fork until after it: of all the
/// phase's snapshots together.
fn add_course(out: &mut Recorder, phase: &Phase) {
    for from_ms in (-BEFORE_MS..AFTER_MS).step_by(STEP_MS as usize) {
        let began_then = |request: &&Request| {
            phase.taken.iter().any(|taken| {
                let since_ns = request.begin_ns as i64 - taken.begin_ns as i64;
                (from_ms * 1_000_000..(from_ms + STEP_MS) * 1_000_000).contains(&since_ns)
            })
        };
        let then = phase.requests.iter().filter(began_then);
        let histogram = histogram_by_update(then, Request::took_ns);
        if histogram.is_empty() {
            continue;
        }
        for quantile in [Quantile::P99, Quantile::Max] {
            let value = value_at(&histogram, quantile) as f64;
            let sample = out.add_quantile(names::AROUND_FORK_NS, quantile, value);
            names::SINCE_FORK_MS.put(&mut sample.params, from_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use cowlab_analysis::samples::Samples;

    use super::*;
    use crate::task::Round;

    #[test]
    fn an_update_that_meets_a_snapshot_belongs_to_it() {
        let update = |begin_ns, end_ns| Request { begin_ns, late_ns: 0, end_ns, updates: 1 };
        let taken = Taken { begin_ns: 1000, end_ns: 2000, fork_ns: Some(7), ..Taken::default() };
        let requests =
            vec![update(0, 999), update(900, 1500), update(1800, 2500), update(2001, 3000)];
        let counts = |faults| ProcessCowStats { faults: Some(faults), ..Default::default() };
        let phase = Phase {
            requests,
            taken: vec![taken],
            elapsed_ns: 4000,
            served_updates: 4,
            server_cpu_ns: Some(1000),
            stolen_ns: Some(5),
            counts: Some([counts(10), counts(25)]),
        };
        let mut round = Round::new(0);
        add(&mut round.record("redis", Default::default(), 0), &phase);
        let samples = round.finish();
        let all = Samples::all(&samples);
        let slowest = |part| {
            let own = all.with(names::PART, part).with(names::QUANTILE, Quantile::Max);
            own.values(names::LATENCY_NS)
        };
        assert_eq!(slowest(Part::Snapshot), [700.0]);
        assert_eq!(slowest(Part::Outside), [999.0]);
        for (metric, values) in [
            // One was answered while it lasted.
            (names::SNAPSHOT_THROUGHPUT_PER_S, &[1e9 / 1000.0][..]),
            (names::THROUGHPUT_PER_S, &[4e9 / 4000.0]),
            (names::SERVER_CPU_FRACTION, &[0.25]),
            // Of a closed loop nobody is late.
            (names::LATE_NS, &[]),
            (names::FORK_NS, &[7.0]),
            (names::COW_BYTES, &[]),
            (names::COW_FAULTS, &[15.0]),
            (names::PRECOPY_PAGES, &[]),
        ] {
            assert_eq!(all.values(metric), values, "{}", metric.name);
        }
    }
}
