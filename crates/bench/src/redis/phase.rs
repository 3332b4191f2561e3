// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One phase: a load, and the snapshots that the server takes meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::probes::{Interrupted, Runner};
use anyhow::{Context, Result, bail};
use cowlab_machine::cow_stats::ProcessCowStats;
use cowlab_machine::{Root, Smaps};
use cowlab_observe::redis::Connection;
use cowlab_schema::Quantile;
use cowlab_schema::redis as names;
pub use cowlab_schema::redis::Snapshots;
use cowlab_store::value_at;

use super::load::{self, Load, Request};
use super::server::Server;
use crate::task::{Recorder, cpu_ns, family, stolen_ns};

/// How often the server is asked whether its child is done.
const LOOK: Duration = Duration::from_millis(20);

fn command(kind: Snapshots) -> &'static str {
    if kind == Snapshots::Rewrite { "BGREWRITEAOF" } else { "BGSAVE" }
}

/// Of INFO: whether the child is at work, how the last one ended, and what was copied.
fn keys(kind: Snapshots) -> [&'static str; 3] {
    match kind {
        Snapshots::Rewrite => {
            ["aof_rewrite_in_progress", "aof_last_bgrewrite_status", "aof_last_cow_size"]
        }
        _ => ["rdb_bgsave_in_progress", "rdb_last_bgsave_status", "rdb_last_cow_size"],
    }
}

/// Whether the memory of the server and its child is looked at, once a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looks {
    /// No: walking it takes a CPU some ms, which others then wait for.
    None,
    /// When four fifths of the snapshot are done, near the most that it comes to. How long the one
    /// before the phase took, if there was any.
    Memory(Option<u64>),
}

/// One snapshot; times in ns since the load began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    pub begin_ns: u64,
    /// When the child was seen to be done.
    pub end_ns: u64,
    pub fork_ns: Option<u64>,
    /// INFO's last_cow_size: what the child had for itself in the end.
    pub cow_bytes: Option<u64>,
    /// INFO's current_cow_peak while it was at work, the largest that was seen.
    pub cow_peak_bytes: Option<u64>,
    /// Anonymous memory of the server and its child, shared pages once, when four fifths were
    /// done; `None` if it ended before that was known.
    pub pss_sum_bytes: Option<u64>,
    /// The same with shared pages for each.
    pub rss_sum_bytes: Option<u64>,
    /// Whether the memory was looked at.
    pub(crate) is_looked_at: bool,
}

impl Taken {
    pub fn took_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

#[derive(Debug, Default)]
pub struct Phase {
    pub requests: Vec<Request>,
    /// Every snapshot that was begun while the load ran.
    pub taken: Vec<Taken>,
    /// When the last update was answered.
    pub elapsed_ns: u64,
    /// The updates by the server's own count.
    pub served_updates: u64,
    /// CPU time of the server's threads; `None` where the kernel does not tell it.
    pub server_cpu_ns: Option<u64>,
    /// CPU time that the hypervisor gave to others meanwhile, of all CPUs; `None` where the kernel
    /// does not tell it.
    pub stolen_ns: Option<u64>,
    /// What a patched kernel counted in the server, before and after; `None` on any other.
    pub counts: Option<[ProcessCowStats; 2]>,
}

impl Phase {
    pub fn updates(&self) -> u64 {
        load::updates_of(&self.requests)
    }

    pub fn throughput_per_s(&self) -> f64 {
        self.updates() as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// The share of one CPU that the server took: well below 1 in a closed loop, its clients are
    /// the limit and not it.
    pub fn server_cpu_fraction(&self) -> Option<f64> {
        Some(self.server_cpu_ns? as f64 / self.elapsed_ns.max(1) as f64)
    }

    /// Add the rate, and what tells whether it was the server's.
    pub fn add_rate(&self, out: &mut Recorder) {
        out.add(names::THROUGHPUT_PER_S, self.throughput_per_s());
        out.known(names::SERVER_CPU_FRACTION, self.server_cpu_fraction());
        out.known(names::STOLEN_NS, self.stolen_ns);
        let late = load::histogram_by_update(&self.requests, |request| request.late_ns);
        // In a closed loop nobody is late.
        if late.is_empty() || late.max() == 0 {
            return;
        }
        for quantile in [Quantile::P50, Quantile::P99, Quantile::P99_9] {
            out.add_quantile(names::LATE_NS, quantile, value_at(&late, quantile));
        }
    }
}

/// Do `work` on another thread, and look meanwhile whether this program is interrupted, and after
/// what `look` says.
pub(crate) fn attend<T: Send>(
    runner: &Runner,
    work: impl FnOnce(&AtomicBool) -> Result<T> + Send,
    mut look: impl FnMut() -> Result<()>,
) -> Result<T> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(&stop));
        let mut failed = None;
        while !worker.is_finished() {
            if runner.is_interrupted() {
                failed = Some(Interrupted.into());
            } else if failed.is_none() {
                failed = look().err();
            }
            if failed.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK);
        }
        let done = worker.join().expect("the load does not panic");
        match failed {
            Some(error) => Err(error),
            None => done,
        }
    })
}

/// Make the load; `count` snapshots of that kind are begun when equal parts of it are done.
pub fn run(
    runner: &Runner,
    server: &Server,
    load: &Load,
    kind: Snapshots,
    count: u32,
    looks: Looks,
) -> Result<Phase> {
    let mut control = server.connect()?;
    let count = if kind == Snapshots::None { 0 } else { u64::from(count) };
    let served_before = updates_served(&mut control)?;
    let counts_before = counts(server)?;
    let (cpu_before, stolen_before) = (cpu_ns(server.pid()), stolen_ns());
    let progress = AtomicU64::new(0);
    let began = Instant::now();
    let mut taken: Vec<Taken> = Vec::new();
    let mut at_work = false;
    let requests = attend(
        runner,
        |stop| load::run(server, load, began, &progress, stop),
        || {
            if at_work {
                at_work = watch(server, &mut control, kind, looks, &mut taken, began)?;
            } else if (taken.len() as u64) < count {
                // In the middle of its part, so that the first has a past to be compared with.
                let due = load.updates * (2 * taken.len() as u64 + 1) / (2 * count);
                if progress.load(Ordering::Relaxed) >= due {
                    taken.push(begin(&mut control, kind, began)?);
                    at_work = true;
                }
            }
            Ok(())
        },
    )?;
    let cpu_after = cpu_ns(server.pid());
    // Both may go back: a thread ends, a virtual machine moves.
    let grown = |before: Option<u64>, after: Option<u64>| after?.checked_sub(before?);
    let server_cpu_ns = grown(cpu_before, cpu_after);
    let stolen_ns = grown(stolen_before, stolen_ns());
    // What is still at work is waited for: the next phase must not meet it.
    while at_work {
        if runner.is_interrupted() {
            return Err(Interrupted.into());
        }
        std::thread::sleep(LOOK);
        at_work = watch(server, &mut control, kind, looks, &mut taken, began)?;
    }
    let elapsed_ns = requests.iter().map(|request| request.end_ns).max().unwrap_or(0);
    let served_updates = updates_served(&mut control)? - served_before;
    let counts = counts_before.zip(counts(server)?).map(|(before, after)| [before, after]);
    Ok(Phase { requests, taken, elapsed_ns, served_updates, server_cpu_ns, stolen_ns, counts })
}

fn counts(server: &Server) -> Result<Option<ProcessCowStats>> {
    Ok(ProcessCowStats::read(&Root::default(), &server.pid().to_string())?)
}

/// How many HSET the server has served, by INFO's commandstats: `calls=5,usec=…`.
fn updates_served(control: &mut Connection) -> Result<u64> {
    let stats = control.info("commandstats")?;
    let served = stats.text("cmdstat_hset").and_then(|text| {
        text.split(',').find_map(|part| part.strip_prefix("calls=")?.parse().ok())
    });
    served.context("redis-server does not tell how often HSET was called (INFO commandstats)")
}

fn begin(control: &mut Connection, kind: Snapshots, began: Instant) -> Result<Taken> {
    let begin_ns = began.elapsed().as_nanos() as u64;
    control
        .ask(&[command(kind)])
        .with_context(|| format!("redis-server refuses {}", command(kind)))?;
    Ok(Taken { begin_ns, ..Taken::default() })
}

/// Look at the last snapshot; whether it is still at work.
fn watch(
    server: &Server,
    control: &mut Connection,
    kind: Snapshots,
    looks: Looks,
    all_taken: &mut [Taken],
    began: Instant,
) -> Result<bool> {
    let (taken, before) = all_taken.split_last_mut().expect("one was begun");
    let [in_progress, status, cow] = keys(kind);
    let now_ns = began.elapsed().as_nanos() as u64;
    let persistence = control.info("persistence")?;
    let number = |key: &str| persistence.number(key);
    taken.end_ns = now_ns;
    if number(in_progress) == Some(1) {
        let peak = number("current_cow_peak").or_else(|| number("current_cow_size"));
        // 0 until the child has told it once.
        taken.cow_peak_bytes = taken.cow_peak_bytes.max(peak.filter(|bytes| *bytes > 0));
        let keys = number("current_save_keys_processed").zip(number("current_save_keys_total"));
        let since_ns = now_ns - taken.begin_ns;
        if let Looks::Memory(phase_before_ns) = looks
            && !taken.is_looked_at
            && is_late(keys, since_ns, before.last().map(Taken::took_ns).or(phase_before_ns))
        {
            taken.is_looked_at = true;
            (taken.pss_sum_bytes, taken.rss_sum_bytes) = memory(server.pid())?;
        }
        return Ok(true);
    }
    if let Some(status) = persistence.text(status)
        && status.trim() != "ok"
    {
        bail!("redis-server's {} failed (is the disk full, or memory out?)", command(kind));
    }
    taken.cow_bytes = number(cow);
    taken.fork_ns = control.info("stats")?.number("latest_fork_usec").map(|us| us * 1000);
    Ok(false)
}

/// Whether four fifths of a snapshot are done: by its keys, done and all, of which the child tells
/// once a second, or else by how long the snapshot before it took.
fn is_late(keys: Option<(u64, u64)>, since_ns: u64, before_ns: Option<u64>) -> bool {
    keys.is_some_and(|(done, all)| all > 0 && done * 10 >= all * 8)
        || before_ns.is_some_and(|before_ns| since_ns >= before_ns / 5 * 4)
}

/// Anonymous PSS and RSS of a process and its children; `None` where that cannot be seen.
fn memory(pid: u32) -> Result<(Option<u64>, Option<u64>)> {
    let all = family(pid)?.and_then(|all| all.into_iter().collect::<Option<Vec<_>>>());
    let Some(seen) = all else { return Ok((None, None)) };
    let sum = |of: fn(&Smaps) -> Option<u64>| seen.iter().map(of).sum();
    Ok((sum(|r| r.pss_anonymous_bytes), sum(|r| r.anonymous_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_looked_at_when_four_fifths_are_done() {
        for (keys, since_ns, before_ns, expected) in [
            // Just forked: nothing is known, or nothing is done.
            (None, 20, None, false),
            (Some((0, 0)), 20, None, false),
            (Some((0, 1000)), 20, Some(100), false),
            (Some((799, 1000)), 79, Some(100), false),
            (Some((800, 1000)), 20, None, true),
            // What the child told is old, or it told nothing.
            (Some((0, 1000)), 80, Some(100), true),
            (None, 80, Some(100), true),
        ] {
            let case = format!("{keys:?} {since_ns} {before_ns:?}");
            assert_eq!(is_late(keys, since_ns, before_ns), expected, "{case}");
        }
    }
}
