// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of probes/fork_small.c.

use anyhow::Result;
use cowlab_schema::fork_sections::ForkSections;

use crate::probes::program::Program;
use crate::probes::runner::{Outcome, Probe, Runner};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkSmallResult {
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    /// The parent's time in each fork.
    pub fork_ns: Vec<u64>,
    /// What two readings of the clock take alone.
    pub timer_ns: u64,
}

impl Probe for ForkSections {
    const PROGRAM: Program = Program::ForkSmall;
    type Result = ForkSmallResult;

    fn beside(&self, _: &Runner) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn read(outcome: Outcome) -> Result<ForkSmallResult> {
        Ok(ForkSmallResult {
            start_unix_ns: outcome.start_unix_ns,
            fork_ns: outcome.rows.values("fork_ns"),
            timer_ns: outcome.rows.value("timer_ns")?,
        })
    }
}
