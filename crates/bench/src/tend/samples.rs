// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server's phase as samples: as a whole, and snapshot by snapshot. docs/reference/bench-tend.md
//! says what each figure is.

use std::ops::Range;

use cowlab_schema::tend::{self, Part};
use cowlab_schema::{Metric, Quantile};
use cowlab_store::{serialise, value_at};

use super::memory::Look;
use crate::redis::load::{Request, histogram_by_update, updates_of};
use crate::redis::phase::{Phase, Taken};
use crate::task::Recorder;

/// The quantiles of the whole phase.
const QUANTILES: [Quantile; 6] =
    [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P99_9, Quantile::P99_99, Quantile::Max];

/// What waited while CPU time was stolen has been served after so long.
const CATCHES_UP_NS: u64 = 1_000_000_000;

/// Add everything; `tending`: when regions were being collapsed.
pub(super) fn add(out: &mut Recorder, phase: &Phase, looks: &[Look], tending: &[Range<u64>]) {
    phase.add_rate(out);
    // Whatever met a snapshot is the snapshot's, its stop at the fork above all.
    let met = |request: &&Request| {
        phase.taken.iter().any(|t| request.begin_ns <= t.end_ns && request.end_ns >= t.begin_ns)
    };
    let (within, outside): (Vec<&Request>, Vec<&Request>) = phase.requests.iter().partition(met);
    latency(out, Part::Outside, &outside, None);
    if let Some(disturbed) = disturbed(looks) {
        let undisturbed: Vec<&Request> =
            outside.iter().copied().filter(|request| !touches(&disturbed, request)).collect();
        let fraction = updates_of(undisturbed.iter().copied()) as f64
            / updates_of(outside.iter().copied()).max(1) as f64;
        out.add(tend::UNDISTURBED_FRACTION, fraction);
        latency(out, Part::Undisturbed, &undisturbed, None);
    }
    let meanwhile: Vec<&Request> =
        outside.iter().copied().filter(|request| touches(tending, request)).collect();
    latency(out, Part::Tending, &meanwhile, None);
    latency(out, Part::Snapshot, &within, None);
    memory(out, phase, looks);
    for (number, taken) in phase.taken.iter().enumerate() {
        one_snapshot(out, number, taken, phase);
    }
}

/// When a hypervisor gave CPU time to others, from one look to the next, and until what waited has
/// been served; apart and in order. `None` where that is not told.
fn disturbed(looks: &[Look]) -> Option<Vec<Range<u64>>> {
    let mut spans: Vec<Range<u64>> = Vec::new();
    for pair in looks.windows(2) {
        if pair[1].stolen_ns? <= pair[0].stolen_ns? {
            continue;
        }
        let end_ns = pair[1].at_ns + CATCHES_UP_NS;
        match spans.last_mut() {
            Some(last) if last.end >= pair[0].at_ns => last.end = end_ns,
            _ => spans.push(pair[0].at_ns..end_ns),
        }
    }
    looks.first()?.stolen_ns.map(|_| spans)
}

fn touches(spans: &[Range<u64>], request: &Request) -> bool {
    let first = spans.partition_point(|span| span.end <= request.begin_ns);
    spans.get(first).is_some_and(|span| span.start <= request.end_ns)
}

fn latency(out: &mut Recorder, part: Part, requests: &[&Request], snapshot: Option<usize>) {
    let histogram = histogram_by_update(requests.iter().copied(), Request::took_ns);
    if histogram.is_empty() {
        return;
    }
    for quantile in QUANTILES {
        // So many that the quantile is not the slowest one by another name.
        let needed = 1.0 / (1.0 - quantile.share().unwrap_or(0.0)).max(1e-9);
        if quantile != Quantile::Max && (histogram.len() as f64) < needed {
            continue;
        }
        if snapshot.is_some() && !matches!(quantile, Quantile::P99 | Quantile::Max) {
            continue;
        }
        let value = value_at(&histogram, quantile) as f64;
        let sample = out.add_quantile(tend::LATENCY_NS, quantile, value);
        tend::PART.put(&mut sample.params, part);
        if let Some(number) = snapshot {
            tend::SNAPSHOT.put(&mut sample.params, number as u64 + 1);
        }
        if quantile == Quantile::P50 && snapshot.is_none() {
            sample.histogram = Some(serialise(&histogram));
        }
    }
}

/// The medians of the looks outside of snapshots, and the largest of all.
fn memory(out: &mut Recorder, phase: &Phase, looks: &[Look]) {
    let during = |look: &&Look| {
        phase.taken.iter().any(|t| (t.begin_ns..=t.end_ns + 500_000_000).contains(&look.at_ns))
    };
    let outside: Vec<&Look> = looks.iter().filter(|look| !during(look)).collect();
    let rss: Vec<u64> = outside.iter().map(|look| look.rss_bytes).collect();
    let group: Vec<u64> = outside.iter().filter_map(|look| look.group_bytes).collect();
    for (metric, values) in [(tend::RSS_BYTES, rss), (tend::GROUP_BYTES, group)] {
        if let Some(median) = crate::task::median_of(&values) {
            out.add(metric, median);
        }
    }
    out.known(tend::GROUP_PEAK_BYTES, looks.iter().filter_map(|look| look.group_bytes).max());
}

/// One snapshot, and the time from the one before until it.
fn one_snapshot(out: &mut Recorder, number: usize, taken: &Taken, phase: &Phase) {
    let from = match number.checked_sub(1) {
        Some(before) => phase.taken[before].end_ns,
        None => 0,
    };
    let between: Vec<&Request> = phase
        .requests
        .iter()
        .filter(|request| request.begin_ns > from && request.end_ns < taken.begin_ns)
        .collect();
    let within: Vec<&Request> = phase
        .requests
        .iter()
        .filter(|request| request.begin_ns <= taken.end_ns && request.end_ns >= taken.begin_ns)
        .collect();
    latency(out, Part::Outside, &between, Some(number));
    latency(out, Part::Snapshot, &within, Some(number));
    let mut figure = |metric: Metric, value: Option<u64>| {
        if let Some(value) = value {
            let sample = out.add(metric, value as f64);
            tend::SNAPSHOT.put(&mut sample.params, number as u64 + 1);
        }
    };
    figure(tend::FORK_NS, taken.fork_ns);
    figure(tend::SNAPSHOT_NS, Some(taken.end_ns - taken.begin_ns));
    figure(tend::COW_BYTES, taken.cow_bytes);
}

#[cfg(test)]
mod tests {
    use cowlab_analysis::samples::Samples;

    use super::*;
    use crate::task::Round;

    #[test]
    fn each_snapshot_has_its_rows_and_memory_is_that_between_them() {
        let update = |begin_ns, end_ns| Request { begin_ns, late_ns: 3, end_ns, updates: 1 };
        let second = 1_000_000_000;
        let taken = |begin_ns: u64, fork_ns| Taken {
            begin_ns,
            end_ns: begin_ns + second,
            fork_ns: Some(fork_ns),
            ..Taken::default()
        };
        let phase = Phase {
            requests: vec![
                update(0, 5000),
                update(second, second + 9000),
                update(2 * second + 1, 2 * second + 7001),
                update(3 * second, 3 * second + 20_000),
            ],
            taken: vec![taken(second, 70), taken(3 * second, 50)],
            elapsed_ns: 4 * second,
            ..Phase::default()
        };
        let look = |at_ns, rss_bytes| Look {
            at_ns,
            rss_bytes,
            group_bytes: Some(rss_bytes + 1),
            stolen_ns: None,
        };
        // The third is within half a second of a snapshot's end.
        let looks = [
            look(10, 100),
            look(second + 5, 900),
            look(2 * second + 10, 800),
            look(2_900_000_000, 300),
        ];
        let mut round = Round::new(0);
        let tending = 2 * second..2 * second + 5;
        let mut out = round.record("tend", Default::default(), 0);
        add(&mut out, &phase, &looks, std::slice::from_ref(&tending));
        let samples = round.finish();
        let all = Samples::all(&samples);
        let snapshot = |number| all.with(tend::SNAPSHOT, number).values(tend::FORK_NS);
        assert_eq!((snapshot(1), snapshot(2)), (vec![70.0], vec![50.0]));
        assert_eq!(all.values(tend::RSS_BYTES), [200.0]);
        assert_eq!(all.values(tend::GROUP_BYTES), [201.0]);
        assert_eq!(all.values(tend::GROUP_PEAK_BYTES), [901.0]);
        let slowest = all.with(tend::QUANTILE, Quantile::Max);
        // Of the two outside, one came while regions were collapsed.
        for part in [Part::Outside, Part::Tending] {
            let own = slowest.with(tend::PART, part).without(tend::SNAPSHOT);
            let longest = own.first(tend::LATENCY_NS).unwrap();
            assert!((longest / 7000.0 - 1.0).abs() < 0.01, "{part}: {longest}");
        }
        let p99 = all.with(tend::QUANTILE, Quantile::P99);
        assert_eq!(p99.values(tend::LATE_NS), [3.0]);
        // Four updates have no p99.
        assert!(p99.values(tend::LATENCY_NS).is_empty());
        // Nothing is told of stolen time.
        assert!(all.values(tend::UNDISTURBED_FRACTION).is_empty());
    }

    #[test]
    fn what_met_stolen_time_is_set_apart() {
        let second = 1_000_000_000;
        let look = |at_ns, stolen_ns| Look {
            at_ns,
            rss_bytes: 1,
            group_bytes: None,
            stolen_ns: Some(stolen_ns),
        };
        let looks = [
            look(second, 5),
            look(2 * second, 5),
            look(3 * second, 9),
            look(4 * second, 9),
            look(6 * second, 9),
            look(7 * second, 10),
            look(8 * second, 11),
        ];
        let spans = disturbed(&looks).unwrap();
        assert_eq!(spans, [2 * second..4 * second, 6 * second..9 * second]);
        let request = |begin_ns, end_ns| Request { begin_ns, late_ns: 0, end_ns, updates: 1 };
        for (begin_ns, end_ns, expected) in [
            (0, second, false),
            (second, 2 * second, true),
            (4 * second - 1, 4 * second + 5, true),
            (4 * second, 6 * second - 1, false),
            (second, 20 * second, true),
            (9 * second, 20 * second, false),
        ] {
            let seen = touches(&spans, &request(begin_ns, end_ns));
            assert_eq!(seen, expected, "{begin_ns} {end_ns}");
        }
        assert_eq!(disturbed(&[Look { stolen_ns: None, ..looks[0] }]), None);
        assert_eq!(disturbed(&looks[..2]), Some(Vec::new()));
    }
}
