// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The least that a time-stamped event can cost: trace_floor.c.

use cowlab_probes::Program;

use super::{BENCH, Tool, Traced, run_of, samples};
use crate::task::Task;

/// One task for each number of threads.
pub(super) fn tasks(cells: &[&Traced]) -> Vec<Task> {
    let task = |cell: &&Traced| {
        let threads = cell.threads;
        let run = run_of(cell, cell.buffer_bytes);
        Task::new(format!("{BENCH}: floor, {threads} threads"), move |runner, rep| {
            let result = run.run(runner, Program::TraceFloor)?;
            samples::of_events(
                samples::EVENT,
                samples::params(Tool::Floor, "", &run, None),
                &result,
                rep,
            )
        })
    };
    cells.iter().map(task).collect()
}
