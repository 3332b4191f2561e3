// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cow-faults`: the next-page study's workloads.

use std::rc::Rc;

use crate::probes::{CowFaultsResult, Probe};
use anyhow::{Result, bail};
use cowlab_machine::{Facts, PolicyGuard};
use cowlab_schema::cow_faults::{self, CowFaults};
use cowlab_schema::{Cell, Counting, Pattern, Policy, Writer};
use cowlab_store::histogram_of;

use crate::counts;
use crate::task::{Round, Task, median_of};

/// The name of this benchmark in samples.
pub const BENCH: &str = cow_faults::BENCH.name;

pub const SIZES_BYTES: [u64; 2] = [16 << 20, 64 << 20];

/// Repetitions of a pattern in one invocation, as many of each kind of timing. A single write
/// needs more of them for its percentiles.
pub fn repetitions_of(pattern: Pattern, counting: Counting) -> u64 {
    let kinds = if counting == Counting::Times { 3 } else { 2 };
    kinds * if pattern == Pattern::Single { 30 } else { 1 }
}

/// Repetitions before the measured ones: as many forks as the policies learn a writing parent by,
/// the same under each of them. A child is new to the kernel every time.
pub fn unmeasured(writer: Writer, policies: &[Policy]) -> u64 {
    match writer {
        Writer::Child => 0,
        _ => policies.iter().map(|policy| policy.forks_to_learn()).max().unwrap_or(0),
    }
}

/// What this kernel, and this user, can be asked for under `policy`.
pub fn counting(facts: &Facts, policy: Policy) -> Counting {
    let is_root = facts.credentials.as_ref().is_some_and(|own| own.euid == 0);
    // Root switches on what it asks for.
    let files = facts.cow.counts && facts.cow.process_counts && facts.cow.stats.is_some();
    match (is_root && files, facts.cow.counted(policy)) {
        (true, _) => Counting::Times,
        (false, true) => Counting::Counts,
        (false, false) => Counting::None,
    }
}

/// The document's workloads, and beyond it: a writing parent, several children, another thread.
pub fn document_workloads(
    page: u64,
    other_cpus: bool,
    huge_page: Option<u64>,
    seed: u64,
) -> Vec<Task> {
    let cell = |pattern, size_bytes| CowFaults {
        pattern,
        size_bytes,
        page_size_bytes: page,
        repetitions: repetitions_of(pattern, Counting::None),
        seed,
        ..CowFaults::default()
    };
    let mut cells = Vec::new();
    for size in SIZES_BYTES {
        for pattern in Pattern::ALL {
            cells.push(cell(*pattern, size));
            cells.push(CowFaults { writer: Writer::Parent, ..cell(*pattern, size) });
        }
    }
    for children in [2, 4, 8] {
        cells.push(CowFaults { children, pinned: false, ..cell(Pattern::Random, 16 << 20) });
    }
    if other_cpus {
        for pattern in Pattern::ALL {
            cells.push(CowFaults {
                writer: Writer::Parent,
                threads: 1,
                ..cell(*pattern, 16 << 20)
            });
        }
        cells.push(CowFaults { threads: 1, ..cell(Pattern::Random, 16 << 20) });
    }
    if let Some(huge) = huge_page {
        for pattern in [Pattern::Sequential, Pattern::Random] {
            cells.push(CowFaults { page_size_bytes: huge, ..cell(pattern, 64 << 20) });
        }
    }
    tasks(cells, None)
}

/// One task for each of the settings. `guard` sets the policies of those that have one.
pub fn tasks(
    settings: impl IntoIterator<Item = CowFaults>,
    guard: Option<Rc<PolicyGuard>>,
) -> Vec<Task> {
    let task = |settings: CowFaults| {
        let mut name = format!(
            "{BENCH}: {} over {} MiB, {} writes",
            settings.pattern,
            settings.size_bytes >> 20,
            settings.writer
        );
        if settings.policy != Policy::Stock {
            name.push_str(&format!(", policy {}", settings.policy));
        }
        let guard = guard.clone();
        Task::new(name, move |runner, round| {
            if let Some(guard) = &guard {
                guard.set(settings.policy)?;
            }
            // Another order in every round.
            let settings =
                CowFaults { seed: settings.seed + u64::from(round.number), ..settings.clone() };
            record(round, &settings, &settings.run(runner)?)
        })
    };
    settings.into_iter().map(task).collect()
}

/// What one invocation gave. Counts are totals over the writers of one repetition, times are
/// those of the slowest writer; the time-stamp's own cost is removed from every write.
fn record(round: &mut Round, settings: &CowFaults, result: &CowFaultsResult) -> Result<()> {
    let writers = if settings.writer == Writer::Child { settings.children as usize } else { 1 };
    let mut out = round.record(BENCH, settings.params(), result.start_unix_ns);
    let slowest: Vec<u64> =
        result.elapsed_ns.chunks(writers).filter_map(|chunk| chunk.iter().max().copied()).collect();
    let totals = |values: &[u64]| -> Vec<u64> {
        values.chunks(writers).map(|chunk| chunk.iter().sum()).collect()
    };
    out.add_known([
        (cow_faults::ELAPSED_NS, median_of(&slowest)),
        (cow_faults::PAGES_WRITTEN, median_of(&totals(&result.pages_written))),
        (cow_faults::MINOR_FAULTS, median_of(&totals(&result.minor_faults))),
    ]);
    let Some(timer_ns) = median_of(&result.timer_ns) else { bail!("the timer was not measured") };
    out.add(cow_faults::TIMER_NS, timer_ns);
    if !result.write_ns.is_empty() {
        let without_timer = |ns: &u64| ns.saturating_sub(timer_ns as u64).max(1);
        let histogram = histogram_of(result.write_ns.iter().map(without_timer));
        out.add_distribution(cow_faults::FAULT_NS, &histogram);
    }
    counts::add(&mut out, &result.counts, writers);
    counts::add_times(&mut out, &result.times);
    Ok(())
}
