// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Throughput over time: a run's writes in windows of equal time, and when a fork is got over.

use crate::probes::SnapshotResult;
use cowlab_model::stats::median;

/// Windows of the time after a fork in which its end is looked for.
const CALIBRATION_WINDOWS: u64 = 400;
/// A recovery lasts: so many windows in a row have it in their median.
const SUSTAINED_WINDOWS: usize = 20;

/// How many writes were made by when.
pub(super) struct Curve(Vec<(u64, u64)>);

impl Curve {
    pub(super) fn of(result: &SnapshotResult) -> Curve {
        let mut forks = result.forks.iter().peekable();
        let mut points = Vec::new();
        // A run may begin with a fork.
        let batches = [0].into_iter().chain(result.batch_end_ns.iter().copied());
        for (batches_made, end_ns) in batches.enumerate() {
            let made = (batches_made as u64 * result.batch_writes).min(result.writes);
            points.push((end_ns, made));
            if let Some(fork) = forks.next_if(|fork| fork.writes == made) {
                points.extend([(fork.begin_ns, made), (fork.end_ns, made)]);
            }
        }
        Curve(points)
    }

    /// Writes made by then, evenly between two looks at the clock.
    fn writes_at(&self, ns: u64) -> f64 {
        let after = self.0.partition_point(|(at, _)| *at < ns);
        match (self.0.get(after.wrapping_sub(1)), self.0.get(after)) {
            (Some(&(t0, w0)), Some(&(t1, w1))) if t1 > t0 => {
                let share = (ns - t0) as f64 / (t1 - t0) as f64;
                w0 as f64 + share * (w1 - w0) as f64
            }
            (_, Some(&(_, writes))) | (Some(&(_, writes)), None) => writes as f64,
            (None, None) => 0.0,
        }
    }

    /// The rates, in writes a second, of the whole windows from `begin_ns` up to `end_ns`.
    pub(super) fn rates(&self, begin_ns: u64, end_ns: u64, window_ns: u64) -> Vec<f64> {
        let windows = end_ns.saturating_sub(begin_ns) / window_ns.max(1);
        (0..windows)
            .map(|index| {
                let from = begin_ns + index * window_ns;
                let writes = self.writes_at(from + window_ns) - self.writes_at(from);
                writes * 1e9 / window_ns as f64
            })
            .collect()
    }
}

/// From each fork's return to the next fork, or to the end.
pub(super) fn epochs(result: &SnapshotResult) -> Vec<(u64, u64)> {
    let ends = result.forks.iter().skip(1).map(|fork| fork.begin_ns);
    let ends = ends.chain([result.elapsed_ns()]);
    result.forks.iter().map(|fork| fork.end_ns).zip(ends).collect()
}

/// What a run with one fork tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recovery {
    /// The median rate in the second half of the time before the fork, or in the last quarter of
    /// the time after it, whichever is higher: what disturbs a run only slows it.
    pub(super) normal_per_s: f64,
    /// From the fork's return until the rate had come back; `None`: it never did.
    pub(super) recovery_ns: Option<u64>,
    pub(super) looked_ns: u64,
}

/// When the rate is back at `share` of what it was before the only fork, and stays there for a while.
pub(super) fn recovery(result: &SnapshotResult, share: f64) -> Option<Recovery> {
    let fork = result.forks.first()?;
    let looked_ns = result.elapsed_ns() - fork.end_ns;
    let window_ns = (looked_ns / CALIBRATION_WINDOWS).max(1);
    let curve = Curve::of(result);
    let before = median(&curve.rates(fork.begin_ns / 2, fork.begin_ns, window_ns))?;
    let rates = curve.rates(fork.end_ns, result.elapsed_ns(), window_ns);
    let normal_per_s = median(&rates[rates.len() / 4 * 3..])?.max(before);
    let back = rates.windows(SUSTAINED_WINDOWS).position(|some| {
        some[0] >= share * normal_per_s
            && median(some).is_some_and(|rate| rate >= share * normal_per_s)
    });
    let recovery_ns = back.map(|windows| (windows as u64 + 1) * window_ns);
    Some(Recovery { normal_per_s, recovery_ns, looked_ns })
}

#[cfg(test)]
mod tests {
    use crate::probes::ForkAt;

    use super::*;

    /// Batches of 100 writes that take `ns` each; a fork of 500 ns after the 40th.
    fn result(ns: impl Fn(usize) -> u64) -> SnapshotResult {
        let (mut at, mut batch_end_ns, mut forks) = (0, Vec::new(), Vec::new());
        for index in 0..4000 {
            at += ns(index);
            batch_end_ns.push(at);
            if index == 399 {
                forks.push(ForkAt { begin_ns: at + 10, end_ns: at + 510, writes: 40_000 });
                at += 510;
            }
        }
        SnapshotResult {
            start_unix_ns: 0,
            writes: 400_000,
            preferred_fifth_writes: 0,
            batch_writes: 100,
            batch_end_ns,
            forks,
            first_written_pages: vec![1],
            by_percent_regions: Vec::new(),
            write_ns: Vec::new(),
            timer_ns: Vec::new(),
            minor_faults: 0,
            footprints: Vec::new(),
            counts: None,
        }
    }

    #[test]
    fn a_run_may_begin_with_a_fork() {
        let mut run = result(|_| 1000);
        let at = ForkAt { begin_ns: 0, end_ns: 5000, writes: 0 };
        run.batch_end_ns.iter_mut().for_each(|end_ns| *end_ns += 5000);
        run.forks[0].begin_ns += 5000;
        run.forks[0].end_ns += 5000;
        run.forks.insert(0, at);
        let curve = Curve::of(&run);
        assert_eq!(curve.writes_at(5000), 0.0);
        let all = epochs(&run);
        assert_eq!(all.len(), 2);
        for (begin, end) in all {
            let rates = curve.rates(begin, end, 10_000);
            assert!(rates.iter().all(|rate| (rate - 1e8).abs() < 1.0), "{rates:?}");
        }
    }

    #[test]
    fn windows_hold_what_was_written_in_them() {
        let flat = result(|_| 1000);
        let rates = Curve::of(&flat).rates(0, 100_000, 10_000);
        assert_eq!(rates.len(), 10);
        assert!(rates.iter().all(|rate| (rate - 1e8).abs() < 1.0), "{rates:?}");
        // Nothing is written while a fork is made, and the rates before and after do not see it.
        let fork = flat.forks[0];
        assert_eq!(Curve::of(&flat).rates(fork.begin_ns, fork.end_ns, 500), [0.0]);
        let [(begin, end)] = epochs(&flat)[..] else { panic!() };
        assert_eq!((begin, end), (fork.end_ns, flat.elapsed_ns()));
        assert!(Curve::of(&flat).rates(begin, end, 1000).iter().all(|r| (r - 1e8).abs() < 1.0));
    }

    #[test]
    fn a_fork_is_over_when_the_rate_is_back() {
        // Half the rate for 400 batches, so for 800 µs.
        let slow = result(|index| if (400..800).contains(&index) { 2000 } else { 1000 });
        let found = recovery(&slow, 0.99).unwrap();
        assert!((found.normal_per_s - 1e8).abs() < 1.0);
        let recovery_ns = found.recovery_ns.unwrap() as f64;
        assert!((recovery_ns / 800_000.0 - 1.0).abs() < 0.03, "{recovery_ns}");
        let never = result(|index| if index >= 400 { 1100 } else { 1000 });
        assert_eq!(recovery(&never, 0.99).unwrap().recovery_ns, None);
        assert!(recovery(&never, 0.9).unwrap().recovery_ns.is_some());
    }
}
