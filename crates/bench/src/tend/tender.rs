// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cowlab tend`, run as an operator would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How it is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Tending {
    /// This program.
    pub program: PathBuf,
    /// A machine profile, if there is one.
    pub profile: Option<PathBuf>,
    /// `--budget-us`; `None`: what it has by itself.
    pub budget_us: Option<u64>,
    /// `--cpu-share`.
    pub cpu_share: f64,
    /// Whether the server is asked for its latency meanwhile.
    pub pings: bool,
}

impl Tending {
    fn command(&self, pid: u32, socket: Option<&Path>) -> Command {
        // It must not outlive this program, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
        command.args(["tend", &pid.to_string(), "--json"]);
        if let Some(profile) = &self.profile {
            command.arg("--profile").arg(profile);
        }
        if let Some(budget_us) = self.budget_us {
            command.args(["--budget-us", &budget_us.to_string()]);
        }
        if let (Some(socket), true) = (socket, self.pings) {
            command.arg("--ping").arg(socket);
        }
        command.stdin(Stdio::null());
        command
    }

    /// One pass, before anything is measured, at whatever CPU it takes: which is returned, by its
    /// own count.
    ///
    /// # Errors
    /// What it says.
    pub fn once(&self, pid: u32) -> Result<Option<u64>> {
        let plain = Tending { budget_us: None, ..self.clone() };
        let mut command = plain.command(pid, None);
        command.args(["--once", "--cpu-share", "0.9"]);
        command.args(["--budget-us", "1000000"]);
        let done =
            command.output().context("cannot start cowlab tend by setpriv (of util-linux)")?;
        if !done.status.success() {
            bail!("cowlab tend --once: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(ended_cpu_ns(&String::from_utf8_lossy(&done.stdout)))
    }

    /// What it predicts of the next fork as the memory is now; `None` where it cannot.
    ///
    /// # Errors
    /// What it says.
    pub fn predict(&self, pid: u32) -> Result<Option<f64>> {
        let mut command = self.command(pid, None);
        let done = command.arg("--dry-run").output().context("cannot start cowlab tend")?;
        if !done.status.success() {
            bail!("cowlab tend --dry-run: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        let document: serde_json::Value = serde_json::from_slice(&done.stdout)?;
        Ok(document["summary"][0]["stops"]["now"]["value"].as_f64())
    }

    /// Start it, to run until it is ended.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, pid: u32, socket: Option<&Path>, log: &Path) -> Result<Tend> {
        let mut command = self.command(pid, socket);
        command.args(["--cpu-share", &self.cpu_share.to_string()]);
        let log = fs::File::create(log)?;
        let child = command
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start cowlab tend by setpriv (of util-linux)")?;
        Ok(Tend(child))
    }
}

/// The CPU time in what tend told last; `None` if it did not get that far.
fn ended_cpu_ns(told: &str) -> Option<u64> {
    let lines = told.lines().rev().filter_map(|line| serde_json::from_str(line).ok());
    let ended = lines
        .map(|line: serde_json::Value| line["summary"].clone())
        .find(|summary| summary["event"] == "ended")?;
    ended["cpu_ns"].as_u64()
}

/// It runs. Dropped, it is gone.
#[derive(Debug)]
pub struct Tend(Child);

impl Tend {
    /// Its CPU time so far, of all its threads.
    pub fn cpu_ns(&self) -> Option<u64> {
        crate::task::cpu_ns(self.0.id())
    }

    /// End it as a service manager does, and wait.
    ///
    /// # Errors
    /// It had ended before, with what it said last.
    pub fn end(mut self, log: &Path) -> Result<()> {
        if let Some(status) = self.0.try_wait()? {
            let said = fs::read_to_string(log).unwrap_or_default();
            bail!("cowlab tend ended by itself ({status}): {}", said.lines().last().unwrap_or(""));
        }
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        for _ in 0..250 {
            if self.0.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("cowlab tend does not end when it is told to")
    }
}

impl Drop for Tend {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_a_pass_is_that_of_its_end() {
        let told = "{\"summary\":{\"event\":\"figures\",\"cpu_ns\":5}}\n\
                    {\"summary\":{\"event\":\"ended\",\"cpu_ns\":46000000}}\n";
        assert_eq!(ended_cpu_ns(told), Some(46_000_000));
        assert_eq!(ended_cpu_ns("{\"summary\":{\"event\":\"figures\",\"cpu_ns\":5}}\n"), None);
        assert_eq!(ended_cpu_ns("no JSON\n"), None);
    }
}
