// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings and results of probes/fork_small.c.

use anyhow::Result;

use crate::program::Program;
use crate::runner::Runner;

/// One invocation of fork_small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkSmall {
    /// Forks that are timed; one more comes before them. 500 at most.
    pub forks: u32,
    /// Memory beyond the one page each of text, data and stack, written before the forks.
    pub heap_bytes: u64,
}

/// What it measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkSmallResult {
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    /// The parent's time in each fork.
    pub fork_ns: Vec<u64>,
    /// What two readings of the clock take alone.
    pub timer_ns: u64,
}

impl ForkSmall {
    /// Run it.
    pub fn run(&self, runner: &Runner) -> Result<ForkSmallResult> {
        let arguments = [self.forks.to_string(), self.heap_bytes.to_string()];
        let outcome = runner.run(Program::ForkSmall, &arguments)?;
        Ok(ForkSmallResult {
            start_unix_ns: outcome.start_unix_ns,
            fork_ns: outcome.rows.values("fork_ns"),
            timer_ns: outcome.rows.value("timer_ns")?,
        })
    }
}
