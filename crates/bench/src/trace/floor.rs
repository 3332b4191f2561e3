// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The least that a time-stamped event can cost: trace_floor.c.

use cowlab_probes::Program;

use super::{BENCH, Tool, TraceSettings, samples};
use crate::task::Task;

/// One task for each number of threads.
pub(super) fn tasks(settings: &TraceSettings) -> Vec<Task> {
    let task = |threads: &u32| {
        let run = settings.run(*threads, settings.buffer_bytes);
        Task::new(format!("{BENCH}: floor, {threads} threads"), move |runner, rep| {
            let result = run.run(runner, Program::TraceFloor)?;
            samples::of_events(
                "event_ns",
                samples::params(Tool::Floor, "", &run, None),
                &result,
                rep,
            )
        })
    };
    settings.threads.iter().map(task).collect()
}
