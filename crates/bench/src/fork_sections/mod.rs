// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fork-sections`: Barkley & Schimmel's Table I (CASPER, 1988). Forks of the smallest possible
//! process, and of larger ones, taken apart by CASPER in the kernel. Runs on a kernel whose fork is
//! instrumented.

mod forks;
mod sections;

use crate::probes::{Probe, Runner};
use anyhow::{Context, Result, ensure};
use cowlab_casper::read::Trace;
use cowlab_recorder::{Clock, Kernel, Options, ProbeCost, Recording, WhenFull};
use cowlab_schema::Cell;
use cowlab_schema::fork_sections::{self, ForkSections};
use cowlab_store::Params;

pub use forks::{Fork, Share, forks_of};
pub use sections::{ROOT, Section};

use crate::task::{Round, Task};

/// The name of this benchmark in samples.
pub const BENCH: &str = fork_sections::BENCH.name;

/// Forks whose calls are counted: every one makes the same.
const COUNTED_FORKS: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Only where sections begin: their times.
    Sections,
    /// Every instrumented function: how often each is called.
    Functions,
}

/// Sections of all sizes, and counts of those where every call still fits into the buffer.
pub fn tasks(cells: impl IntoIterator<Item = ForkSections>) -> Vec<Task> {
    let both = |cell: ForkSections| {
        let heap = format!("with a heap of {} bytes", cell.size_bytes);
        let counted = ForkSections { forks: COUNTED_FORKS.min(cell.forks), ..cell };
        let name = format!("{BENCH}: {} forks {heap}", cell.forks);
        let sections =
            Task::new(name, move |runner, round| measure(runner, &cell, Detail::Sections, round));
        let functions =
            Task::new(format!("{BENCH}: calls of a fork {heap}"), move |runner, round| {
                measure(runner, &counted, Detail::Functions, round)
            });
        [sections, functions.at_most(1)]
    };
    cells.into_iter().flat_map(both).collect()
}

/// Record the kernel while the probe runs.
fn measure(runner: &Runner, probe: &ForkSections, detail: Detail, round: &mut Round) -> Result<()> {
    // The same with nobody recording: what the probes change that is not subtracted shows here.
    let alone = match detail {
        Detail::Sections => Some(probe.run(runner)?),
        Detail::Functions => None,
    };
    let clock = Clock::choose();
    let cost = ProbeCost::calibrate_kernel(clock)?;
    let functions = match detail {
        Detail::Sections => sections::recorded(),
        Detail::Functions => Vec::new(),
    };
    // All that one task records fits: nothing else runs while the forks do.
    let options = Options {
        buffer_bytes: if detail == Detail::Sections { 1 << 20 } else { 4 << 20 },
        // The faults that make a large heap would fill the buffer before the first fork.
        when_full: match detail {
            Detail::Sections => WhenFull::Drop,
            Detail::Functions => WhenFull::Overwrite,
        },
        clock: Some(clock),
        kernel: Some(Kernel { functions, exclude: Vec::new() }),
        ..Options::default()
    };
    let folder = tempfile::tempdir().context("cannot make a folder for the trace")?;
    let path = folder.path().join("trace");
    let recording = Recording::start(&path, false, options, BENCH, Some(&cost))?;
    let result = probe.run(runner);
    let (account, trouble) = recording.finish();
    if let Some(error) = trouble {
        return Err(error);
    }
    let (result, trace) = (result?, Trace::open(&path)?);
    let lost = account.dropped_events + account.counters.no_buffer_events;
    ensure!(lost == 0 || detail == Detail::Functions, "{lost} events were lost: too many forks");
    let mut forks = forks_of(&trace)?;
    // The one that settles is not counted, and may be overwritten.
    let known = forks.len();
    let wanted = probe.forks as usize;
    ensure!(
        known == wanted + 1 || (detail == Detail::Functions && known == wanted),
        "the trace has {known} forks, the program made {}",
        wanted + 1
    );
    forks.drain(..known - wanted);
    let mut params = probe.params();
    match detail {
        Detail::Sections => {
            let first = round.number * probe.forks;
            for (index, fork) in forks.iter().enumerate() {
                // Each fork is a round of its own.
                let mut own = Round::new(first + index as u32);
                of_sections(&mut own, &params, fork, &cost, result.start_unix_ns);
                let mut out = own.record(BENCH, params.clone(), result.start_unix_ns);
                out.add(fork_sections::FORK_NS, result.fork_ns[index]);
                let alone_ns = alone.as_ref().map(|alone| alone.fork_ns[index]);
                out.known(fork_sections::FORK_UNRECORDED_NS, alone_ns);
                round.append(own);
            }
        }
        Detail::Functions => {
            fork_sections::FORKS.put(&mut params, forks.len() as u32);
            of_functions(round, &params, &forks, result.start_unix_ns);
        }
    }
    Ok(())
}

/// One fork's sections, in ns without the probes; what the probes cost, and the sum as recorded.
fn of_sections(
    round: &mut Round,
    params: &Params,
    fork: &Fork,
    cost: &ProbeCost,
    start_unix_ns: i64,
) {
    for section in Section::ALL {
        let mut params = params.clone();
        fork_sections::SECTION.put(&mut params, *section);
        let ns = fork.sections.get(section).copied().unwrap_or(0.0);
        round.record(BENCH, params, start_unix_ns).add(fork_sections::SECTION_NS, ns);
    }
    let calls: u64 = fork.functions.values().map(|share| share.calls).sum();
    let mut out = round.record(BENCH, params.clone(), start_unix_ns);
    out.add(fork_sections::KERNEL_NS, fork.raw_ns - fork.probes_ns);
    out.add(fork_sections::KERNEL_RAW_NS, fork.raw_ns);
    out.add(fork_sections::PROBES_NS, fork.probes_ns);
    out.add(fork_sections::PROBED_CALLS, calls);
    out.add(fork_sections::PROBE_OUTER_NS, cost.call_outer_ps as f64 / 1000.0);
}

/// Means over the forks: calls and own time of each function.
fn of_functions(round: &mut Round, params: &Params, forks: &[Fork], start_unix_ns: i64) {
    let mut sums = std::collections::BTreeMap::<&str, Share>::new();
    for (name, share) in forks.iter().flat_map(|fork| &fork.functions) {
        let sum = sums.entry(name).or_default();
        sum.calls += share.calls;
        sum.own_ns += share.own_ns;
    }
    for (name, sum) in sums {
        let mut params = params.clone();
        fork_sections::FUNCTION.put(&mut params, name);
        let mut out = round.record(BENCH, params, start_unix_ns);
        out.add(fork_sections::CALLS_PER_FORK, sum.calls as f64 / forks.len() as f64);
        out.add(fork_sections::OWN_NS, sum.own_ns / forks.len() as f64);
    }
}
