// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings and results of probes/cow_faults.c.

use anyhow::Result;
use cowlab_machine::Policy;
use cowlab_machine::cow_stats::CowStats;
use cowlab_store::Params;

use crate::cow_counts::{CowCounts, counts_of, times_of};
use crate::program::Program;
use crate::runner::Runner;
use crate::settings::{Pattern, Writer};

/// What is asked of a kernel that counts copy-on-write faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Nothing: it does not count.
    None,
    /// Its counts around the writes.
    Counts,
    /// Also its own times of each fault, in repetitions of their own; needs root.
    Times,
}

/// One invocation of cow_faults.
#[derive(Debug, Clone, PartialEq)]
pub struct CowFaults {
    /// The order of the writes.
    pub pattern: Pattern,
    /// Size of the memory that the fork shares.
    pub size_bytes: u64,
    /// Who writes: every child, or the parent.
    pub writer: Writer,
    /// Children alive at once.
    pub children: u32,
    /// Other running threads of each writing process.
    pub threads: u32,
    /// Size of the pages that the memory is made of.
    pub page_size_bytes: u64,
    /// Whether parent and children share one CPU and the threads have others.
    pub pinned: bool,
    /// The policy that is in force, for the samples; `None`: whatever the kernel has.
    pub policy: Option<Policy>,
    /// What the kernel is asked for.
    pub counting: Counting,
    /// Repetitions in turn untimed, timed write by write and, if asked for, timed by the kernel.
    pub repetitions: u64,
    /// Repetitions before them that are not measured: from a writing parent's the kernel may learn.
    pub unmeasured: u64,
    /// Seed of the random order.
    pub seed: u64,
}

impl CowFaults {
    /// Refuse what makes no sense.
    pub fn check(&self) -> Result<(), String> {
        if self.writer == Writer::ParentReuse {
            return Err("--writer parent-reuse belongs to fork-sweep: it copies nothing".to_owned());
        }
        if self.children == 0 || self.children > 64 {
            return Err("--children must be in 1..64".to_owned());
        }
        if self.size_bytes < self.page_size_bytes {
            return Err(format!("--size-bytes must be {} at least", self.page_size_bytes));
        }
        Ok(())
    }

    /// The parameters that its samples carry; the policy is `stock` where none was set.
    pub fn params(&self) -> Params {
        [
            ("pattern", self.pattern.to_string()),
            ("size_bytes", self.size_bytes.to_string()),
            ("writer", self.writer.to_string()),
            ("children", self.children.to_string()),
            ("threads", self.threads.to_string()),
            ("page_size_bytes", self.page_size_bytes.to_string()),
            ("pinned", self.pinned.to_string()),
            ("policy", self.policy.map_or_else(|| "stock".to_owned(), |policy| policy.to_string())),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    /// Pages that one writer writes in one repetition.
    pub fn pages_written(&self, base_page_bytes: u64) -> u64 {
        match self.pattern {
            Pattern::Single => 1,
            _ => self.size_bytes / base_page_bytes,
        }
    }

    /// Run it.
    pub fn run(&self, runner: &Runner) -> Result<CowFaultsResult> {
        let mut arguments = vec![
            format!("--pattern={}", self.pattern),
            format!("--writer={}", self.writer),
            format!("--children={}", self.children),
            format!("--threads={}", self.threads),
            format!("--page-size-bytes={}", self.page_size_bytes),
            format!("--repetitions={}", self.repetitions),
            format!("--unmeasured={}", self.unmeasured),
            format!("--seed={}", self.seed),
        ];
        arguments.extend(runner.warm_flag());
        if self.pinned {
            arguments.push("--pin".to_owned());
        }
        match self.counting {
            Counting::None => {}
            Counting::Counts => arguments.push("--cow-stats".to_owned()),
            Counting::Times => arguments.push("--cow-times".to_owned()),
        }
        arguments.push(self.size_bytes.to_string());
        let outcome = runner.run(Program::CowFaults, &arguments)?;
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
    /// Pages written in every repetition.
    pub pages_written: Vec<u64>,
    /// Each write of the timed repetitions, the time-stamp's cost included.
    pub write_ns: Vec<u64>,
    /// What the kernel counted, one a writer and repetition; empty where it was not asked.
    pub counts: Vec<CowCounts>,
    /// What the kernel timed, one a writer and repetition that it timed.
    pub times: Vec<CowStats>,
}
