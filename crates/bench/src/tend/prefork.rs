// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pre-forking Python server, tended before its first fork and while it forks, or not.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use cowlab_machine::Rollup;
use cowlab_probes::unix_ns;
use cowlab_schema::tend;
use cowlab_store::{Params, histogram_of};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use super::BENCH;
use super::policy::{self, Policy};
use super::tender::Tending;
use crate::task::{Round, Task, family};

const PROGRAM: &str = include_str!("prefork.py");

/// One server.
#[derive(Debug, Clone, PartialEq)]
pub struct Prefork {
    /// What it loads.
    pub size_bytes: u64,
    /// Workers at a time.
    pub workers: u32,
    /// Workers in all.
    pub forks: u32,
    /// Requests of each.
    pub requests: u32,
    /// Untended or tended.
    pub policy: Policy,
    /// How tend is run.
    pub tending: Tending,
}

#[derive(Deserialize)]
struct Times {
    fork_ns: Vec<u64>,
    request_ns: Vec<u64>,
}

impl Prefork {
    fn params(&self) -> Params {
        let mut params = Params::new();
        tend::PROGRAM.put(&mut params, tend::Program::Prefork);
        tend::POLICY.put(&mut params, self.policy);
        tend::SIZE_BYTES.put(&mut params, self.size_bytes);
        tend::WORKERS.put(&mut params, self.workers);
        tend::REQUESTS.put(&mut params, self.requests);
        params
    }
}

/// One task for each server.
pub fn tasks(cells: Vec<Prefork>) -> Vec<Task> {
    let task = |cell: Prefork| {
        let name = format!("{BENCH}: pre-forking Python, {}", cell.policy);
        Task::new(name, move |_, round| measure(&cell, round))
    };
    cells.into_iter().map(task).collect()
}

/// The server and its workers, ended whatever happens.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn measure(cell: &Prefork, round: &mut Round) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let numbers =
        [cell.size_bytes >> 20, cell.workers.into(), cell.forks.into(), cell.requests.into()];
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "python3", "-c", PROGRAM])
        .args(numbers.map(|number: u64| number.to_string()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start python3 by setpriv (of util-linux)")?;
    let mut server = Server(child);
    let mut out = BufReader::new(server.0.stdout.take().context("its output")?);
    let mut stdin = server.0.stdin.take().context("its input")?;
    let pid = server.0.id();
    let mut recorder = round.record(BENCH, cell.params(), unix_ns());
    expect(&mut out, "loaded")?;
    let log = tempfile::NamedTempFile::new()?;
    let mut tend = None;
    if policy::is_tended(cell.policy) {
        recorder.known(tend::FIRST_PASS_CPU_NS, cell.tending.once(pid)?);
        tend = Some(cell.tending.start(pid, None, log.path())?);
    }
    stdin.write_all(b"go\n")?;
    expect(&mut out, "half")?;
    recorder.known(tend::PSS_SUM_BYTES, pss_sum_bytes(pid)?);
    stdin.write_all(b"go\n")?;
    let mut line = String::new();
    out.read_line(&mut line)?;
    let times: Times = serde_json::from_str(&line)
        .with_context(|| format!("the server's last line was {line:?}"))?;
    if let Some(tend) = tend {
        recorder.known(tend::TENDING_CPU_NS, tend.cpu_ns());
        // The server may have ended, and tend with it.
        let _ = tend.end(log.path());
    }
    for (number, fork_ns) in times.fork_ns.iter().enumerate() {
        let sample = recorder.add(tend::FORK_NS, *fork_ns);
        tend::SNAPSHOT.put(&mut sample.params, number as u64 + 1);
    }
    recorder.add_distribution(tend::REQUEST_NS, &histogram_of(times.request_ns));
    Ok(())
}

fn expect(out: &mut impl BufRead, word: &str) -> Result<()> {
    let mut line = String::new();
    out.read_line(&mut line)?;
    if line.trim_end() != word {
        bail!("the pre-forking server ended early (out of memory?): {line:?}");
    }
    Ok(())
}

/// Anonymous PSS of the server and its workers.
fn pss_sum_bytes(pid: u32) -> Result<Option<u64>> {
    // One that ended meanwhile has no memory.
    let sum = |all: Vec<Option<Rollup>>| {
        all.into_iter().flatten().filter_map(|rollup| rollup.pss_anonymous_bytes).sum()
    };
    Ok(family(pid)?.map(sum))
}
