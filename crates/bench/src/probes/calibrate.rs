// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of probes/calibrate.c.

use anyhow::Result;
use cowlab_schema::calibrate::Primitives;

use crate::probes::program::Program;
use crate::probes::rows::Rows;
use crate::probes::runner::{Outcome, Probe};

impl Probe for Primitives {
    const PROGRAM: Program = Program::Calibrate;
    type Result = PrimitivesResult;

    fn read(outcome: Outcome) -> Result<PrimitivesResult> {
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
    pub page_table_kib: u64,
    rows: Rows,
}

impl PrimitivesResult {
    /// Totals of one row (`write_ns`, `populate_ns`, …), one a round; empty if unavailable.
    pub fn totals_ns(&self, metric: &str) -> Vec<u64> {
        self.rows.values(metric)
    }
}
