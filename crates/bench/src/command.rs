// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `command`: any program, timed from outside under each policy in turn.

use std::ffi::OsString;
use std::process::Command;
use std::rc::Rc;

use cowlab_machine::cow_stats::CowStats;
use cowlab_machine::{Policy, PolicyGuard, Root};
use cowlab_store::Params;

use crate::task::{Recorder, Task};

/// The name of this benchmark in samples.
pub const BENCH: &str = "command";

/// A count of the whole system, and its name in samples.
type Count = (&'static str, fn(&CowStats) -> Option<u64>);

const COUNTS: [Count; 8] = [
    ("cow_faults", |counts| counts.faults),
    ("precopy_attempts", |counts| counts.precopy_attempts),
    ("precopy_success", |counts| counts.precopy_success),
    ("precopy_written", |counts| counts.precopy_written),
    ("precopy_wasted", |counts| counts.precopy_wasted),
    ("flushes", |counts| counts.flushes),
    ("ptl_holds", |counts| counts.ptl_holds),
    ("allocations", |counts| counts.allocations),
];

/// One task for each policy.
pub fn tasks(
    command: &[OsString],
    policies: &[Policy],
    guard: Option<Rc<PolicyGuard>>,
) -> Vec<Task> {
    let words: Vec<String> = command.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let task = |policy: &Policy| {
        let (policy, guard, command) = (*policy, guard.clone(), command.to_vec());
        let params: Params =
            [("command".to_owned(), words.join(" ")), ("policy".to_owned(), policy.to_string())]
                .into();
        let name = format!("{BENCH}: {}, policy {policy}", words[0]);
        Task::new(name, move |runner, rep| {
            if let Some(guard) = &guard {
                guard.set(policy)?;
            }
            let mut program = Command::new(&command[0]);
            program.args(&command[1..]);
            let root = Root::default();
            let before = CowStats::read(&root)?;
            let timed = runner.time_command(&command[0].to_string_lossy(), program)?;
            let after = CowStats::read(&root)?;
            let mut out = Recorder::new(BENCH, params.clone(), rep, timed.start_unix_ns);
            out.add("elapsed_ns", timed.outside.real_ns as f64);
            out.add("user_ns", timed.outside.user_ns as f64);
            out.add("sys_ns", timed.outside.sys_ns as f64);
            // Exact where its parts are only sampled by the kernel's tick.
            out.add("cpu_ns", (timed.outside.user_ns + timed.outside.sys_ns) as f64);
            out.add("minor_faults", timed.outside.minor_faults as f64);
            if let (Some(before), Some(after)) = (before, after) {
                for (metric, count) in COUNTS {
                    if let (Some(before), Some(after)) = (count(&before), count(&after)) {
                        out.add(metric, after as f64 - before as f64);
                    }
                }
            }
            Ok(out.finish())
        })
    };
    policies.iter().map(task).collect()
}
