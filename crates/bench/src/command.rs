// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `command`: any program, timed from outside under each policy in turn.

use std::ffi::OsString;
use std::process::Command;
use std::rc::Rc;

use cowlab_machine::cow_stats::CowStats;
use cowlab_machine::{PolicyGuard, Root};
use cowlab_schema::command::{self, Commanded};
use cowlab_schema::{Cell, Metric};
use cowlab_store::redacted;

use crate::task::Task;

/// The name of this benchmark in samples.
pub const BENCH: &str = command::BENCH.name;

/// A count of the whole system, and its name in samples.
type Count = (Metric, fn(&CowStats) -> Option<u64>);

const COUNTS: [Count; 8] = [
    (command::COW_FAULTS, |counts| counts.faults),
    (command::PRECOPY_ATTEMPTS, |counts| counts.precopy_attempts),
    (command::PRECOPY_SUCCESS, |counts| counts.precopy_success),
    (command::PRECOPY_WRITTEN, |counts| counts.precopy_written),
    (command::PRECOPY_WASTED, |counts| counts.precopy_wasted),
    (command::FLUSHES, |counts| counts.flushes),
    (command::PTL_HOLDS, |counts| counts.ptl_holds),
    (command::ALLOCATIONS, |counts| counts.allocations),
];

pub fn tasks(
    program: &[OsString],
    cells: Vec<Commanded>,
    guard: Option<Rc<PolicyGuard>>,
) -> Vec<Task> {
    let words: Vec<String> = program.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let task = |cell: Commanded| {
        let (policy, guard, program) = (cell.policy, guard.clone(), program.to_vec());
        let mut params = cell.params();
        command::COMMAND.put(&mut params, &redacted(&words).join(" "));
        let name = format!("{BENCH}: {}, policy {policy}", words[0]);
        Task::new(name, move |runner, round| {
            if let Some(guard) = &guard {
                guard.set_and_count(policy)?;
            }
            let mut called = Command::new(&program[0]);
            called.args(&program[1..]);
            let root = Root::default();
            let before = CowStats::read(&root)?;
            let timed = runner.time_command(&program[0].to_string_lossy(), called)?;
            let after = CowStats::read(&root)?;
            let mut out = round.record(BENCH, params.clone(), timed.start_unix_ns);
            out.add(command::ELAPSED_NS, timed.outside.real_ns);
            out.add(command::USER_NS, timed.outside.user_ns);
            out.add(command::SYS_NS, timed.outside.sys_ns);
            // Exact where its parts are only sampled by the kernel's tick.
            out.add(command::CPU_NS, timed.outside.user_ns + timed.outside.sys_ns);
            out.add(command::MINOR_FAULTS, timed.outside.minor_faults);
            if let (Some(before), Some(after)) = (before, after) {
                out.add_known(COUNTS.map(|(metric, count)| {
                    let counts = count(&before).zip(count(&after));
                    (metric, counts.map(|(before, after)| after as f64 - before as f64))
                }));
            }
            Ok(())
        })
    };
    cells.into_iter().map(task).collect()
}
