// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench observe`: what watching costs a program that does nothing but fault, beside bpftrace and
//! perf, and how well a fork's stop is seen from outside.

mod others;
mod own;

use anyhow::{Context, Result, ensure};
use cowlab_machine::tracing::Tracing;
use cowlab_probes::{CowFaultsResult, Probe};
use cowlab_schema::cow_faults::CowFaults;
use cowlab_schema::fork_sweep::DoFork;
use cowlab_schema::observe::{self, Observed, Watcher};
use cowlab_schema::{Cell, Key, Pattern, Writer};
use cowlab_store::{Missing, Params};

use crate::task::{Task, median_of};
use others::Other;
use own::Watching;

/// The name of this benchmark in samples.
pub const BENCH: &str = observe::BENCH.name;

/// What can be measured here.
pub struct ObservePlan {
    /// To be run in rounds.
    pub tasks: Vec<Task>,
    /// What is not there, and what helps.
    pub missing: Vec<Missing>,
}

/// Try each watcher once, and leave out those that do not work here.
pub fn plan(cells: &[Observed], page: u64, tracing: &Option<Tracing>) -> ObservePlan {
    let mut plan = ObservePlan { tasks: Vec::new(), missing: Vec::new() };
    let first = |same: fn(&Observed, &Observed) -> bool| {
        let is_first =
            move |(at, cell): &(usize, &Observed)| !cells[..*at].iter().any(|c| same(c, cell));
        cells.iter().enumerate().filter(is_first).map(|(_, cell)| cell)
    };
    for cell in first(|a, b| (a.watcher, a.size_bytes) == (b.watcher, b.size_bytes)) {
        let watcher = cell.watcher;
        match Guard::begin(watcher, tracing.as_ref()) {
            Ok(guard) => {
                drop(guard);
                plan.tasks.push(fault_task(cell.clone(), page, tracing.clone()));
            }
            Err(error) => plan.missing.push(Missing {
                metric: format!("{BENCH}: {watcher}"),
                reason: format!("{error:#}"),
            }),
        }
    }
    if cells.iter().any(|cell| cell.watcher == Watcher::Events) {
        let tasks = first(|a, b| a.heap_bytes == b.heap_bytes).map(|cell| stop_task(cell, page));
        match Guard::begin(Watcher::Events, None) {
            Ok(_) => plan.tasks.extend(tasks),
            Err(error) => plan.missing.push(Missing {
                metric: format!("{BENCH}: stop_ns"),
                reason: format!("{error:#}"),
            }),
        }
    }
    plan
}

/// Somebody who watches until it is dropped.
enum Guard {
    Nobody,
    Own(Watching),
    Other { _ends_when_dropped: Other },
}

impl Guard {
    fn begin(watcher: Watcher, tracing: Option<&Tracing>) -> Result<Guard> {
        Ok(match watcher {
            Watcher::Alone => Guard::Nobody,
            Watcher::Bpftrace => Guard::Other { _ends_when_dropped: Other::bpftrace(tracing)? },
            Watcher::Perf => Guard::Other { _ends_when_dropped: Other::perf(tracing)? },
            own => Guard::Own(Watching::begin(own)?),
        })
    }
}

/// The parameters of a row, without the size of what it is not of.
fn params(cell: &Observed, other: Key<u64>) -> Params {
    let mut params = cell.params();
    params.remove(other.name());
    params
}

/// The same writes alone and watched, one right after the other: what the machine does meanwhile
/// falls on both. Which comes first alternates.
fn fault_task(cell: Observed, page: u64, tracing: Option<Tracing>) -> Task {
    let watcher = cell.watcher;
    Task::new(format!("{BENCH}: faults, {watcher}"), move |runner, round| {
        let number = round.number;
        let alone = || fault_ns(&cow_faults(&cell, page, number).run(runner)?);
        let before = if number.is_multiple_of(2) { Some(alone()?) } else { None };
        let guard = Guard::begin(watcher, tracing.as_ref())?;
        let faults = cow_faults(&cell, page, number).run(runner)?;
        let params = params(&cell, observe::HEAP_BYTES);
        let mut out = round.record(BENCH, params, faults.start_unix_ns);
        if let Guard::Own(watching) = guard {
            let seen = watching.end()?;
            if watcher != Watcher::Events {
                let written: u64 = faults.pages_written.iter().sum();
                // Its untimed repetitions and everything else that it did are seen as well.
                ensure!(seen.faults >= written, "{} of {written} faults were seen", seen.faults);
                out.add(observe::SEEN_FAULTS, seen.faults);
                out.add(observe::LOST_FAULTS, seen.lost);
            }
        } else {
            drop(guard);
        }
        let alone_ns = before.map_or_else(alone, Ok)?;
        let watched_ns = fault_ns(&faults)?;
        out.add(observe::FAULT_NS, watched_ns);
        out.add(observe::ALONE_FAULT_NS, alone_ns);
        out.add(observe::TO_ALONE_RATIO, watched_ns / alone_ns);
        Ok(())
    })
}

/// The time of a page.
fn fault_ns(faults: &CowFaultsResult) -> Result<f64> {
    let pages = median_of(&faults.pages_written).context("no pages were written")?;
    Ok(median_of(&faults.elapsed_ns).context("nothing was timed")? / pages)
}

fn cow_faults(cell: &Observed, page: u64, rep: u32) -> CowFaults {
    CowFaults {
        pattern: Pattern::Sequential,
        size_bytes: cell.size_bytes,
        writer: Writer::Parent,
        page_size_bytes: page,
        repetitions: 12,
        unmeasured: 1,
        seed: 1 + u64::from(rep),
        ..CowFaults::default()
    }
}

/// The same forks, as the program that forks times them and as they are seen.
fn stop_task(cell: &Observed, page: u64) -> Task {
    let cell = Observed { watcher: Watcher::Events, ..cell.clone() };
    Task::new(format!("{BENCH}: stops, {} MiB", cell.heap_bytes >> 20), move |runner, round| {
        let watching = Watching::begin(Watcher::Events)?;
        let settings = DoFork::new(cell.forks, cell.heap_bytes, 0.0, page);
        let result = settings.run(runner)?;
        let seen = watching.end()?;
        let stops: Vec<u64> =
            seen.stops.iter().filter(|(pid, _)| *pid == result.pid).map(|(_, ns)| *ns).collect();
        ensure!(
            stops.len() >= result.fork_ns.len(),
            "{} of {} forks were seen",
            stops.len(),
            result.fork_ns.len()
        );
        // A probe may fork before the forks that it times.
        let stops = &stops[stops.len() - result.fork_ns.len()..];
        let ratio: Vec<f64> = stops
            .iter()
            .zip(&result.fork_ns)
            .map(|(seen, own)| *seen as f64 / *own as f64)
            .collect();
        let unseen: Vec<u64> = stops
            .iter()
            .zip(&result.fork_ns)
            .map(|(seen, own)| own.saturating_sub(*seen))
            .collect();
        let params = params(&cell, observe::SIZE_BYTES);
        let mut out = round.record(BENCH, params, result.start_unix_ns);
        for (metric, value) in [
            (observe::FORK_NS, median_of(&result.fork_ns)),
            (observe::STOP_NS, median_of(stops)),
            (observe::UNSEEN_NS, median_of(&unseen)),
            (observe::STOP_TO_FORK_RATIO, cowlab_model::stats::median(&ratio)),
        ] {
            out.add(metric, value.context("no fork was timed")?);
        }
        Ok(())
    })
}
