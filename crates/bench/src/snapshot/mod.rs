// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `snapshot`: CCoW's microbenchmark, with forks as often as it says and without any.

mod samples;
mod windows;

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::probes::{Probe, Runner};
use anyhow::{Context, Result};
use cowlab_machine::{Facts, PolicyGuard};
use cowlab_schema::Policy;
use cowlab_schema::snapshot::{self, Forked, Snapshot};

use crate::task::{Round, Task};

/// The name of this benchmark in samples.
pub const BENCH: &str = snapshot::BENCH.name;

pub const ALPHAS: [f64; 3] = [0.9, 1.0, 1.1];

/// The document forks again when the rate is back at this share of the normal one.
pub const RECOVERED: f64 = 0.99;

/// The largest space that is taken unasked: all of the default takes a minute then. The document's
/// has 16 GiB.
const LARGEST_BYTES: u64 = 256 << 20;
const SMALLEST_BYTES: u64 = 16 << 20;

/// The space of the trial that tells how long all will take.
const TRIAL_BYTES: u64 = 64 << 20;

/// Forks of a run, at most: an interval is not shorter than this part of it.
const FORKS_MOST: u64 = 60;
/// And not longer than this part, so that a run forks a few times however long one is felt.
const LONGEST_PART: u64 = 3;

/// The space for this machine: the largest power of two of which eight are free, up to 256 MiB.
/// Three versions of it may exist at once.
pub fn default_size_bytes(facts: &Facts) -> u64 {
    let memory = facts.memory.as_ref();
    let free = memory.and_then(|memory| memory.available_bytes).unwrap_or(0) / 8;
    let power = if free == 0 { 0 } else { 1 << free.ilog2() };
    power.clamp(SMALLEST_BYTES, LARGEST_BYTES)
}

/// How often a workload forks: found out once, on plain copy-on-write.
type Interval = Rc<OnceCell<u64>>;

/// What cells that fork as often have in common: all but policy and page size, which are plain
/// copy-on-write's here.
fn workload_of(cell: &Snapshot, plain_page_bytes: u64) -> Snapshot {
    Snapshot {
        policy: if cell.policy == Policy::Stock { Policy::Stock } else { Policy::Off },
        page_size_bytes: plain_page_bytes,
        forks: Forked::No,
        ..cell.clone()
    }
}

/// The same writes as the cell's without a fork: what writing costs with its pages.
fn reference_of(cell: &Snapshot) -> Snapshot {
    workload_of(cell, cell.page_size_bytes)
}

/// Each once, in their order.
fn distinct(all: impl Iterator<Item = Snapshot>) -> Vec<Snapshot> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// A task for each of the cells, and for each workload and page size one that never forks. Cells of
/// one workload fork as often: each `interval_ns`, or, if that is not given, when plain
/// copy-on-write is back at [`RECOVERED`] of its rate. `plain_page_bytes` is the page size of that.
pub fn tasks(
    cells: &[Snapshot],
    interval_ns: Option<u64>,
    plain_page_bytes: u64,
    guard: Option<Rc<PolicyGuard>>,
) -> Vec<Task> {
    let workloads = distinct(cells.iter().map(|cell| workload_of(cell, plain_page_bytes)));
    let given = || interval_ns.map_or_else(OnceCell::new, OnceCell::from);
    let intervals: Vec<Interval> = workloads.iter().map(|_| Rc::new(given())).collect();
    let forking = cells.iter().map(|cell| {
        let own = workload_of(cell, plain_page_bytes);
        let at = workloads.iter().position(|workload| *workload == own).expect("all are in it");
        task(cell.clone(), own, Some(Rc::clone(&intervals[at])), guard.clone())
    });
    let references = distinct(cells.iter().map(reference_of));
    let never = references.iter().map(|cell| task(cell.clone(), cell.clone(), None, guard.clone()));
    forking.chain(never).collect()
}

/// About how long all rounds will take: as a small trial of the first cell's writes did, for each
/// write. `calibrated`: whether intervals are to be found first.
pub fn expected(
    runner: &Runner,
    cells: &[Snapshot],
    calibrated: bool,
    plain_page_bytes: u64,
    rounds: u32,
) -> Result<Duration> {
    let Some(first) = cells.first() else { return Ok(Duration::ZERO) };
    let plain = workload_of(first, plain_page_bytes);
    let size_bytes = plain.size_bytes.min(TRIAL_BYTES.next_multiple_of(plain.block_bytes));
    let turnover = size_bytes / plain.block_bytes;
    let trial = Snapshot {
        size_bytes,
        writes: 3 * turnover,
        after_writes: turnover,
        forks: Forked::Once,
        ..plain
    };
    // The first finds memory cold.
    let mut took = Duration::MAX;
    for _ in 0..2 {
        let began = Instant::now();
        trial.run(runner)?;
        took = took.min(began.elapsed());
    }
    let all = writes_of(cells, calibrated, plain_page_bytes, rounds);
    Ok(took.mul_f64(all as f64 / trial.writes as f64))
}

/// The writes of all rounds and calibrations, roughly.
fn writes_of(cells: &[Snapshot], calibrated: bool, plain_page_bytes: u64, rounds: u32) -> u64 {
    let sum = |of: Vec<Snapshot>| of.iter().map(|cell| cell.writes).sum::<u64>();
    // Half as many again, at the most, before the first fork that is measured.
    let each_round = sum(cells.to_vec()) * 3 / 2 + sum(distinct(cells.iter().map(reference_of)));
    let workloads = distinct(cells.iter().map(|cell| workload_of(cell, plain_page_bytes)));
    let once = if calibrated { sum(workloads) } else { 0 };
    each_round * u64::from(rounds) + once
}

/// One cell in one round. Where its interval is not known, `workload` is calibrated first.
fn task(
    cell: Snapshot,
    workload: Snapshot,
    interval: Option<Interval>,
    guard: Option<Rc<PolicyGuard>>,
) -> Task {
    let what = match (&interval, cell.policy) {
        (None, _) => "without forks".to_owned(),
        (_, Policy::Stock) => "with forks".to_owned(),
        (_, policy) => format!("policy {policy}"),
    };
    let name = format!("{BENCH}: alpha {}, {} MiB, {what}", cell.zipf_alpha, cell.size_bytes >> 20);
    Task::new(name, move |runner, round| {
        let set = |policy: Policy| guard.as_ref().map_or(Ok(()), |guard| guard.set(policy));
        // Other blocks in every round, and the same ones for all of a round's cells.
        let seed = cell.seed + u64::from(round.number);
        let (forks, interval_ns) = match &interval {
            None => (Forked::No, 0),
            Some(interval) => (
                Forked::Yes,
                match interval.get() {
                    Some(ns) => *ns,
                    None => {
                        set(workload.policy)?;
                        let plain = Snapshot { seed, ..workload.clone() };
                        let ns = calibrate(&plain, runner, round)?;
                        *interval.get_or_init(|| ns)
                    }
                },
            ),
        };
        set(cell.policy)?;
        let cell = Snapshot { seed, forks, interval_ns, ..cell.clone() };
        samples::of(round, &cell, &cell.run(runner)?)
    })
}

/// How often to fork: the time that plain copy-on-write takes to get over a fork.
fn calibrate(plain: &Snapshot, runner: &Runner, round: &mut Round) -> Result<u64> {
    let turnover = plain.size_bytes / plain.block_bytes;
    let once = Snapshot {
        writes: plain.writes + 2 * turnover,
        forks: Forked::Once,
        after_writes: 2 * turnover,
        ..plain.clone()
    };
    let result = once.run(runner)?;
    let found = windows::recovery(&result, RECOVERED)
        .context("the run was too short to find how long a fork is felt: raise --turnovers")?;
    // What was looked at may have been disturbed: a run that forks takes longer than this at least.
    let undisturbed_ns = (plain.writes as f64 * 1e9 / found.normal_per_s) as u64;
    let longest_ns = (found.looked_ns / LONGEST_PART).min(undisturbed_ns / 2).max(1);
    let shortest_ns = (found.looked_ns / FORKS_MOST).clamp(1, longest_ns);
    let interval_ns = found.recovery_ns.unwrap_or(found.looked_ns).clamp(shortest_ns, longest_ns);
    samples::of_calibration(round, &once, &result, &found, interval_ns);
    Ok(interval_ns)
}

#[cfg(test)]
mod tests {
    use cowlab_machine::memory::Memory;
    use cowlab_store::Sample;

    use super::*;

    fn cell(zipf_alpha: f64, policy: Policy, page_size_bytes: u64) -> Snapshot {
        Snapshot {
            size_bytes: 1 << 20,
            writes: 20_000,
            zipf_alpha,
            page_size_bytes,
            pinned: false,
            policy,
            seed: 1,
            ..Snapshot::default()
        }
    }

    #[test]
    fn each_workload_and_page_size_has_one_reference() {
        let mut cells = Vec::new();
        for alpha in [0.9, 1.0] {
            for policy in [Policy::Off, Policy::Next(16)] {
                cells.extend([4096, 2 << 20].map(|page| cell(alpha, policy, page)));
            }
        }
        // 2 x 2 x 2 cells, and a reference of each exponent and page size.
        assert_eq!(tasks(&cells, None, 4096, None).len(), 8 + 4);
        assert_eq!(tasks(&[cell(1.0, Policy::Stock, 4096)], None, 4096, None).len(), 2);
    }

    #[test]
    fn what_is_expected_grows_with_what_is_asked_for() {
        let runner = Runner::new(Default::default()).unwrap();
        let page = rustix::param::page_size() as u64;
        let cells = [cell(1.0, Policy::Stock, page)];
        // A cell with what it does not measure, its reference, and a calibration.
        assert_eq!(writes_of(&cells, true, page, 1), 20_000 + 10_000 + 20_000 + 20_000);
        assert_eq!(writes_of(&cells, false, page, 100), 100 * 50_000);
        assert!(expected(&runner, &cells, true, page, 1).unwrap() > Duration::ZERO);
        assert_eq!(expected(&runner, &[], true, page, 1).unwrap(), Duration::ZERO);
    }

    #[test]
    fn a_calibrated_cell_forks_and_its_calibration_is_told() {
        let runner = Runner::new(Default::default()).unwrap();
        let page = rustix::param::page_size() as u64;
        let tasks = tasks(&[cell(1.0, Policy::Stock, page)], None, page, None);
        let rounds = crate::Rounds::exactly(2);
        let mut samples = Vec::new();
        let whole = |mut round: Vec<Sample>| {
            samples.append(&mut round);
            Ok(())
        };
        crate::run_rounds(&runner, &tasks, rounds, 1, |_, _| {}, whole).unwrap();
        let of = |metric: &str, forks: &str| -> Vec<f64> {
            let is = |s: &&Sample| s.metric == metric && s.params["forks"] == forks;
            samples.iter().filter(is).map(|s| s.value).collect()
        };
        assert_eq!(of("interval_ns", "once").len(), 1);
        assert_eq!(of("throughput_per_s", "yes").len(), 2);
        assert_eq!(of("throughput_per_s", "no").len(), 2);
        assert_eq!(of("interval_ns", "yes"), of("interval_ns", "once").repeat(2));
        assert!(of("forks", "yes").iter().all(|forks| *forks >= 1.0));
        assert!(of("forks", "no").iter().all(|forks| *forks == 0.0));
    }

    #[test]
    fn the_space_is_an_eighth_of_what_is_free_or_modest() {
        let with = |available_bytes| {
            let memory = Memory { available_bytes, ..Memory::default() };
            default_size_bytes(&Facts { memory: Some(memory), ..Facts::default() })
        };
        assert_eq!(with(Some(1 << 30)), 128 << 20);
        assert_eq!(with(Some(4 << 40)), 256 << 20);
        assert_eq!(with(Some(64 << 20)), 16 << 20);
        assert_eq!(with(None), 16 << 20);
    }
}
