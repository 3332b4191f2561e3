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

use std::rc::Rc;

use crate::probes::{TraceRun, TraceSources};
use anyhow::Result;
use cowlab_schema::trace::{Tool, Traced};
use cowlab_store::Missing;

use crate::task::Task;

/// The name of this benchmark in samples.
pub const BENCH: &str = cowlab_schema::trace::BENCH.name;

/// What installs the tracers that this one is compared with.
const INSTALL: &str =
    "run make bench-trace, or apt install uftrace lttng-tools liblttng-ust-dev babeltrace2";

/// Events of a batch: some 80 µs at the floor, so that two readings of the clock do not show.
const BATCH_EVENTS: u64 = 8000;

/// No record of any tracer here is smaller: so many events fill a ring for certain.
const SMALLEST_RECORD_BYTES: u64 = 16;

/// How a program is to be run, with a ring of `buffer_bytes` warmed by a whole lap.
fn run_of(cell: &Traced, buffer_bytes: u64) -> TraceRun {
    let batch_events = BATCH_EVENTS.min(cell.events);
    TraceRun {
        threads: cell.threads,
        warm_events: buffer_bytes / SMALLEST_RECORD_BYTES,
        batches: cell.events.div_ceil(batch_events),
        batch_events,
        buffer_bytes,
        pause_ms: 0,
        pinned: cell.pinned,
        nested: false,
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
pub fn plan(cells: &[Traced]) -> Result<TracePlan> {
    let sources = Rc::new(TraceSources::new()?);
    let mut plan = TracePlan { tasks: Vec::new(), missing: Vec::new() };
    for &tool in Tool::ALL {
        let own: Vec<&Traced> = cells.iter().filter(|cell| cell.tool == tool).collect();
        if own.is_empty() {
            continue;
        }
        let tasks = match tool {
            Tool::Floor => Ok(floor::tasks(&own)),
            Tool::Casper | Tool::CasperFinstrument => casper::tasks(&own, tool, &sources),
            Tool::LttngUst => lttng::tasks(&own, &sources),
            Tool::Uftrace => uftrace::tasks(&own, &sources),
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
    fn a_small_run_is_one_batch() {
        let run = run_of(&Traced { events: 100, ..Traced::default() }, 1 << 20);
        assert_eq!((run.batches, run.batch_events, run.warm_events), (1, 100, 1 << 16));
    }
}
