// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of probes/cow_faults.c.

use anyhow::Result;
use cowlab_machine::cow_stats::CowStats;
use cowlab_schema::cow_faults::CowFaults;

use crate::probes::cow_counts::{CowCounts, counts_of, times_of};
use crate::probes::program::Program;
use crate::probes::runner::{Outcome, Probe};

impl Probe for CowFaults {
    const PROGRAM: Program = Program::CowFaults;
    type Result = CowFaultsResult;

    fn read(outcome: Outcome) -> Result<CowFaultsResult> {
        let rows = &outcome.rows;
        Ok(CowFaultsResult {
            start_unix_ns: outcome.start_unix_ns,
            timer_ns: rows.values("timer_ns"),
            elapsed_ns: rows.values("elapsed_ns"),
            minor_faults: rows.values("minor_faults"),
            pages_written: rows.values("pages_written"),
            write_ns: rows.values("write_ns"),
            counts: counts_of(rows)?,
            times: times_of(rows)?,
        })
    }
}

/// What cow_faults measured; one value a writer and repetition, but for `write_ns`.
#[derive(Debug, Clone, PartialEq)]
pub struct CowFaultsResult {
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    /// What one time-stamp and its store cost, measured without a write.
    pub timer_ns: Vec<u64>,
    /// All writes of an untimed repetition.
    pub elapsed_ns: Vec<u64>,
    /// ru_minflt over the writes of every repetition.
    pub minor_faults: Vec<u64>,
    pub pages_written: Vec<u64>,
    /// Each write of the timed repetitions, the time-stamp's cost included.
    pub write_ns: Vec<u64>,
    /// What the kernel counted, one a writer and repetition; empty where it was not asked.
    pub counts: Vec<CowCounts>,
    /// What the kernel timed, one a writer and repetition that it timed.
    pub times: Vec<CowStats>,
}
