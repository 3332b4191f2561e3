// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fork-sweep`: Smith & Maguire's program over its parameters.

use std::rc::Rc;

use crate::probes::{DoForkResult, Probe};
use cowlab_analysis::study::sweep::{FRACTIONS, PAPER_HEAPS_BYTES};
use cowlab_analysis::study::variants::{HUGE_HEAP_BYTES, Variant, stops, variants};
use cowlab_machine::{PolicyGuard, Root, thp};
use cowlab_schema::Cell;
use cowlab_schema::fork_sweep::{self, DoFork};
use cowlab_schema::units::bytes_text;
use cowlab_store::{histogram_of, serialise};

use crate::task::{Round, Task, median_of};

/// The name of this benchmark in samples.
pub const BENCH: &str = fork_sweep::BENCH.name;

/// The document's numbers of forks, without its 0.
pub const FORKS: [u64; 7] = [1, 3, 10, 32, 100, 316, 1000];

/// How much of the document's sweep to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Large heaps with fewer forks, so that a round takes seconds.
    Short,
    /// The document's own sizes and numbers as well, and 1000 forks everywhere.
    Paper,
}

/// Forks for one point: 1000 where that is quick, fewer for heaps that take long. A function of
/// the amount of work alone, so that any two runs measure the same thing.
pub fn forks_for(heap_bytes: u64, write_fraction: f64, extent: Extent) -> u64 {
    if extent == Extent::Paper {
        return 1000;
    }
    let work = heap_bytes / 12 + (heap_bytes as f64 * write_fraction) as u64 + (256 << 10);
    ((64 << 20) / work).clamp(2, 1000)
}

fn task(settings: DoFork, guard: Option<Rc<PolicyGuard>>) -> Task {
    let name = format!(
        "{BENCH}: {} × {} of {}, fraction {}, {} writes",
        settings.forks,
        settings.method,
        match settings.heap_bytes {
            bytes if bytes.is_multiple_of(1 << 20) => bytes_text(bytes),
            bytes => format!("{:.0} MB", bytes as f64 / 1e6),
        },
        settings.write_fraction,
        settings.writer
    );
    Task::new(name, move |runner, round| {
        if let Some(guard) = &guard {
            guard.set(settings.policy)?;
        }
        record(round, &settings, &settings.run(runner)?);
        Ok(())
    })
}

/// One task for each of the settings, with the kernel as it is.
pub fn tasks(settings: impl IntoIterator<Item = DoFork>) -> Vec<Task> {
    under_policies(settings, None)
}

/// One task for each of the settings, each under its policy.
pub fn under_policies(
    settings: impl IntoIterator<Item = DoFork>,
    guard: Option<Rc<PolicyGuard>>,
) -> Vec<Task> {
    settings.into_iter().map(|settings| task(settings, guard.clone())).collect()
}

/// The document's sweep: its fractions over heaps of 1 MB to 316 MB and none, 1000 forks or fewer.
pub fn document_sweep(extent: Extent, page: u64, fits: impl Fn(&DoFork) -> bool) -> Vec<Task> {
    let mut heaps: Vec<u64> = PAPER_HEAPS_BYTES.iter().map(|bytes| bytes * 1000).collect();
    heaps.push(0);
    if extent == Extent::Paper {
        heaps.extend(PAPER_HEAPS_BYTES);
    }
    let mut cells = Vec::new();
    for heap in heaps {
        for fraction in FRACTIONS {
            let forks = forks_for(heap, fraction, extent);
            // With few forks the first one's extra cost would be scaled up with them.
            cells.push(DoFork { settled: true, ..DoFork::new(forks, heap, fraction, page) });
        }
    }
    tasks(cells.into_iter().filter(|cell| fits(cell)))
}

/// The same with a single fork: figure 4's small sample.
pub fn single_forks(page: u64, fits: impl Fn(&DoFork) -> bool) -> Vec<Task> {
    let cells = PAPER_HEAPS_BYTES.iter().flat_map(|heap| {
        FRACTIONS.iter().map(move |fraction| DoFork::new(1, heap * 1000, *fraction, page))
    });
    tasks(cells.filter(|cell| fits(cell))).into_iter().map(|task| task.at_most(1)).collect()
}

/// Growing numbers of forks: figures 5 and 6, real against system time.
pub fn growing_numbers(page: u64) -> Vec<Task> {
    let cells = [(0, 0.0), (1_000_000, 0.0), (1_000_000, 0.5), (1_000_000, 1.0)];
    let cells = cells.iter().flat_map(|(heap, fraction)| {
        FORKS.iter().map(move |forks| DoFork::new(*forks, *heap, *fraction, page))
    });
    tasks(cells).into_iter().map(|task| task.at_most(2)).collect()
}

/// What the document could not ask: untouched heaps, overlapping children, a writing parent, other
/// running threads, other ways to make a process, huge pages.
pub fn variant_tasks(
    page: u64,
    other_cpus: bool,
    huge_page: Option<u64>,
    fits: impl Fn(&DoFork) -> bool,
) -> Vec<Task> {
    let can = |variant: &Variant| {
        let cell = &variant.cell;
        let has_pages = huge_page.is_some() || cell.heap_bytes != HUGE_HEAP_BYTES;
        !variant.in_sweep && has_pages && (other_cpus || cell.threads == 0)
    };
    let own = variants(page, huge_page.unwrap_or(page)).into_iter().filter(can);
    tasks(own.map(|variant| variant.cell).filter(|cell| fits(cell)))
}

/// First forks of heaps in pages of larger sizes. With `allowed`, whatever is enabled here: the setting is
/// changed for each of them and put back, with the user's consent.
pub fn stop_tasks(sizes: &[u64], allowed: bool, fits: impl Fn(&DoFork) -> bool) -> Vec<Task> {
    let cells = sizes.iter().flat_map(|size| stops(*size)).filter(|cell| fits(cell));
    let one = |cell: DoFork| {
        let name = format!(
            "{BENCH}: a fork of {} in {}",
            bytes_text(cell.heap_bytes),
            bytes_text(cell.page_size_bytes)
        );
        Task::new(name, move |runner, round| {
            let size = cell.page_size_bytes;
            let _pages = allowed.then(|| thp::allow(&Root::default(), size)).transpose()?;
            record(round, &cell, &cell.run(runner)?);
            Ok(())
        })
    };
    cells.map(one).collect()
}

/// What one invocation gave. `real_ns`, `user_ns` and `sys_ns` are totals over the forks,
/// the spawning of the program and the populating of its heap left out; those seen from outside
/// hold everything.
fn record(round: &mut Round, settings: &DoFork, result: &DoForkResult) {
    let mut out = round.record(BENCH, settings.params(), result.start_unix_ns);
    out.add(fork_sweep::REAL_NS, result.loop_ns);
    out.add(fork_sweep::USER_NS, result.program.user_ns + result.children.user_ns);
    out.add(fork_sweep::SYS_NS, result.program.sys_ns + result.children.sys_ns);
    out.add(fork_sweep::OUTSIDE_REAL_NS, result.outside.real_ns);
    out.add(fork_sweep::OUTSIDE_USER_NS, result.outside.user_ns);
    out.add(fork_sweep::OUTSIDE_SYS_NS, result.outside.sys_ns);
    let faults = result.program.minor_faults + result.children.minor_faults;
    out.add(fork_sweep::MINOR_FAULTS, faults);
    if result.populate_faults > 0 && settings.populated {
        let pages = settings.heap_bytes.div_ceil(4096.min(settings.page_size_bytes));
        out.add(fork_sweep::POPULATE_PAGES_PER_FAULT, pages as f64 / result.populate_faults as f64);
    }
    for (metric, values) in [
        (fork_sweep::FORK_NS, &result.fork_ns),
        (fork_sweep::CHILD_START_NS, &result.child_start_ns),
        (fork_sweep::WRITE_NS, &result.write_ns),
        (fork_sweep::CYCLE_NS, &result.cycle_ns),
    ] {
        if let Some(median) = median_of(values) {
            let sample = out.add(metric, median);
            sample.histogram = Some(serialise(&histogram_of(values.iter().map(|v| (*v).max(1)))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_heaps_get_hundreds_of_forks_and_large_ones_two() {
        assert_eq!(forks_for(0, 0.0, Extent::Short), 256);
        assert_eq!(forks_for(0, 0.0, Extent::Paper), 1000);
        assert_eq!(forks_for(316_228_000, 1.0, Extent::Short), 2);
        let forks: Vec<_> = PAPER_HEAPS_BYTES
            .iter()
            .map(|heap| forks_for(heap * 1000, 0.5, Extent::Short))
            .collect();
        assert!(forks.is_sorted_by(|a, b| a >= b), "{forks:?}");
    }
}
