// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of what a patched kernel counts and times at copy-on-write faults.

use crate::probes::CowCounts;
use cowlab_machine::cow_stats::{CowStats, ProcessCowStats, Times};
use cowlab_schema::{Metric, Quantile, cow_faults};
use cowlab_store::histogram_of;

use crate::task::Recorder;

/// A count of one address space, and its name in samples.
type OfProcess = (Metric, fn(&ProcessCowStats) -> Option<u64>);
/// A count of the whole system.
type OfSystem = (Metric, fn(&CowStats) -> Option<u64>);

/// What the kernel takes the time of, and its name in samples.
type Timed = (Metric, fn(&CowStats) -> Times);

const TIMES: [Timed; 2] =
    [(cow_faults::COPY_NS, |stats| stats.copy), (cow_faults::KERNEL_FAULT_NS, |stats| stats.fault)];

/// Known when the loop is over.
const LOOP: [OfProcess; 2] = [
    (cow_faults::COW_FAULTS, |counts| counts.faults),
    (cow_faults::PRECOPY_PAGES, |counts| counts.precopied),
];

/// Known when the pages were given back.
const SETTLED: [OfProcess; 3] = [
    (cow_faults::PRECOPY_WRITTEN, |counts| counts.precopy_written),
    (cow_faults::PRECOPY_WASTED, |counts| counts.precopy_wasted),
    (cow_faults::PRECOPY_UNKNOWN, |counts| counts.precopy_unknown),
];

/// Told of the whole system only.
const SYSTEM: [OfSystem; 6] = [
    (cow_faults::PRECOPY_ATTEMPTS, |counts| counts.precopy_attempts),
    (cow_faults::PRECOPY_SUCCESS, |counts| counts.precopy_success),
    (cow_faults::FLUSHES, |counts| counts.flushes),
    (cow_faults::PTL_HOLDS, |counts| counts.ptl_holds),
    (cow_faults::ALLOCATIONS, |counts| counts.allocations),
    (cow_faults::PRECOPY_REFUSED_NOMEM_PAGES, |counts| {
        counts.precopy_refused.get("nomem").copied()
    }),
];

/// The counts of all repetitions: of each the sum over its writers, and the median of those. What
/// is told of the whole system is left out where several writers share it.
pub(crate) fn add(out: &mut Recorder, counts: &[CowCounts], writers: usize) {
    let mut add = |name: Metric, of: &dyn Fn(&CowCounts) -> Option<f64>| {
        let sum = |chunk: &[CowCounts]| chunk.iter().map(of).sum::<Option<f64>>();
        let sums: Option<Vec<f64>> = counts.chunks(writers).map(sum).collect();
        out.known(name, sums.and_then(|sums| cowlab_model::stats::median(&sums)));
    };
    for (name, count) in LOOP {
        add(name, &|counts| counts.process.of_the_writes(count));
    }
    for (name, count) in SETTLED {
        add(name, &|counts| counts.process.when_settled(count));
    }
    if writers == 1 {
        for (name, count) in SYSTEM {
            add(name, &|counts| counts.system.of_the_writes(count));
        }
    }
}

/// The kernel's own times. Of one repetition its own quantiles; repetitions of a single fault each
/// make a distribution together.
pub(crate) fn add_times(out: &mut Recorder, stats: &[CowStats]) {
    for (metric, times) in TIMES {
        match stats {
            [] => {}
            [only] => {
                for (quantile, ns) in times(only).quantiles() {
                    out.add_quantile(metric, quantile, ns);
                }
            }
            many => {
                // Another process's fault among them: whose time is whose is not told.
                let alone = many.iter().filter(|stats| stats.timed_faults == Some(1));
                let each: Vec<u64> = alone.filter_map(|stats| times(stats).avg_ns).collect();
                if !each.is_empty() {
                    let mean = each.iter().sum::<u64>() as f64 / each.len() as f64;
                    out.add_quantile(metric, Quantile::Mean, mean);
                    out.add_distribution(
                        metric,
                        &histogram_of(each.into_iter().map(|ns| ns.max(1))),
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::probes::Moments;
    use cowlab_store::Params;

    use super::*;
    use crate::task::Round;

    fn process(faults: u64, written: u64) -> ProcessCowStats {
        ProcessCowStats {
            faults: Some(faults),
            precopy_written: Some(written),
            ..Default::default()
        }
    }

    /// Writers who faulted so often; each kernel read of counts takes one fault itself.
    fn counts(faults: u64, written: u64) -> CowCounts {
        let process = Moments {
            empty: process(5, 0),
            before: process(6, 0),
            after: process(7 + faults, 0),
            settled: process(8 + faults, written),
        };
        let system = |flushes| CowStats { flushes, ..Default::default() };
        let system = Moments {
            empty: system(Some(0)),
            before: system(Some(0)),
            after: system(Some(faults)),
            settled: system(Some(faults)),
        };
        CowCounts { process, system }
    }

    fn recorded(record: impl Fn(&mut Recorder)) -> Vec<(String, f64)> {
        let mut round = Round::new(0);
        record(&mut round.record("cow-faults", Params::new(), 0));
        let name = |sample: &cowlab_store::Sample| match sample.params.get("quantile") {
            Some(quantile) => format!("{} {quantile}", sample.metric),
            None => sample.metric.clone(),
        };
        round.finish().iter().map(|sample| (name(sample), sample.value)).collect()
    }

    #[test]
    fn counts_are_summed_over_writers_and_absent_ones_left_out() {
        let one = recorded(|out| add(out, &[counts(100, 40), counts(100, 40)], 1));
        let expected =
            [("cow_faults", 100.0), ("precopy_written", 40.0), ("flushes", 100.0)].map(own);
        assert_eq!(one, expected);
        let two = recorded(|out| add(out, &[counts(100, 40), counts(50, 10)], 2));
        assert_eq!(two, [("cow_faults", 150.0), ("precopy_written", 50.0)].map(own));
        assert_eq!(recorded(|out| add(out, &[], 1)), []);
    }

    fn own((name, value): (&str, f64)) -> (String, f64) {
        (name.to_owned(), value)
    }

    #[test]
    fn times_are_the_kernels_own_or_made_of_single_faults() {
        let copy = Times { avg_ns: Some(400), p50_ns: Some(390), ..Times::default() };
        let stats = CowStats { timed_faults: Some(4096), copy, ..CowStats::default() };
        let one = recorded(|out| add_times(out, std::slice::from_ref(&stats)));
        assert_eq!(one, [("copy_ns mean", 400.0), ("copy_ns p50", 390.0)].map(own));

        let single = |ns, faults| CowStats {
            timed_faults: Some(faults),
            copy: Times { avg_ns: Some(ns), ..Times::default() },
            ..CowStats::default()
        };
        let many = recorded(|out| add_times(out, &[single(300, 1), single(500, 1), single(9, 2)]));
        assert_eq!(many[0], own(("copy_ns mean", 400.0)));
        assert_eq!(many[1], own(("copy_ns min", 300.0)));
        assert!(many.iter().all(|(name, _)| name.starts_with("copy_ns")), "{many:?}");
    }
}
