// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cowlab tend`, run as an operator would.

use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cowlab_analysis::samples::Samples;
use cowlab_schema::{Metric, tend};
use cowlab_store::Sample;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

/// How it is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Tending {
    /// This program.
    pub program: PathBuf,
    /// The machine profile, if there is one.
    pub profile: Option<PathBuf>,
    /// `--budget-us`; `None`: what it has by itself.
    pub budget_us: Option<u64>,
    /// `cpu_share`.
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
            let mut ping = OsString::from("ping=");
            ping.push(socket);
            command.arg("--set").arg(ping);
        }
        command.stdin(Stdio::null());
        command
    }

    /// One pass, before anything is measured, at whatever CPU it takes: which is returned, by its
    /// own count.
    pub fn once(&self, pid: u32) -> Result<Option<u64>> {
        let plain = Tending { budget_us: None, ..self.clone() };
        let mut command = plain.command(pid, None);
        command.args(["--once", "--set", "cpu_share=0.9"]);
        command.args(["--budget-us", "1000000"]);
        let done =
            command.output().context("cannot start cowlab tend by setpriv (of util-linux)")?;
        if !done.status.success() {
            bail!("cowlab tend --once: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(ended_cpu_ns(&String::from_utf8_lossy(&done.stdout)))
    }

    /// What it predicts of the next fork as the memory is now; `None` where it cannot.
    pub fn predict(&self, pid: u32) -> Result<Option<f64>> {
        let mut command = self.command(pid, None);
        let done = command.arg("--dry-run").output().context("cannot start cowlab tend")?;
        if !done.status.success() {
            bail!("cowlab tend --dry-run: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        predicted_of(&done.stdout)
    }

    /// Start it, to run until it is ended.
    pub fn start(&self, pid: u32, socket: Option<&Path>, log: &Path) -> Result<Tend> {
        let mut command = self.command(pid, socket);
        command.args(["--set", &format!("cpu_share={}", self.cpu_share)]);
        let log = fs::File::create(log)?;
        let child = command
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start cowlab tend by setpriv (of util-linux)")?;
        Ok(Tend(child))
    }
}

/// The stop as the memory is, of what a dry run prints.
fn predicted_of(printed: &[u8]) -> Result<Option<f64>> {
    #[derive(Deserialize)]
    struct Document {
        samples: Vec<Sample>,
    }
    let document: Document =
        serde_json::from_slice(printed).context("cowlab tend --dry-run printed no document")?;
    let samples = Samples::of(&document.samples, tend::BENCH).with(tend::STATE, tend::State::Now);
    Ok(samples.first(tend::FORK_NS))
}

/// A line of what tend tells: an event or figures, of which each has some.
#[derive(Deserialize)]
struct TendRow {
    event: String,
    unix_ns: Option<i64>,
    candidate_regions: Option<u64>,
    cpu_ns: Option<u64>,
    stall_max_ns: Option<f64>,
    call_max_ns: Option<f64>,
    restored_ns: Option<f64>,
}

/// The CPU time in what tend told last; `None` if it did not get that far.
fn ended_cpu_ns(told: &str) -> Option<u64> {
    summaries(told).rfind(|summary| summary.event == "ended")?.cpu_ns
}

/// Of what tend told last: the longest stall, the longest call, and how long it took after a snapshot
/// until all was huge again.
pub(super) fn last_figures(told: &str) -> Vec<(Metric, f64)> {
    let last = summaries(told).rfind(|summary| summary.event == "figures");
    let Some(figures) = last else { return Vec::new() };
    let all = [
        (tend::STALL_MAX_NS, figures.stall_max_ns),
        (tend::CALL_MAX_NS, figures.call_max_ns),
        (tend::RESTORED_NS, figures.restored_ns),
    ];
    all.into_iter().filter_map(|(metric, value)| Some((metric, value?))).collect()
}

/// When it had regions to collapse: from a look that found some until they were huge, it rested or
/// the target forked, in ns since then until `end_ns`; apart and in order.
pub(super) fn at_work(told: &str, since_unix_ns: i64, end_ns: u64) -> Vec<Range<u64>> {
    let mut spans = Vec::new();
    let mut began: Option<u64> = None;
    for summary in summaries(told) {
        let Some(at) = summary.unix_ns.map(|at| u64::try_from(at - since_unix_ns).unwrap_or(0))
        else {
            continue;
        };
        match summary.event.as_str() {
            "surveyed" if summary.candidate_regions > Some(0) => {
                began.get_or_insert(at);
            }
            "done" | "forked" | "resting" => {
                spans.extend(began.take().map(|from| from..at.min(end_ns)));
            }
            _ => {}
        }
    }
    spans.extend(began.map(|from| from..end_ns));
    spans.retain(|span| !span.is_empty());
    spans
}

fn summaries(told: &str) -> impl DoubleEndedIterator<Item = TendRow> {
    #[derive(Deserialize)]
    struct Line {
        summary: TendRow,
    }
    let lines = told.lines().filter_map(|line| serde_json::from_str(line).ok());
    lines.map(|line: Line| line.summary)
}

/// It runs. Dropped, it is gone.
#[derive(Debug)]
pub struct Tend(Child);

impl Tend {
    /// Its CPU time so far, of all its threads.
    pub fn cpu_ns(&self) -> Option<u64> {
        crate::task::cpu_ns(self.0.id())
    }

    /// End it as a service manager does, and wait. If it had ended before, the error has what it
    /// said last.
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
    fn the_stop_of_a_dry_run_is_the_one_of_now() {
        let row = |state: &str, metric: &str, value: f64| {
            let params = format!("{{\"state\":\"{state}\",\"pid\":\"1\"}}");
            format!(
                "{{\"bench\":\"tend\",\"params\":{params},\"metric\":\"{metric}\",\
                 \"unit\":\"ns\",\"value\":{value},\"rep\":0,\"start_unix_ns\":0}}"
            )
        };
        let rows = [row("after", "fork_ns", 1.0), row("now", "fork_low_ns", 2.0)].join(",");
        let with = format!("{{\"samples\":[{rows},{}]}}", row("now", "fork_ns", 7.0));
        assert_eq!(predicted_of(with.as_bytes()).unwrap(), Some(7.0));
        let without = format!("{{\"samples\":[{rows}]}}");
        assert_eq!(predicted_of(without.as_bytes()).unwrap(), None);
        assert!(predicted_of(b"[]").is_err());
    }

    #[test]
    fn the_cpu_time_of_a_pass_is_that_of_its_end() {
        let told = "{\"summary\":{\"event\":\"figures\",\"cpu_ns\":5}}\n\
                    {\"summary\":{\"event\":\"ended\",\"cpu_ns\":46000000}}\n";
        assert_eq!(ended_cpu_ns(told), Some(46_000_000));
        assert_eq!(ended_cpu_ns("{\"summary\":{\"event\":\"figures\",\"cpu_ns\":5}}\n"), None);
        assert_eq!(ended_cpu_ns("no JSON\n"), None);
    }

    #[test]
    fn it_is_at_work_from_a_look_that_finds_regions_until_they_are_huge() {
        let event = |event: &str, unix_ns: i64, candidates: u64| {
            format!(
                "{{\"summary\":{{\"event\":\"{event}\",\"unix_ns\":{unix_ns},\
                 \"candidate_regions\":{candidates}}}}}\n"
            )
        };
        let told: String = [
            event("surveyed", 70, 5),
            event("done", 80, 0),
            event("forked", 110, 0),
            event("alone", 118, 0),
            event("surveyed", 120, 7),
            event("surveyed", 130, 3),
            event("done", 150, 0),
            event("surveyed", 160, 0),
            event("forked", 170, 0),
            event("surveyed", 180, 9),
            event("resting", 190, 0),
            event("surveyed", 200, 9),
        ]
        .concat();
        assert_eq!(at_work(&told, 100, 500), [20..50, 80..90, 100..500]);
        assert_eq!(at_work(&told, 75, 130), [0..5, 45..75, 105..115, 125..130]);
        assert_eq!(at_work("", 100, 500), []);
    }
}
