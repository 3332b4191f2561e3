// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of probes/fork_table.c.

use anyhow::Result;
use cowlab_schema::fork_table::ForkTable;

use crate::probes::program::Program;
use crate::probes::runner::{Outcome, Probe, Runner};

impl Probe for ForkTable {
    const PROGRAM: Program = Program::ForkTable;
    type Result = ForkTableResult;

    fn beside(&self, runner: &Runner) -> Result<Vec<String>> {
        Ok(vec![format!("--spawn={}", runner.tiny_path()?)])
    }

    fn read(outcome: Outcome) -> Result<ForkTableResult> {
        let rows = &outcome.rows;
        let cpu = |of: &str| -> Result<u64> {
            Ok(rows.value(&format!("{of}_user_ns"))? + rows.value(&format!("{of}_sys_ns"))?)
        };
        Ok(ForkTableResult {
            start_unix_ns: outcome.start_unix_ns,
            elapsed_ns: rows.value("elapsed_ns")?,
            program_cpu_ns: cpu("self")?,
            children_cpu_ns: cpu("children")?,
        })
    }
}

/// What fork_table measured over all its iterations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForkTableResult {
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    pub elapsed_ns: u64,
    /// User and system time of the program itself in the loop.
    pub program_cpu_ns: u64,
    /// User and system time of its children.
    pub children_cpu_ns: u64,
}
