// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench observe`: what watching costs a program that does nothing but fault, beside bpftrace and
//! perf, and how well a fork's stop is seen from outside.

mod others;
mod own;

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use cowlab_machine::tracing::Tracing;
use cowlab_probes::{CowFaultsResult, Probe};
use cowlab_schema::cow_faults::CowFaults;
use cowlab_schema::fork_sweep::DoFork;
use cowlab_schema::{Pattern, Writer};
use cowlab_store::{Missing, Params};

use crate::task::{Recorder, Task, median_of};
use others::Other;
use own::Watching;

/// The name of this benchmark in samples.
pub const BENCH: &str = "observe";

/// Who watches meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watcher {
    /// Nobody, twice: how far two runs of the same differ.
    Alone,
    /// `watch` as it is by default: forks, exits, execs.
    Events,
    /// Faults counted by process.
    Count,
    /// Faults counted by 2 MiB.
    Regions,
    /// Every fault with its address.
    Every,
    /// bpftrace, counting exceptions:page_fault_user.
    Bpftrace,
    /// perf record of the same.
    Perf,
}

impl Watcher {
    /// All of them.
    pub const ALL: [Watcher; 7] = [
        Watcher::Alone,
        Watcher::Events,
        Watcher::Count,
        Watcher::Regions,
        Watcher::Every,
        Watcher::Bpftrace,
        Watcher::Perf,
    ];

    /// Its name on the command line and in samples.
    pub fn name(self) -> &'static str {
        match self {
            Watcher::Alone => "alone",
            Watcher::Events => "events",
            Watcher::Count => "count",
            Watcher::Regions => "regions",
            Watcher::Every => "every-fault",
            Watcher::Bpftrace => "bpftrace",
            Watcher::Perf => "perf",
        }
    }
}

impl fmt::Display for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Watcher {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Watcher::ALL.into_iter().find(|watcher| watcher.name() == text).ok_or_else(|| {
            let known = Watcher::ALL.map(Watcher::name).join(", ");
            format!("unknown watcher '{text}': choose one of {known}")
        })
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct ObserveSettings {
    /// Who watches, in turn.
    pub watchers: Vec<Watcher>,
    /// Memory of which every page is copied in each repetition.
    pub size_bytes: u64,
    /// Heaps whose forks are watched.
    pub heaps_bytes: Vec<u64>,
    /// Forks of each.
    pub forks: u64,
    /// Size of a page.
    pub page_size_bytes: u64,
    /// tracefs, which bpftrace and perf need.
    pub tracing: Option<Tracing>,
}

/// What can be measured here.
pub struct ObservePlan {
    /// To be run in rounds.
    pub tasks: Vec<Task>,
    /// What is not there, and what helps.
    pub missing: Vec<Missing>,
}

/// Try each watcher once, and leave out those that do not work here.
pub fn plan(settings: &ObserveSettings) -> ObservePlan {
    let mut plan = ObservePlan { tasks: Vec::new(), missing: Vec::new() };
    let mut seen: Vec<Watcher> = Vec::new();
    for &watcher in &settings.watchers {
        if seen.contains(&watcher) {
            continue;
        }
        seen.push(watcher);
        match Guard::begin(watcher, settings.tracing.as_ref()) {
            Ok(guard) => {
                drop(guard);
                plan.tasks.push(fault_task(settings.clone(), watcher));
            }
            Err(error) => plan.missing.push(Missing {
                metric: format!("{BENCH}: {watcher}"),
                reason: format!("{error:#}"),
            }),
        }
    }
    if seen.contains(&Watcher::Events) {
        let tasks = settings.heaps_bytes.iter().map(|heap| stop_task(settings, *heap));
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

fn params(watcher: Watcher, what: (&str, u64)) -> Params {
    [("watcher", watcher.to_string()), (what.0, what.1.to_string())]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
}

/// The same writes alone and watched, one right after the other: what the machine does meanwhile
/// falls on both. Which comes first alternates.
fn fault_task(settings: ObserveSettings, watcher: Watcher) -> Task {
    Task::new(format!("{BENCH}: faults, {watcher}"), move |runner, rep| {
        let alone = || fault_ns(&cow_faults(&settings, rep).run(runner)?);
        let before = if rep.is_multiple_of(2) { Some(alone()?) } else { None };
        let guard = Guard::begin(watcher, settings.tracing.as_ref())?;
        let faults = cow_faults(&settings, rep).run(runner)?;
        let size = ("size_bytes", settings.size_bytes);
        let mut out = Recorder::new(BENCH, params(watcher, size), rep, faults.start_unix_ns);
        if let Guard::Own(watching) = guard {
            let seen = watching.end()?;
            if watcher != Watcher::Events {
                let written: u64 = faults.pages_written.iter().sum();
                // Its untimed repetitions and everything else that it did are seen as well.
                ensure!(seen.faults >= written, "{} of {written} faults were seen", seen.faults);
                out.add("seen_faults", seen.faults as f64);
                out.add("lost_faults", seen.lost as f64);
            }
        } else {
            drop(guard);
        }
        let alone_ns = before.map_or_else(alone, Ok)?;
        let watched_ns = fault_ns(&faults)?;
        out.add("fault_ns", watched_ns);
        out.add("alone_fault_ns", alone_ns);
        out.add("to_alone_ratio", watched_ns / alone_ns);
        Ok(out.finish())
    })
}

/// The time of a page.
fn fault_ns(faults: &CowFaultsResult) -> Result<f64> {
    let pages = median_of(&faults.pages_written).context("no pages were written")?;
    Ok(median_of(&faults.elapsed_ns).context("nothing was timed")? / pages)
}

fn cow_faults(settings: &ObserveSettings, rep: u32) -> CowFaults {
    CowFaults {
        pattern: Pattern::Sequential,
        size_bytes: settings.size_bytes,
        writer: Writer::Parent,
        page_size_bytes: settings.page_size_bytes,
        repetitions: 12,
        unmeasured: 1,
        seed: 1 + u64::from(rep),
        ..CowFaults::default()
    }
}

/// The same forks, as the program that forks times them and as they are seen.
fn stop_task(settings: &ObserveSettings, heap_bytes: u64) -> Task {
    let (forks, page) = (settings.forks, settings.page_size_bytes);
    Task::new(format!("{BENCH}: stops, {} MiB", heap_bytes >> 20), move |runner, rep| {
        let watching = Watching::begin(Watcher::Events)?;
        let settings = DoFork::new(forks, heap_bytes, 0.0, page);
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
        let heap = ("heap_bytes", heap_bytes);
        let mut out =
            Recorder::new(BENCH, params(Watcher::Events, heap), rep, result.start_unix_ns);
        for (metric, value) in [
            ("fork_ns", median_of(&result.fork_ns)),
            ("stop_ns", median_of(stops)),
            ("unseen_ns", median_of(&unseen)),
            ("stop_to_fork_ratio", cowlab_model::stats::median(&ratio)),
        ] {
            out.add(metric, value.context("no fork was timed")?);
        }
        Ok(out.finish())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_have_names_that_are_parsed() {
        for watcher in Watcher::ALL {
            assert_eq!(watcher.to_string().parse(), Ok(watcher));
        }
        assert!("strace".parse::<Watcher>().unwrap_err().contains("bpftrace"));
    }
}
