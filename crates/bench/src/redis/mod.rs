// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `redis`: CCoW's second benchmark, a real redis-server that takes snapshots under YCSB's
//! updates.

pub mod load;
pub(crate) mod phase;
mod samples;
pub(crate) mod saturation;
pub mod server;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use crate::probes::{Runner, unix_ns};
use anyhow::{Result, bail};
use cowlab_machine::{Facts, PolicyGuard, Root, Smaps, thp};
use cowlab_observe::redis::{Error, Reply};
use cowlab_schema::redis::{self as names, Store};
use cowlab_schema::{Cell, Policy};
use cowlab_store::Params;

use crate::task::{Round, Task};
use load::Load;
pub use phase::Snapshots;
use phase::{Looks, Taken};
use saturation::Saturation;
use server::{HugePages, Placement, Server, Setup};

/// The name of this benchmark in samples.
pub const BENCH: &str = names::BENCH.name;

/// The phases of a closed loop.
const CLOSED: [Snapshots; 3] = [Snapshots::None, Snapshots::Save, Snapshots::Rewrite];
/// The phases of each open loop.
const OPEN: [Snapshots; 2] = [Snapshots::None, Snapshots::Save];

/// The number of the phase that is not measured: no other phase's, and so other choices of records.
const LEARNING: u64 = 1 << 8;

const LARGEST_BYTES: u64 = 10_000_000_000;
/// Fewer are updated before a snapshot has begun.
const SMALLEST_BYTES: u64 = 16 << 20;

/// The records of the trial that tells how long all will take.
const TRIAL_RECORDS: u64 = 1000;
const TRIAL_UPDATES: u64 = 1000;

/// The records' memory for this machine: the largest power of two of which 64 are free, up to the
/// document's 10 GB.
pub fn default_size_bytes(facts: &Facts) -> u64 {
    let memory = facts.memory.as_ref();
    let free = memory.and_then(|memory| memory.available_bytes).unwrap_or(0) / 64;
    let power = if free == 0 { 0 } else { 1 << free.ilog2() };
    power.clamp(SMALLEST_BYTES, LARGEST_BYTES)
}

/// What is measured of one server: each has a fresh one in every round.
#[derive(Debug, Clone, PartialEq)]
pub struct Redis {
    pub program: PathBuf,
    pub store: Store,
    /// Open loops: their rates, as shares of the most that a server of base pages under no policy
    /// answers without a snapshot.
    pub load_shares: Vec<f64>,
    /// Whether the setting of its page size may be changed meanwhile.
    pub set_mthp: bool,
    /// Who runs where; `None`: as the scheduler likes.
    pub placement: Option<Placement>,
}

impl Redis {
    fn params(&self, snapshots: Snapshots, load: &str) -> Params {
        let mut params = self.store.params();
        names::SNAPSHOTS_KIND.put(&mut params, snapshots);
        names::LOAD.put(&mut params, load);
        params
    }

    fn setup(&self, huge_pages: bool) -> Setup {
        let (program, placement) = (self.program.clone(), self.placement.clone());
        let huge_pages = if huge_pages { HugePages::Asked } else { HugePages::Forbidden };
        let port = u16::try_from(self.store.port).ok().filter(|port| *port > 0);
        Setup { program, huge_pages, port, placement }
    }

    /// What its phases take, as a multiple of the first one's time: a rate that is a share of the
    /// closed loop's takes the longer.
    fn phases(&self) -> f64 {
        let learning = if self.store.policy == Policy::Stock { 0.0 } else { 1.0 };
        learning
            + CLOSED.len() as f64
            + self.load_shares.iter().map(|share| OPEN.len() as f64 / share).sum::<f64>()
    }

    fn load(&self, phase: u64) -> Load {
        Load {
            records: self.store.records,
            updates: self.store.updates,
            clients: self.store.clients,
            pipeline: self.store.pipeline,
            zipf_alpha: self.store.zipf_alpha,
            rate_per_s: None,
            placement: self.placement.clone(),
            seed: self.store.seed ^ (phase << 48),
        }
    }
}

/// One task for each server. `base_page_bytes` are the pages that are not huge.
pub fn tasks(cells: Vec<Redis>, base_page_bytes: u64, guard: Option<Rc<PolicyGuard>>) -> Vec<Task> {
    let most = Rc::new(Saturation::default());
    let task = |cell: Redis| {
        let most = Rc::clone(&most);
        let pages = match cell.store.page_size_bytes == base_page_bytes {
            true => String::new(),
            false => format!(", pages of {} KiB", cell.store.page_size_bytes >> 10),
        };
        let policy = match cell.store.policy {
            Policy::Stock => String::new(),
            policy => format!(", policy {policy}"),
        };
        let guard = guard.clone();
        Task::new(
            format!("{BENCH}: {} records{pages}{policy}", cell.store.records),
            move |runner, round| {
                let mut cell = cell.clone();
                cell.store.seed += u64::from(round.number);
                let mut most_per_s = None;
                if !cell.load_shares.is_empty() {
                    // Without a policy the kernel stays as it is.
                    if let Some(guard) = &guard
                        && cell.store.policy != Policy::Stock
                    {
                        guard.set(Policy::Off)?;
                    }
                    most_per_s = Some(most.per_s(runner, &cell.setup(false), &cell.load(0))?);
                }
                if let Some(guard) = &guard {
                    guard.set_and_count(cell.store.policy)?;
                }
                let huge_pages = cell.store.page_size_bytes != base_page_bytes;
                let _thp = match huge_pages && cell.set_mthp {
                    true => thp::allow(&Root::default(), cell.store.page_size_bytes)?,
                    false => Vec::new(),
                };
                let mut server = Server::start(&cell.setup(huge_pages))?;
                measure(&cell, runner, &server, most_per_s, round)
                    .map_err(|error| server.explain(error))
            },
        )
    };
    cells.into_iter().map(task).collect()
}

/// About how long all rounds will take, by the rate at which a small server of the first cell's
/// answers.
pub fn expected(runner: &Runner, cells: &[Redis], rounds: u32) -> Result<Duration> {
    let Some(first) = cells.first() else { return Ok(Duration::ZERO) };
    let records = first.store.records.min(TRIAL_RECORDS);
    let store = Store { records, updates: TRIAL_UPDATES, ..first.store.clone() };
    let trial = Redis { store, ..first.clone() };
    let mut server = Server::start(&trial.setup(false))?;
    let took = phase::attend(runner, |stop| load::populate(&server, records, stop), || Ok(()))
        .and_then(|()| phase::run(runner, &server, &trial.load(0), Snapshots::None, 0, Looks::None))
        .map_err(|error| server.explain(error))?
        .elapsed_ns;
    let updates: f64 = cells.iter().map(|cell| cell.store.updates as f64 * cell.phases()).sum();
    let all = updates * f64::from(rounds) / TRIAL_UPDATES as f64;
    Ok(Duration::from_nanos(took).mul_f64(all))
}

fn measure(
    cell: &Redis,
    runner: &Runner,
    server: &Server,
    most_per_s: Option<f64>,
    round: &mut Round,
) -> Result<()> {
    let populate = |stop: &_| load::populate(server, cell.store.records, stop);
    phase::attend(runner, populate, || Ok(()))?;
    of_the_server(cell, server, round)?;
    let mut took_ns = None;
    if cell.store.policy != Policy::Stock {
        // A server's first snapshot is one of many. No policy knows then what will be written.
        let learnt = cell.load(LEARNING);
        let phase = phase::run(runner, server, &learnt, Snapshots::Save, 1, Looks::None)?;
        took_ns = phase.taken.last().map(Taken::took_ns);
    }
    let closed = CLOSED.map(|kind| (kind, None));
    let shares = cell.load_shares.iter().flat_map(|share| OPEN.map(|kind| (kind, Some(*share))));
    for (number, (kind, share)) in closed.into_iter().chain(shares).enumerate() {
        let mut load = cell.load(number as u64);
        load.rate_per_s = share.zip(most_per_s).map(|(share, most)| share * most);
        let start_unix_ns = unix_ns();
        let before = Smaps::read(&Root::default(), server.pid())?;
        let looks = Looks::Memory(took_ns);
        let phase = phase::run(runner, server, &load, kind, cell.store.snapshots, looks)?;
        took_ns = phase.taken.last().map(Taken::took_ns).or(took_ns);
        if phase.updates() != cell.store.updates {
            bail!("{} of {} updates were answered", phase.updates(), cell.store.updates);
        }
        all_were_taken(kind, cell.store.snapshots, phase.taken.len())?;
        let named = share.map_or_else(|| "closed".to_owned(), |share| share.to_string());
        let mut out = round.record(BENCH, cell.params(kind, &named), start_unix_ns);
        out.known(names::INTENDED_PER_S, load.rate_per_s);
        out.known(names::HUGE_BYTES, before.and_then(|before| before.huge_bytes));
        samples::add(&mut out, &phase);
    }
    Ok(())
}

/// Fewer snapshots than were asked for are another measurement, and none is that of another phase.
fn all_were_taken(kind: Snapshots, asked: u32, taken: usize) -> Result<()> {
    if kind != Snapshots::None && taken != asked as usize {
        bail!(
            "only {taken} of {asked} snapshots ({kind}) fitted: one lasts longer than its part of \
             the updates, give fewer --snapshots or more --turnovers"
        );
    }
    Ok(())
}

/// What the populated server says of itself; its records must all be there.
fn of_the_server(cell: &Redis, server: &Server, round: &mut Round) -> Result<()> {
    let mut control = server.connect()?;
    let Reply::Number(keys) = control.ask(&["DBSIZE"])? else { bail!(Error::Foreign) };
    if u64::try_from(keys) != Ok(cell.store.records) {
        bail!("redis-server has {keys} records, not {}", cell.store.records);
    }
    let params = cell.params(Snapshots::None, "populated");
    let mut out = round.record(BENCH, params, unix_ns());
    out.add(names::RECORDS_STORED, cell.store.records);
    let memory = control.info("memory")?;
    out.known(names::USED_BYTES, memory.number("used_memory"));
    out.known(names::RESIDENT_BYTES, memory.number("used_memory_rss"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use cowlab_machine::memory::Memory;

    use super::*;

    #[test]
    fn the_records_are_a_64th_of_what_is_free() {
        let with = |available_bytes| {
            let memory = Memory { available_bytes, ..Memory::default() };
            default_size_bytes(&Facts { memory: Some(memory), ..Facts::default() })
        };
        assert_eq!(with(Some(23 << 30)), 256 << 20);
        assert_eq!(with(Some(4 << 40)), 10_000_000_000);
        assert_eq!(with(None), 16 << 20);
    }

    #[test]
    fn a_phase_without_all_of_its_snapshots_is_none() {
        assert!(all_were_taken(Snapshots::None, 3, 0).is_ok());
        assert!(all_were_taken(Snapshots::Save, 3, 3).is_ok());
        for (kind, taken) in [(Snapshots::Save, 2), (Snapshots::Rewrite, 0)] {
            let error = all_were_taken(kind, 3, taken).unwrap_err().to_string();
            assert!(error.contains(&format!("only {taken} of 3")), "{error}");
            assert!(error.contains("--snapshots") && error.contains("--turnovers"), "{error}");
        }
    }
}
