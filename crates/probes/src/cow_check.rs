// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of probes/cow_check.c.

use anyhow::Result;

use crate::program::Program;
use crate::runner::Runner;

/// One invocation of cow_check.
#[derive(Debug, Clone, PartialEq)]
pub struct CowCheck {
    /// Size of the memory that the processes change.
    pub size_bytes: u64,
    /// Children at once.
    pub children: u32,
    /// Size of the pages that the memory is made of.
    pub page_size_bytes: u64,
    /// Share the memory, so that the check must fail: it proves that it can.
    pub broken: bool,
}

impl CowCheck {
    /// Run it. The number of pages checked, or an error that says who saw what where.
    pub fn run(&self, runner: &Runner) -> Result<u64> {
        let mut arguments = vec![
            format!("--children={}", self.children),
            format!("--page-size-bytes={}", self.page_size_bytes),
        ];
        if self.broken {
            arguments.push("--shared".to_owned());
        }
        arguments.push(self.size_bytes.to_string());
        runner.run(Program::CowCheck, &arguments)?.rows.value("pages_checked")
    }
}
