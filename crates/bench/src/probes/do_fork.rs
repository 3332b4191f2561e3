// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of probes/do_fork.c.

use anyhow::Result;
use cowlab_schema::fork_sweep::DoFork;

use crate::probes::program::Program;
use crate::probes::runner::{Outcome, Outside, Probe, Runner};

impl Probe for DoFork {
    const PROGRAM: Program = Program::DoFork;
    type Result = DoForkResult;

    fn beside(&self, runner: &Runner) -> Result<Vec<String>> {
        let spawned = format!("--spawn={}", runner.tiny_path()?);
        Ok([Some(spawned), runner.warm_flag()].into_iter().flatten().collect())
    }

    fn read(outcome: Outcome) -> Result<DoForkResult> {
        let rows = &outcome.rows;
        let cpu = |of: &str| -> Result<CpuTime> {
            Ok(CpuTime {
                user_ns: rows.value(&format!("{of}_user_ns"))?,
                sys_ns: rows.value(&format!("{of}_sys_ns"))?,
                minor_faults: rows.value(&format!("{of}_minor_faults"))?,
            })
        };
        Ok(DoForkResult {
            start_unix_ns: outcome.start_unix_ns,
            pid: outcome.pid,
            outside: outcome.outside,
            loop_ns: rows.value("loop_ns")?,
            program: cpu("self")?,
            children: cpu("children")?,
            populate_faults: rows.value("populate_faults")?,
            fork_ns: rows.values("fork_ns"),
            child_start_ns: rows.values("child_start_ns"),
            write_ns: rows.values("write_ns"),
            cycle_ns: rows.values("cycle_ns"),
        })
    }
}

/// What getrusage(2) charged over the loop of forks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuTime {
    pub user_ns: u64,
    pub sys_ns: u64,
    pub minor_faults: u64,
}

/// What do_fork measured. Per-fork values are in the order of the forks.
#[derive(Debug, Clone, PartialEq)]
pub struct DoForkResult {
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    /// Its process id, for what others recorded about it.
    pub pid: u32,
    pub outside: Outside,
    /// From the first fork to the end of the last one's work.
    pub loop_ns: u64,
    /// CPU time of the program itself in the loop, its threads' included.
    pub program: CpuTime,
    pub children: CpuTime,
    /// Faults that populating the heap took: pages divided by it is the pages a fault got.
    pub populate_faults: u64,
    /// The call, until it returned in the parent.
    pub fork_ns: Vec<u64>,
    /// From the call until the child's first instruction.
    pub child_start_ns: Vec<u64>,
    pub write_ns: Vec<u64>,
    /// From the call until the child was reaped and the writes were over.
    pub cycle_ns: Vec<u64>,
}
