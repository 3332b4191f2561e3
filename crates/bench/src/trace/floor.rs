// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The least that a time-stamped event can cost: trace_floor.c.

use crate::probes::Program;

use super::{BENCH, Tool, Traced, run_of, samples};
use crate::task::Task;

/// One task for each number of threads.
pub(super) fn tasks(cells: &[&Traced]) -> Vec<Task> {
    let task = |cell: &&Traced| {
        let threads = cell.threads;
        let run = run_of(cell, cell.buffer_bytes);
        Task::new(format!("{BENCH}: floor, {threads} threads"), move |runner, round| {
            let result = run.run(runner, Program::TraceFloor)?;
            let params = samples::params(Tool::Floor, "", &run, None);
            samples::of_events(round, samples::EVENT, params, &result)
        })
    };
    cells.iter().map(task).collect()
}
