// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tend`: the whole balance of keeping a forking process in huge pages: the stop at each fork,
//! latencies and throughput between and during snapshots, memory, and the CPU time of tending.

pub mod connections;
pub mod memory;
pub mod policy;
pub mod prefork;
mod samples;
pub mod tender;

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use cowlab_machine::Root;
use cowlab_probes::{Runner, unix_ns};
use cowlab_schema::Cell;
use cowlab_schema::tend::{self, Tended};
use cowlab_store::Params;

use crate::redis::Snapshots;
use crate::redis::load::{self, Load};
use crate::redis::phase::{self, Looks};
use crate::redis::saturation::Saturation;
use crate::redis::server::{HugePages, Placement, Server, Setup};
use crate::task::{Round, Task};
use memory::Group;
use tender::Tending;

/// The name of this benchmark in samples.
pub const BENCH: &str = "tend";

/// How long the closed loop lasts that tells the most throughput.
const CLOSED_UPDATES_PER_RECORD: f64 = 0.25;
const LEAST_CLOSED_UPDATES: u64 = 20_000;

/// What is measured of one server.
#[derive(Debug, Clone, PartialEq)]
pub struct Balance {
    /// redis-server.
    pub program: PathBuf,
    /// What it stores, how that is updated, and what keeps it in huge pages.
    pub asked: Tended,
    /// Records.
    pub records: u64,
    /// How tend is run.
    pub tending: Tending,
    /// Who runs where.
    pub placement: Option<Placement>,
}

impl Balance {
    fn params(&self) -> Params {
        let mut params = self.asked.params();
        tend::RECORDS.put(&mut params, self.records);
        params
    }

    fn setup(&self, huge_pages: HugePages) -> Setup {
        let (program, placement) = (self.program.clone(), self.placement.clone());
        Setup { program, huge_pages, port: None, placement }
    }

    /// The closed loop that tells the most updates.
    fn closed(&self) -> Load {
        Load {
            records: self.records,
            updates: ((self.records as f64 * CLOSED_UPDATES_PER_RECORD) as u64)
                .max(LEAST_CLOSED_UPDATES),
            clients: self.asked.clients,
            pipeline: self.asked.pipeline,
            zipf_alpha: self.asked.zipf_alpha,
            rate_per_s: None,
            placement: self.placement.clone(),
            seed: self.asked.seed ^ 1 << 48,
        }
    }

    /// About how long one takes.
    pub fn expected_s(&self) -> f64 {
        let populating = self.records as f64 / 40_000.0;
        populating + 10.0 + f64::from(self.asked.snapshots) * self.asked.interval_s
    }
}

/// One task for each server.
pub fn tasks(cells: Vec<Balance>) -> Vec<Task> {
    let most = Rc::new(Saturation::default());
    let task = |cell: Balance| {
        let most = Rc::clone(&most);
        let name = format!("{BENCH}: redis, {} records, {}", cell.records, cell.asked.policy);
        Task::new(name, move |runner, round| {
            let mut cell = cell.clone();
            cell.asked.seed += u64::from(round.number);
            let base_pages = cell.setup(HugePages::Forbidden);
            let most_per_s = most.per_s(runner, &base_pages, &cell.closed())?;
            let _settings = policy::set(cell.asked.policy, &Root::default())?;
            // It goes after the server that lives in it: only an empty one can be taken away.
            let group;
            let mut server = Server::start(&cell.setup(policy::huge_pages(cell.asked.policy)))?;
            group = Group::of(server.pid());
            measure(&cell, runner, &server, &group, most_per_s, round)
                .map_err(|error| server.explain(error))
        })
    };
    cells.into_iter().map(task).collect()
}

fn measure(
    cell: &Balance,
    runner: &Runner,
    server: &Server,
    group: &Result<Group, String>,
    most_per_s: f64,
    round: &mut Round,
) -> Result<()> {
    let populate = |stop: &_| load::populate(server, cell.records, stop);
    phase::attend(runner, populate, || Ok(()))?;
    let closed = cell.closed();
    let own = phase::run(runner, server, &closed, Snapshots::None, 0, Looks::None)?;
    let rate_per_s = most_per_s * cell.asked.load;
    let load = Load {
        updates: (rate_per_s * cell.asked.interval_s * f64::from(cell.asked.snapshots)) as u64,
        rate_per_s: Some(rate_per_s),
        seed: cell.asked.seed,
        ..closed
    };

    let log = tempfile::NamedTempFile::new()?;
    let mut out = round.record(BENCH, cell.params(), unix_ns());
    out.add(tend::INTENDED_PER_S, rate_per_s);
    out.add(tend::MOST_PER_S, own.throughput_per_s());
    out.known(tend::MOST_SERVER_CPU_FRACTION, own.server_cpu_fraction());
    let mut tend = None;
    if policy::is_tended(cell.asked.policy) {
        out.known(tend::FIRST_PASS_CPU_NS, cell.tending.once(server.pid())?);
        let socket = server.socket();
        tend = Some(cell.tending.start(server.pid(), socket.as_deref(), log.path())?);
    }
    // What is predicted of the first fork, which finds the memory as it is now.
    out.known(tend::PREDICTED_FORK_NS, cell.tending.predict(server.pid())?);
    let cpu_before = tend.as_ref().and_then(tender::Tend::cpu_ns);
    let stop = AtomicBool::new(false);
    let (began, began_unix_ns) = (Instant::now(), unix_ns());
    let charged = group.as_ref().ok();
    let (phase, looks) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| memory::watch(server.pid(), charged, began, &stop));
        let phase =
            phase::run(runner, server, &load, Snapshots::Save, cell.asked.snapshots, Looks::None);
        stop.store(true, Ordering::Relaxed);
        (phase, watcher.join().expect("the watcher does not panic"))
    });
    let (phase, looks) = (phase?, looks?);
    let mut tending = Vec::new();
    if let Some(tend) = tend {
        let cpu =
            tend.cpu_ns().zip(cpu_before).and_then(|(after, before)| after.checked_sub(before));
        let elapsed_ns = began.elapsed().as_nanos() as f64;
        if let Some(cpu_ns) = cpu {
            out.add(tend::TENDING_CPU_NS, cpu_ns);
            out.add(tend::TENDING_CPU_FRACTION, cpu_ns as f64 / elapsed_ns);
        }
        let told = fs::read_to_string(log.path()).context("what tend said cannot be read")?;
        let last = tender::last_figures(&told);
        tending = tender::at_work(&told, began_unix_ns, elapsed_ns as u64);
        tend.end(log.path())?;
        for (metric, value) in last {
            out.add(metric, value);
        }
    }
    if phase.taken.len() != cell.asked.snapshots as usize {
        bail!(
            "only {} of {} snapshots fitted: one lasts longer than the interval, give a longer \
             --snapshot-every-s or less memory",
            phase.taken.len(),
            cell.asked.snapshots
        );
    }
    samples::add(&mut out, &phase, &looks, &tending);
    Ok(())
}
