// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings and results of probes/calibrate.c.

use anyhow::Result;

use crate::program::Program;
use crate::rows::Rows;
use crate::runner::Runner;

/// One invocation of calibrate.
#[derive(Debug, Clone, PartialEq)]
pub struct Primitives {
    /// Rounds, each of which measures everything once.
    pub rounds: u64,
    /// Size of the memory that is copied, written and forked.
    pub size_bytes: u64,
    /// Size of its pages: base pages or huge ones, which measure different things.
    pub page_size_bytes: u64,
    /// Other running threads, for the cost of a remote flush; 0 where there is one CPU.
    pub threads: u32,
}

impl Primitives {
    /// Run it.
    pub fn run(&self, runner: &Runner) -> Result<PrimitivesResult> {
        let mut arguments = vec![
            format!("--threads={}", self.threads),
            format!("--page-size-bytes={}", self.page_size_bytes),
            "--pinned=true".to_owned(),
        ];
        arguments.extend(runner.warm_flag());
        arguments.extend([self.rounds.to_string(), self.size_bytes.to_string()]);
        let outcome = runner.run(Program::Calibrate, &arguments)?;
        Ok(PrimitivesResult {
            start_unix_ns: outcome.start_unix_ns,
            pages: outcome.rows.value("pages")?,
            timer_reads: outcome.rows.value("timer_reads")?,
            populate_faults: outcome.rows.value("populate_faults")?,
            page_table_kib: outcome.rows.value("page_table_kib")?,
            rows: outcome.rows,
        })
    }
}

/// What calibrate measured.
#[derive(Debug, Clone, PartialEq)]
pub struct PrimitivesResult {
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    /// Pages, of the size asked for.
    pub pages: u64,
    /// Reads of the clock in one round.
    pub timer_reads: u64,
    /// Faults that populating took: equal to `pages` if the kernel gave the size asked for.
    pub populate_faults: u64,
    /// Growth of VmPTE by populating.
    pub page_table_kib: u64,
    rows: Rows,
}

impl PrimitivesResult {
    /// Totals of one row (`write_ns`, `populate_ns`, …), one a round; empty if unavailable.
    pub fn totals_ns(&self, metric: &str) -> Vec<u64> {
        self.rows.values(metric)
    }
}
