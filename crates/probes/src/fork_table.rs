// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings and results of probes/fork_table.c.

use anyhow::Result;
use cowlab_store::Params;

use crate::program::Program;
use crate::runner::Runner;
use crate::settings::Method;

/// One invocation of fork_table.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkTable {
    /// How processes are created.
    pub method: Method,
    /// What the program allocated before.
    pub size_bytes: u64,
    /// How many processes to create.
    pub iterations: u64,
    /// Whether every page of the allocation was written before.
    pub touched: bool,
    /// Whether parent and children share one CPU.
    pub pinned: bool,
}

impl ForkTable {
    /// The sizes of Table 28-3, in bytes as document 004 has them.
    pub const SIZES_BYTES: [u64; 3] = [1_782_579, 2_831_155, 12_268_339];

    /// The methods that the table compares.
    pub const METHODS: [Method; 5] =
        [Method::Fork, Method::Vfork, Method::PosixSpawn, Method::ForkExec, Method::VforkExec];

    /// Refuse what makes no sense.
    pub fn check(&self) -> Result<(), String> {
        if !Self::METHODS.contains(&self.method) {
            return Err(format!("--method {} belongs to fork-sweep", self.method));
        }
        if self.iterations == 0 {
            return Err("--iterations must be 1 at least".to_owned());
        }
        Ok(())
    }

    /// The parameters that its samples carry.
    pub fn params(&self) -> Params {
        [
            ("method", self.method.to_string()),
            ("size_bytes", self.size_bytes.to_string()),
            ("iterations", self.iterations.to_string()),
            ("touched", self.touched.to_string()),
            ("pinned", self.pinned.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    /// Run it.
    pub fn run(&self, runner: &Runner) -> Result<ForkTableResult> {
        let mut arguments = vec![format!("--spawn={}", runner.tiny_path()?)];
        if self.touched {
            arguments.push("--touched".to_owned());
        }
        if self.pinned {
            arguments.push("--pin".to_owned());
        }
        arguments.extend([
            self.method.to_string(),
            self.iterations.to_string(),
            self.size_bytes.to_string(),
        ]);
        let outcome = runner.run(Program::ForkTable, &arguments)?;
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
    /// Wall-clock time of the loop.
    pub elapsed_ns: u64,
    /// User and system time of the program itself in the loop.
    pub program_cpu_ns: u64,
    /// User and system time of its children.
    pub children_cpu_ns: u64,
}
