// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that stays warm while probes run: see probes/keep_warm.c.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::probes::program::{Program, path};
use crate::probes::rows::Rows;
use crate::probes::runner::{Runner, cannot_start};

/// Free memory that a hypervisor cannot take back until this is dropped.
pub struct WarmMemory<'a> {
    pub touch_ns: u64,
    pub pages: u64,
    child: Child,
    runner: &'a Runner,
}

impl Runner {
    /// Touch `bytes` of free memory and keep it warm.
    pub fn keep_warm(&self, bytes: u64) -> Result<WarmMemory<'_>> {
        let child = Command::new(path(self.file_of(Program::KeepWarm)?))
            .arg0(Program::KeepWarm.name())
            .arg(bytes.to_string())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| cannot_start(Program::KeepWarm.name(), error))?;
        let mut warm = WarmMemory { touch_ns: 0, pages: 0, child, runner: self };
        let stdout = warm.child.stdout.take().context("keep_warm has no output")?;
        // It goes on running after its last row.
        let mut text = String::new();
        let mut lines = BufReader::new(stdout).lines();
        while !text.contains("\"end\"") {
            let Some(line) = lines.next() else {
                bail!("keep_warm ended before the memory was warm (out of memory?)")
            };
            text.push_str(&line?);
            text.push('\n');
        }
        let rows = Rows::decode(&text)?;
        warm.touch_ns = rows.value("touch_ns")?;
        warm.pages = rows.value("pages")?;
        self.kept_warm.set(true);
        Ok(warm)
    }
}

impl Drop for WarmMemory<'_> {
    fn drop(&mut self) {
        self.runner.kept_warm.set(false);
        // The end of its input ends it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
