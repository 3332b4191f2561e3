// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `trace`: what one event and one instrumented call cost, by several tracers in one run.
//!
//! A tracer that is not there gives no figure but a reason; casper/docs/bench-trace.md says what is
//! compared with what.

mod casper;
mod floor;
mod lttng;
mod samples;
mod uftrace;

use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use anyhow::Result;
use cowlab_probes::{TraceRun, TraceSources};
use cowlab_store::Missing;

use crate::task::Task;

/// The name of this benchmark in samples.
pub const BENCH: &str = "trace";

/// What installs the tracers that this one is compared with.
const INSTALL: &str = "run `make bench-trace`, which installs it";

/// Whose events or calls are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// A time-stamp read and a 24-byte store.
    Floor,
    /// libcasper: casrecord, and functions instrumented by `cowlab insert`.
    Casper,
    /// libcasper's hooks for -finstrument-functions.
    CasperFinstrument,
    /// LTTng-UST.
    LttngUst,
    /// uftrace.
    Uftrace,
}

impl Tool {
    /// Every one of them.
    pub const ALL: [Tool; 5] =
        [Tool::Floor, Tool::Casper, Tool::CasperFinstrument, Tool::LttngUst, Tool::Uftrace];

    /// Its name in flags and samples.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Floor => "floor",
            Tool::Casper => "casper",
            Tool::CasperFinstrument => "casper-finstrument",
            Tool::LttngUst => "lttng-ust",
            Tool::Uftrace => "uftrace",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tool {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Tool::ALL.into_iter().find(|tool| tool.name() == text).ok_or_else(|| {
            let known = Tool::ALL.map(Tool::name).join(", ");
            format!("unknown tool '{text}': choose one of {known}")
        })
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// Whose.
    pub tools: Vec<Tool>,
    /// Numbers of threads that make events at once.
    pub threads: Vec<u32>,
    /// Timed events of each thread in a round.
    pub events: u64,
    /// Size of a thread's ring; of a CPU's, where a tracer has one for each CPU.
    pub buffer_bytes: u64,
    /// Whether each thread has a CPU of its own.
    pub pinned: bool,
}

/// Events of a batch: some 80 µs at the floor, so that two readings of the clock do not show.
const BATCH_EVENTS: u64 = 8000;

/// No record of any tracer here is smaller: so many events fill a ring for certain.
const SMALLEST_RECORD_BYTES: u64 = 16;

impl TraceSettings {
    /// How a program is to be run, with a ring of `buffer_bytes` warmed by a whole lap.
    fn run(&self, threads: u32, buffer_bytes: u64) -> TraceRun {
        let batch_events = BATCH_EVENTS.min(self.events);
        TraceRun {
            threads,
            warm_events: buffer_bytes / SMALLEST_RECORD_BYTES,
            batches: self.events.div_ceil(batch_events),
            batch_events,
            buffer_bytes,
            pause_ms: 0,
            pinned: self.pinned,
            nested: false,
        }
    }
}

/// What can be measured here.
pub struct TracePlan {
    /// To be run in rounds.
    pub tasks: Vec<Task>,
    /// What is not there, and what helps.
    pub missing: Vec<Missing>,
}

/// Get everything ready that the rounds need: compile the peers' programs, start LTTng's daemon.
/// It ends with the last task that is dropped.
pub fn plan(settings: &TraceSettings) -> Result<TracePlan> {
    let sources = Rc::new(TraceSources::new()?);
    let mut plan = TracePlan { tasks: Vec::new(), missing: Vec::new() };
    for &tool in &settings.tools {
        let tasks = match tool {
            Tool::Floor => Ok(floor::tasks(settings)),
            Tool::Casper | Tool::CasperFinstrument => casper::tasks(settings, tool, &sources),
            Tool::LttngUst => lttng::tasks(settings, &sources),
            Tool::Uftrace => uftrace::tasks(settings, &sources),
        };
        match tasks {
            Ok(tasks) => plan.tasks.extend(tasks),
            Err(error) => plan
                .missing
                .push(Missing { metric: format!("{BENCH}: {tool}"), reason: format!("{error:#}") }),
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_names_that_are_parsed() {
        for tool in Tool::ALL {
            assert_eq!(tool.to_string().parse(), Ok(tool));
        }
        assert!("strace".parse::<Tool>().unwrap_err().contains("lttng-ust"));
    }

    #[test]
    fn a_small_run_is_one_batch() {
        let settings = TraceSettings {
            tools: Vec::new(),
            threads: vec![1],
            events: 100,
            buffer_bytes: 1 << 20,
            pinned: false,
        };
        let run = settings.run(1, 1 << 20);
        assert_eq!((run.batches, run.batch_events, run.warm_events), (1, 100, 1 << 16));
    }
}
