// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of probes/snapshot.c.

use std::path::Path;

use anyhow::{Context, Result, bail};
use cowlab_machine::Smaps;
use cowlab_schema::snapshot::{Forked, Snapshot};

use crate::probes::cow_counts::{CowCounts, counts_of};
use crate::probes::program::Program;
use crate::probes::rows::Rows;
use crate::probes::runner::{Outcome, Probe, Runner};

const ROLLUP: &str = "/proc/PID/smaps_rollup";

impl Probe for Snapshot {
    const PROGRAM: Program = Program::Snapshot;
    type Result = SnapshotResult;

    fn beside(&self, runner: &Runner) -> Result<Vec<String>> {
        let mut arguments: Vec<String> = runner.warm_flag().into_iter().collect();
        match self.forks {
            Forked::No => {}
            Forked::Yes => arguments
                .extend([format!("--interval-ns={}", self.interval_ns), "--steady".to_owned()]),
            Forked::Once => arguments.extend([
                "--interval-ns=1".to_owned(),
                "--forks=1".to_owned(),
                format!("--after-writes={}", self.after_writes),
            ]),
        }
        Ok(arguments)
    }

    fn read(outcome: Outcome) -> Result<SnapshotResult> {
        SnapshotResult::of(&outcome.rows, outcome.start_unix_ns)
    }
}

/// One fork, by a clock that runs only while writes and forks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkAt {
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Writes that were made before.
    pub writes: u64,
}

/// What all processes occupied at the end of an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footprint {
    pub forks: u64,
    /// The program's, then its children's from the oldest.
    pub processes: Vec<Smaps>,
}

impl Footprint {
    /// A figure's sum over the processes.
    pub fn sum(&self, of: impl Fn(&Smaps) -> Option<u64>) -> Option<u64> {
        self.processes.iter().map(of).sum()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotResult {
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    pub writes: u64,
    /// Of them, those to the fifth of the blocks that Zipf's law prefers.
    pub preferred_fifth_writes: u64,
    /// Writes of a batch; the last one may have fewer.
    pub batch_writes: u64,
    pub batch_end_ns: Vec<u64>,
    pub forks: Vec<ForkAt>,
    /// Pages that were written for the first time after each fork and before the next: the copies
    /// that copy-on-write must make, by the program's own record.
    pub first_written_pages: Vec<u64>,
    /// Regions of 2 MiB, of all whole epochs, by the percentage (0 to 100) of their pages that was
    /// written in one.
    pub by_percent_regions: Vec<u64>,
    /// Times of the writes that were timed, and how often each was seen.
    pub write_ns: Vec<(u64, u64)>,
    /// What one time-stamp and its store cost, measured without a write.
    pub timer_ns: Vec<u64>,
    pub minor_faults: u64,
    /// What the processes occupied before each fork and at the end; empty without smaps_rollup.
    pub footprints: Vec<Footprint>,
    /// What the kernel counted; `None` where it was not asked.
    pub counts: Option<CowCounts>,
}

impl SnapshotResult {
    fn of(rows: &Rows, start_unix_ns: i64) -> Result<SnapshotResult> {
        let [begin, end, before] =
            ["fork_begin_ns", "fork_end_ns", "before_fork_writes"].map(|m| rows.values(m));
        let (low, often) = (rows.values("write_ns"), rows.values("of_that_time_writes"));
        let result = SnapshotResult {
            start_unix_ns,
            writes: rows.value("written_writes")?,
            preferred_fifth_writes: rows.value("preferred_fifth_writes")?,
            batch_writes: rows.value("batch_writes")?,
            batch_end_ns: rows.values("batch_end_ns"),
            forks: begin
                .iter()
                .zip(&end)
                .zip(&before)
                .map(|((&begin_ns, &end_ns), &writes)| ForkAt { begin_ns, end_ns, writes })
                .collect(),
            first_written_pages: rows.values("first_written_pages"),
            by_percent_regions: rows.values("by_percent_regions"),
            write_ns: low.into_iter().zip(often).collect(),
            timer_ns: rows.values("timer_ns"),
            minor_faults: rows.value("run_minor_faults")?,
            footprints: footprints_of(rows)?,
            counts: counts_of(rows)?.pop(),
        };
        if result.batch_end_ns.is_empty() || result.forks.len() != result.first_written_pages.len()
        {
            bail!("the rows of snapshot do not belong together");
        }
        Ok(result)
    }

    pub fn elapsed_ns(&self) -> u64 {
        self.batch_end_ns.last().copied().unwrap_or(0)
    }
}

fn footprints_of(rows: &Rows) -> Result<Vec<Footprint>> {
    let mut found: Vec<Footprint> = Vec::new();
    for row in rows.iter() {
        match (row.metric.as_str(), &row.text, &row.values[..]) {
            ("footprint_forks", _, &[forks]) => {
                found.push(Footprint { forks, processes: Vec::new() });
            }
            ("smaps_rollup_text", Some(text), _) => {
                let last = found.last_mut().context("a memory text stands before its fork")?;
                last.processes.push(Smaps::decode(text, Path::new(ROLLUP))?);
            }
            ("footprint_forks" | "smaps_rollup_text", ..) => {
                bail!("a row of {ROLLUP} is damaged")
            }
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn quick(forks: Forked) -> SnapshotResult {
        let settings = Snapshot {
            size_bytes: 4 << 20,
            writes: 40_000,
            forks,
            interval_ns: 1_000_000,
            after_writes: 20_000,
            page_size_bytes: rustix::param::page_size() as u64,
            pinned: false,
            seed: 1,
            ..Snapshot::default()
        };
        settings.run(&Runner::new(Arc::default()).unwrap()).unwrap()
    }

    #[test]
    fn a_run_with_intervals_begins_with_its_second_fork() {
        let run = quick(Forked::Yes);
        let Some(first) = run.forks.first() else { panic!("no fork") };
        assert_eq!((first.writes, run.writes), (0, 40_000));
        assert!(run.forks.len() > 1 && run.forks.is_sorted_by_key(|fork| fork.begin_ns));
        // The unmeasured fork's child is one of the two that are alive.
        let alive: Vec<usize> = run.footprints.iter().map(|f| f.processes.len()).collect();
        assert_eq!(alive[..3], [2, 3, 3]);
        // All is shared when the clock starts: what is written first is a fault.
        let first_writes: u64 = run.first_written_pages.iter().sum();
        let own = 64 + 8 * run.forks.len() as u64;
        assert!((first_writes..first_writes + own).contains(&run.minor_faults), "{run:?}");
    }

    #[test]
    fn every_write_is_there_and_forks_are_between_them() {
        let none = quick(Forked::No);
        assert_eq!((none.writes, none.forks.len()), (40_000, 0));
        assert_eq!(none.batch_end_ns.len() as u64, 40_000u64.div_ceil(none.batch_writes));
        assert!(none.batch_end_ns.is_sorted());
        let once = quick(Forked::Once);
        let [fork] = once.forks[..] else { panic!("{:?}", once.forks) };
        assert_eq!(fork.writes, 20_000u64.next_multiple_of(once.batch_writes));
        assert!(fork.begin_ns < fork.end_ns && fork.end_ns < once.elapsed_ns());
        // A fifth of 4096 blocks by H(819) / H(4096) = 0.819.
        let share = once.preferred_fifth_writes as f64 / 40_000.0;
        assert!((share - 0.819).abs() < 0.02, "{share}");
        // A page of the space, and few faults beside them.
        let first = once.first_written_pages[0];
        assert!(first > 512 && first <= 1024, "{first}");
        assert!((first..first + 64).contains(&once.minor_faults), "{} {first}", once.minor_faults);
        // One batch in 16 is timed.
        let timed: u64 = once.write_ns.iter().map(|(_, count)| count).sum();
        assert_eq!(timed, 40_000u64.div_ceil(once.batch_writes).div_ceil(16) * once.batch_writes);
        for (at, footprint) in once.footprints.iter().enumerate() {
            assert_eq!(footprint.processes.len(), at + 1);
            assert!(footprint.sum(|p| p.anonymous_bytes) >= Some(4 << 20));
        }
    }
}
