// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fork-sections`: document 001's Table I. Forks of the smallest possible process, and of larger
//! ones, taken apart by CASPER in the kernel. Runs on a kernel whose fork is instrumented.

mod forks;
mod sections;

use anyhow::{Context, Result, ensure};
use cowlab_casper::read::Trace;
use cowlab_probes::{Probe, Runner};
use cowlab_recorder::{Clock, Kernel, Options, ProbeCost, Recording, WhenFull};
use cowlab_schema::Cell;
use cowlab_schema::fork_sections::{self, ForkSections};
use cowlab_store::{Params, Sample};

pub use forks::{Fork, Share, forks_of};
pub use sections::{ROOT, Section};

use crate::task::{Recorder, Task};

/// The name of this benchmark in samples.
pub const BENCH: &str = fork_sections::BENCH.name;

/// Forks whose calls are counted: every one makes the same.
const COUNTED_FORKS: u32 = 10;

/// What is recorded.
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
            Task::new(name, move |runner, rep| measure(runner, &cell, Detail::Sections, rep));
        let functions =
            Task::new(format!("{BENCH}: calls of a fork {heap}"), move |runner, rep| {
                measure(runner, &counted, Detail::Functions, rep)
            });
        [sections, functions.at_most(1)]
    };
    cells.into_iter().flat_map(both).collect()
}

/// Record the kernel while the probe runs.
fn measure(runner: &Runner, probe: &ForkSections, detail: Detail, rep: u32) -> Result<Vec<Sample>> {
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
            let mut all = Vec::new();
            for (index, fork) in forks.iter().enumerate() {
                let rep = rep * probe.forks + index as u32;
                all.extend(of_sections(&params, fork, &cost, rep, result.start_unix_ns));
                let mut out = Recorder::new(BENCH, params.clone(), rep, result.start_unix_ns);
                out.add(fork_sections::FORK_NS, result.fork_ns[index] as f64);
                if let Some(alone) = &alone {
                    out.add(fork_sections::FORK_UNRECORDED_NS, alone.fork_ns[index] as f64);
                }
                all.extend(out.finish());
            }
            Ok(all)
        }
        Detail::Functions => {
            fork_sections::FORKS.put(&mut params, forks.len() as u32);
            Ok(of_functions(&params, &forks, rep, result.start_unix_ns))
        }
    }
}

/// One fork's sections, in ns without the probes; what the probes cost, and the sum as recorded.
fn of_sections(
    params: &Params,
    fork: &Fork,
    cost: &ProbeCost,
    rep: u32,
    start_unix_ns: i64,
) -> Vec<Sample> {
    let mut all = Vec::new();
    for &section in Section::ALL {
        let mut params = params.clone();
        fork_sections::SECTION.put(&mut params, section);
        let mut out = Recorder::new(BENCH, params, rep, start_unix_ns);
        out.add(fork_sections::SECTION_NS, fork.sections.get(&section).copied().unwrap_or(0.0));
        all.extend(out.finish());
    }
    let mut out = Recorder::new(BENCH, params.clone(), rep, start_unix_ns);
    out.add(fork_sections::KERNEL_NS, fork.raw_ns - fork.probes_ns);
    out.add(fork_sections::KERNEL_RAW_NS, fork.raw_ns);
    out.add(fork_sections::PROBES_NS, fork.probes_ns);
    out.add(
        fork_sections::PROBED_CALLS,
        fork.functions.values().map(|share| share.calls as f64).sum(),
    );
    out.add(fork_sections::PROBE_OUTER_NS, cost.call_outer_ps as f64 / 1000.0);
    all.extend(out.finish());
    all
}

/// Means over the forks: calls and own time of each function.
fn of_functions(params: &Params, forks: &[Fork], rep: u32, start_unix_ns: i64) -> Vec<Sample> {
    let mut sums = std::collections::BTreeMap::<&str, Share>::new();
    for fork in forks {
        for (name, share) in &fork.functions {
            let sum = sums.entry(name).or_default();
            sum.calls += share.calls;
            sum.own_ns += share.own_ns;
        }
    }
    let mut all = Vec::new();
    for (name, sum) in sums {
        let mut params = params.clone();
        fork_sections::FUNCTION.put(&mut params, name);
        let mut out = Recorder::new(BENCH, params, rep, start_unix_ns);
        out.add(fork_sections::CALLS_PER_FORK, sum.calls as f64 / forks.len() as f64);
        out.add(fork_sections::OWN_NS, sum.own_ns / forks.len() as f64);
        all.extend(out.finish());
    }
    all
}
