// SPDX-License-Identifier: Apache-2.0 OR MIT
//! bpftrace and perf, doing the like: one counts the event, the other records it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cowlab_machine::tracing::Tracing;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Until a tool that says nothing has attached itself.
const SETTLE: Duration = Duration::from_secs(1);

/// One that has not ended so long after it was told to is killed: nothing that it printed is needed.
const LONGEST_END: Duration = Duration::from_secs(10);

/// A tool at work; ended when it is dropped.
pub struct Other {
    child: Child,
    _folder: Option<TempDir>,
}

impl Other {
    /// Counts the event of every process, as the one-liners of its own documentation do.
    pub fn bpftrace(tracing: Option<&Tracing>) -> Result<Other> {
        needs_tracefs(tracing)?;
        let mut command = Command::new("bpftrace");
        command.args(["-e", "tracepoint:exceptions:page_fault_user { @faults = count(); }"]);
        let child = start(&mut command, Stdio::piped(), "bpftrace")?;
        let mut other = Other { child, _folder: None };
        let mut said = String::new();
        if let Some(stdout) = other.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut said)?;
        }
        if !said.starts_with("Attaching") {
            bail!("bpftrace did not attach: run it by hand to see why ({})", said.trim());
        }
        std::thread::sleep(SETTLE);
        other.still_running("bpftrace")
    }

    /// Records the event of every process.
    pub fn perf(tracing: Option<&Tracing>) -> Result<Other> {
        needs_tracefs(tracing)?;
        let folder = tempfile::tempdir().context("cannot make a folder for perf.data")?;
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-a", "-e", "exceptions:page_fault_user", "-o"]);
        command.arg(folder.path().join("perf.data"));
        let child = start(&mut command, Stdio::null(), "perf")?;
        let other = Other { child, _folder: Some(folder) };
        std::thread::sleep(SETTLE);
        other.still_running("perf")
    }

    fn still_running(mut self, name: &str) -> Result<Other> {
        match self.child.try_wait()? {
            Some(status) => bail!("{name} ended by itself ({status}): run it by hand to see why"),
            None => Ok(self),
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let began = Instant::now();
        while began.elapsed() < LONGEST_END {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn needs_tracefs(tracing: Option<&Tracing>) -> Result<()> {
    match tracing {
        Some(tracing) if tracing.page_fault_event => Ok(()),
        Some(_) => bail!("this kernel has no event exceptions:page_fault_user that can be read"),
        None => bail!("tracefs is not mounted: mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}

fn start(command: &mut Command, stdout: Stdio, name: &str) -> Result<Child> {
    let child = command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn();
    child.with_context(|| format!("{name} is not installed: apt install bpftrace linux-perf"))
}
