// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `calibrate`: the machine profile, from primitive costs and from fork cycles of growing heaps.

use crate::probes::{DoForkResult, PrimitivesResult, Probe, Runner, WarmMemory};
use anyhow::{Context, Result};
use cowlab_analysis::machine::cycles_of;
use cowlab_analysis::samples::Samples;
use cowlab_model::stats::median;
use cowlab_schema::calibrate::Primitives;
use cowlab_schema::fork_sweep::DoFork;
use cowlab_schema::{
    Cell, Method, Metric, Pattern, Writer, calibrate, calibrate_among_work, calibrate_cycle,
    calibrate_pace,
};
use cowlab_store::{Params, Sample};

use crate::task::{Round, Task, median_of};

/// The name of the primitive costs in samples.
const BENCH: &str = calibrate::BENCH.name;

/// Heaps of the cycles that write nothing.
const HEAPS_BYTES: [u64; 7] = [0, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30];
/// Heaps of which half is written: what predictions are tried on, and nothing is fitted to.
const HALF_WRITTEN_BYTES: [u64; 3] = [8 << 20, 32 << 20, 128 << 20];
/// Beyond this size a copy costs no more: caches are exhausted.
const LARGEST_WRITTEN_BYTES: u64 = 256 << 20;
/// With another running thread copies take five times as long; the sizes end earlier.
const LARGEST_WITH_THREADS_BYTES: u64 = 64 << 20;
/// Heaps of forks among work, in pages: an entry of a small one is dearer.
const AMONG_WORK_PAGES: [u64; 4] = [1 << 10, 1 << 12, 1 << 14, 1 << 16];
/// Heaps of huge pages, the largest that there is of them: one entry is little beside what a fork
/// costs without any.
const HUGE_AMONG_WORK_PAGES: [u64; 4] = [512, 256, 128, 64];
/// Work between two forks, after which caches hold nothing of the one before: more makes no
/// difference (docs/decisions/0019-advice.md).
pub(crate) const WORK_US: u64 = 20_000;
/// Mappings that are enough to be told from noise.
const VMAS: u64 = 1024;
/// Reads before each write (probes/calibrate.c).
const WORK_READS: [(Pattern, [u64; 4]); 2] =
    [(Pattern::Random, [0, 12, 25, 50]), (Pattern::Sequential, [0, 12, 50, 120])];
/// Of a process without a heap, and the most of any.
const FORKS_OF_NO_HEAP: u64 = 60;
/// The heap whose costs are quoted as the machine's: larger than most caches.
const REFERENCE_BYTES: u64 = 64 << 20;

/// What of the machine a calibration may use.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    pub page_size_bytes: u64,
    /// Size of a huge page that may be asked for.
    pub huge_page_bytes: Option<u64>,
    /// Whether another thread can run beside the measured one.
    pub other_cpus: bool,
    /// Heaps larger than this are left out, for want of memory.
    pub largest_bytes: u64,
}

/// The tasks of a calibration. Each is measured apart, so that all of them sample the whole of a
/// round, whatever the machine does meanwhile.
pub fn tasks(scope: Scope) -> Vec<Task> {
    let mut tasks: Vec<Task> = cycles(scope).into_iter().map(cycle_task).collect();
    let base = Primitives {
        size_bytes: REFERENCE_BYTES.min(scope.largest_bytes),
        page_size_bytes: scope.page_size_bytes,
        threads: u32::from(scope.other_cpus),
        ..Primitives::default()
    };
    tasks.push(primitives_task(base.clone(), move |runner, round, result| {
        let empty = DoFork::new(50, 0, 0.0, scope.page_size_bytes).run(runner)?;
        let empty_fork_ns = median_of(&empty.fork_ns).context("no fork was timed")?;
        base_costs(scope, round, result, empty_fork_ns)
    }));
    if let Some(huge) = scope.huge_page_bytes {
        let size_bytes = (128 << 20).min(scope.largest_bytes);
        let settings = Primitives { page_size_bytes: huge, size_bytes, ..base };
        tasks.push(primitives_task(settings, move |_, round, result| {
            huge_costs(scope, round, result);
            Ok(())
        }));
    }
    tasks.push(among_work_task(scope));
    // Another placement of the child: what pinning hides.
    let unpinned = DoFork { pinned: false, ..DoFork::new(200, 0, 0.0, scope.page_size_bytes) };
    // What it would replace are forks among work.
    let spawned =
        DoFork { forks: 10, method: Method::PosixSpawn, work_us: WORK_US, ..unpinned.clone() };
    for (name, settings, metric, of) in [
        (
            "unpinned",
            unpinned,
            calibrate::UNPINNED_PROCESS_NS,
            (|result| &result.cycle_ns) as fn(&DoForkResult) -> &Vec<u64>,
        ),
        ("spawned", spawned, calibrate::SPAWN_NS, |result| &result.fork_ns),
    ] {
        tasks.push(Task::new(format!("calibrate: {name}"), move |runner, round| {
            let result = settings.run(runner)?;
            let params = cost_params(scope.page_size_bytes, 0);
            let mut out = round.record(BENCH, params, result.start_unix_ns);
            out.known(metric, median_of(of(&result)));
            Ok(())
        }));
    }
    tasks
}

fn cycle_task(settings: DoFork) -> Task {
    let name = format!(
        "calibrate: {} MiB, fraction {}, {} writes",
        settings.heap_bytes >> 20,
        settings.write_fraction,
        settings.writer
    );
    Task::new(name, move |runner, round| {
        let result = settings.run(runner)?;
        let cycle = Cycle::of(&result).context("a fork cycle was not measured")?;
        let mut out = round.record(
            calibrate_cycle::BENCH.name,
            cycle_params(&settings),
            result.start_unix_ns,
        );
        out.add(calibrate_cycle::FORK_NS, cycle.fork_ns);
        out.add(calibrate_cycle::WRITE_NS, cycle.write_ns);
        out.add(calibrate_cycle::REST_NS, cycle.rest_ns());
        out.add(calibrate_cycle::CYCLE_NS, cycle.cycle_ns);
        out.add(calibrate_cycle::FIRST_FORK_NS, cycle.first_fork_ns);
        Ok(())
    })
}

/// Forks among work: of no heap, of those that copies have scattered, of huge pages, and with more
/// mappings.
fn among_work_task(scope: Scope) -> Task {
    let page = scope.page_size_bytes;
    // As many as of the curve that the difference is added to.
    let looped = DoFork::new(FORKS_OF_NO_HEAP, 0, 0.0, page);
    let among_work = DoFork { settled: true, work_us: WORK_US, ..DoFork::new(4, 0, 0.0, page) };
    let with_anon = DoFork { vmas_anon: VMAS, ..among_work.clone() };
    let with_files = DoFork { vmas: VMAS, ..among_work.clone() };
    Task::new("calibrate: forks among work", move |runner, round| {
        let fork = |settings: &DoFork| {
            let result = settings.run(runner)?;
            let fork_ns = median_of(&result.fork_ns).context("no fork was timed")?;
            anyhow::Ok((fork_ns, result))
        };
        let (looped_ns, first) = fork(&looped)?;
        let start_unix_ns = first.start_unix_ns;
        let among_work_ns = fork(&among_work)?.0;
        let mut entries = Vec::new();
        let mut written_ns = None;
        for settings in scattered(scope, &among_work) {
            let heap_bytes = settings.heap_bytes;
            let pte_ns = (fork(&settings)?.0 - among_work_ns) / (heap_bytes / page) as f64;
            entries.push((heap_bytes, pte_ns));
            if heap_bytes == REFERENCE_BYTES.min(scope.largest_bytes) {
                let written = DoFork { writer: Writer::Parent, write_fraction: 1.0, ..settings };
                let pages = (heap_bytes / page) as f64;
                written_ns = Some((fork(&written)?.0 - among_work_ns) / pages - pte_ns);
            }
            let mut params = cost_params(page, 0);
            calibrate_among_work::HEAP_BYTES.put(&mut params, heap_bytes);
            let mut out = round.record(calibrate_among_work::BENCH.name, params, start_unix_ns);
            out.add(calibrate_among_work::PTE_AMONG_WORK_NS_PER_PAGE, pte_ns);
        }
        let quoted = entries.iter().rfind(|(heap_bytes, _)| *heap_bytes <= REFERENCE_BYTES);
        let reference_ns = quoted.or(entries.first()).context("no heap was forked")?.1;
        let mut out = round.record(BENCH, cost_params(page, 0), start_unix_ns);
        out.add(calibrate::FORK_AMONG_WORK_NS, among_work_ns - looped_ns);
        out.add(calibrate::PTE_AMONG_WORK_NS_PER_PAGE, reference_ns);
        out.known(calibrate::PTE_WRITTEN_AMONG_WORK_NS_PER_PAGE, written_ns);
        // Each mapping has a page, too.
        let more = |settings: &DoFork| Ok::<_, anyhow::Error>(fork(settings)?.0 - among_work_ns);
        out.add(calibrate::VMA_ANON_NS, more(&with_anon)? / VMAS as f64 - reference_ns);
        out.add(calibrate::VMA_NS, more(&with_files)? / VMAS as f64);
        for settings in of_huge_pages(scope, &among_work) {
            let (fork_ns, result) = fork(&settings)?;
            let huge = settings.page_size_bytes;
            let pages = settings.heap_bytes / huge;
            if are_huge(pages, result.populate_faults) {
                let entry_ns = (fork_ns - among_work_ns) / pages as f64;
                let mut out = round.record(BENCH, cost_params(huge, 0), start_unix_ns);
                out.add(calibrate::THP_FORK_AMONG_WORK_NS_PER_HUGE_PAGE, entry_ns.max(0.0));
                break;
            }
        }
        Ok(())
    })
}

/// Heaps of base pages that copies have scattered, smallest first.
fn scattered(scope: Scope, among_work: &DoFork) -> Vec<DoFork> {
    let bytes = |pages: u64| (pages * scope.page_size_bytes).min(scope.largest_bytes);
    let mut heaps = AMONG_WORK_PAGES.map(bytes).to_vec();
    heaps.dedup();
    let of = |heap_bytes| DoFork {
        heap_bytes,
        scattered: true,
        scatter_bytes: scope.largest_bytes,
        ..among_work.clone()
    };
    heaps.into_iter().map(of).collect()
}

/// Heaps of huge pages, largest first; none where there are no huge pages.
fn of_huge_pages(scope: Scope, among_work: &DoFork) -> Vec<DoFork> {
    let Some(huge) = scope.huge_page_bytes else { return Vec::new() };
    let heaps = HUGE_AMONG_WORK_PAGES.into_iter().map(|pages| pages * huge);
    let of = |heap_bytes| DoFork { heap_bytes, page_size_bytes: huge, ..among_work.clone() };
    heaps.filter(|bytes| *bytes <= scope.largest_bytes).map(of).collect()
}

/// One run of the primitives, and what `costs` makes of its totals.
fn primitives_task(
    settings: Primitives,
    costs: impl Fn(&Runner, &mut Round, &PrimitivesResult) -> Result<()> + 'static,
) -> Task {
    let name = format!("calibrate: pages of {} bytes", settings.page_size_bytes);
    Task::new(name, move |runner, round| costs(runner, round, &settings.run(runner)?))
}

/// The fork cycles of one round: nothing and everything written, by child and by parent, without
/// and with another running thread.
fn cycles(scope: Scope) -> Vec<DoFork> {
    let page = scope.page_size_bytes;
    let mut cells = Vec::new();
    for threads in 0..=u32::from(scope.other_cpus) {
        for writer in [Writer::Child, Writer::Parent] {
            let flushes = threads > 0 && writer == Writer::Parent;
            let largest_idle =
                if threads > 0 { LARGEST_WRITTEN_BYTES } else { scope.largest_bytes };
            let largest_idle = largest_idle.min(scope.largest_bytes);
            for heap in HEAPS_BYTES.into_iter().filter(|heap| *heap <= largest_idle) {
                let base = DoFork { writer, threads, ..DoFork::new(1, heap, 0.0, page) };
                let work = heap / 20 + (512 << 10);
                let forks = 1 + ((64 << 20) / work).clamp(4, FORKS_OF_NO_HEAP);
                cells.push(DoFork { forks, ..base.clone() });
                let largest =
                    if flushes { LARGEST_WITH_THREADS_BYTES } else { LARGEST_WRITTEN_BYTES };
                if heap == 0 || heap > largest {
                    continue;
                }
                cells.push(DoFork { forks: written_forks(heap), write_fraction: 1.0, ..base });
            }
            for heap in HALF_WRITTEN_BYTES {
                if heap
                    <= largest_idle.min(LARGEST_WITH_THREADS_BYTES * if flushes { 1 } else { 4 })
                {
                    let base = DoFork { writer, threads, ..DoFork::new(1, heap, 0.5, page) };
                    cells.push(DoFork { forks: written_forks(heap), ..base });
                }
            }
        }
    }
    cells
}

/// Forks of a program that writes, the first of which is left out. The points that check the model
/// have the same, so that caches are as warm.
pub(crate) fn written_forks(heap_bytes: u64) -> u64 {
    match heap_bytes >> 20 {
        0..=4 => 17,
        5..=16 => 9,
        17..=32 => 7,
        33..=64 => 4,
        65..=128 => 3,
        _ => 2,
    }
}

/// Medians over the cycles of one invocation. The first is left out: it makes page tables and
/// finds the heap as it was populated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cycle {
    fork_ns: f64,
    write_ns: f64,
    pub(crate) cycle_ns: f64,
    first_fork_ns: f64,
}

impl Cycle {
    pub(crate) fn of(result: &DoForkResult) -> Option<Cycle> {
        let settled = |values: &[u64]| median_of(values.get(1..).unwrap_or(&[]));
        Some(Cycle {
            fork_ns: settled(&result.fork_ns)?,
            write_ns: settled(&result.write_ns)?,
            cycle_ns: settled(&result.cycle_ns)?,
            first_fork_ns: *result.fork_ns.first()? as f64,
        })
    }

    fn rest_ns(&self) -> f64 {
        self.cycle_ns - self.fork_ns - self.write_ns
    }
}

fn cycle_params(settings: &DoFork) -> Params {
    let all = settings.params();
    let kept = calibrate_cycle::BENCH.parts.iter().map(|field| field.name());
    kept.map(|key| (key.to_owned(), all[key].clone())).collect()
}

fn cost_params(page_size_bytes: u64, threads: u32) -> Params {
    Primitives { page_size_bytes, threads, ..Primitives::default() }.params()
}

fn base_costs(
    scope: Scope,
    round: &mut Round,
    result: &PrimitivesResult,
    empty_fork_ns: f64,
) -> Result<()> {
    let page = scope.page_size_bytes;
    let pages = result.pages as f64;
    let per_page = |metric: &str| median_of(&result.totals_ns(metric)).map(|total| total / pages);
    let mut out = round.record(BENCH, cost_params(page, 0), result.start_unix_ns);
    let total = |metric: &str| median_of(&result.totals_ns(metric));
    let page_tables = (result.page_table_kib > 0).then_some(result.page_table_kib as f64 * 1024.0);
    let fault = per_page("write_ns").context("copy-on-write faults were not measured")?;
    let copy = per_page("page_copy_ns").context("copies were not measured")?;
    let (bulk, populate) = (per_page("memcpy_ns"), per_page("populate_ns"));
    let copy_ns = |alone: &str, beside: &str| {
        let (alone, beside) = (result.totals_ns(alone), result.totals_ns(beside));
        let extra = beside.iter().zip(&alone).map(|(b, a)| *b as f64 - *a as f64);
        median(&extra.collect::<Vec<_>>()).map(|extra| extra / pages)
    };
    let pace = |(pattern, reads): (Pattern, u64)| {
        let (alone, beside) =
            (format!("{pattern}_{reads}_ns"), format!("{pattern}_{reads}_write_ns"));
        Some((pattern, reads, per_page(&alone)?, copy_ns(&alone, &beside)?))
    };
    let of_pattern = |(pattern, reads): &(Pattern, [u64; 4])| reads.map(|reads| (*pattern, reads));
    let paces: Option<Vec<_>> = WORK_READS.iter().flat_map(of_pattern).map(pace).collect();
    let paces = paces.context("copies among work were not measured")?;
    let among = paces.iter().rfind(|(pattern, ..)| *pattern == Pattern::Random);
    let among = among.map(|(.., copy_ns)| *copy_ns);
    out.add_known([
        (calibrate::WAIT_NS, total("reap_ns")),
        (calibrate::TIMER_NS, total("timer_reads_ns").map(|ns| ns / result.timer_reads as f64)),
        (calibrate::PAGE_TABLE_BYTES_PER_PAGE, page_tables.map(|bytes| bytes / pages)),
        (calibrate::FIRST_TOUCH_NS_PER_PAGE, per_page("first_touch_ns")),
        (
            calibrate::PTE_WRITTEN_NS_PER_PAGE,
            total("fork_ns").map(|fork| (fork - empty_fork_ns) / pages),
        ),
        (calibrate::COW_FAULT_NS, Some(fault)),
        (calibrate::COPY_NS_PER_PAGE, Some(copy)),
        (calibrate::MEMCPY_NS_PER_PAGE, bulk),
        (calibrate::MEMCPY_BYTES_PER_S, bulk.map(|bulk| page as f64 / bulk * 1e9)),
        (calibrate::COW_POPULATE_NS, populate),
        (calibrate::TRAP_NS, populate.map(|populate| fault - populate)),
        (calibrate::FAULT_REST_NS, populate.map(|populate| populate - copy)),
        (calibrate::COW_AMONG_WORK_NS, among),
        (calibrate::REUSE_FAULT_NS, per_page("reuse_write_ns")),
    ]);
    for (pattern, work_reads, own_ns, copy_ns) in paces {
        let mut params = cost_params(page, 0);
        calibrate_pace::PATTERN.put(&mut params, pattern);
        calibrate_pace::WORK_READS.put(&mut params, work_reads);
        let mut out = round.record(calibrate_pace::BENCH.name, params, result.start_unix_ns);
        out.add(calibrate_pace::OWN_NS, own_ns);
        out.add(calibrate_pace::COW_AT_PACE_NS, copy_ns);
    }
    if let Some(with_threads) = per_page("write_threads_ns") {
        let mut out = round.record(BENCH, cost_params(page, 1), result.start_unix_ns);
        out.add(calibrate::COW_FAULT_THREADS_NS, with_threads);
        out.add(calibrate::REMOTE_FLUSH_NS, with_threads - fault);
    }
    Ok(())
}

/// Whether so many huge pages are what they were asked to be: where free memory was too scattered,
/// populating them took more faults.
fn are_huge(pages: u64, populate_faults: u64) -> bool {
    populate_faults <= pages + pages / 20 + 1
}

fn huge_costs(scope: Scope, round: &mut Round, result: &PrimitivesResult) {
    let huge = scope.huge_page_bytes.unwrap_or(scope.page_size_bytes);
    if !are_huge(result.pages, result.populate_faults) {
        return;
    }
    let pages = result.pages as f64;
    let median = |metric: &str| median_of(&result.totals_ns(metric));
    let mut out = round.record(BENCH, cost_params(huge, 0), result.start_unix_ns);
    out.known(calibrate::THP_SPLIT_NS, median("split_write_ns").map(|ns| ns / pages));
    let mut out = round.record(BENCH, cost_params(huge, 1), result.start_unix_ns);
    let split = median("split_write_threads_ns");
    out.known(calibrate::THP_SPLIT_THREADS_NS, split.map(|split| split / pages));
}

/// The costs that follow from the fork cycles of a round, as samples of that round.
pub fn derived(samples: &[Sample], scope: Scope) -> Vec<Sample> {
    let cycles = cycles_of(samples, Writer::Child, 0);
    let reference = REFERENCE_BYTES.min(scope.largest_bytes);
    let pages = (reference / scope.page_size_bytes) as f64;
    let mut derived = Vec::new();
    for number in 0..cycles.last_round().map_or(0, |last| last + 1) {
        let of = |heap: u64, fraction: f64| {
            let own = cycles.of_round(number).with(calibrate_cycle::HEAP_BYTES, heap);
            own.with(calibrate_cycle::WRITE_FRACTION, fraction)
        };
        let (empty, unwritten, written) = (of(0, 0.0), of(reference, 0.0), of(reference, 1.0));
        let Some(start) = empty.start_unix_ns(calibrate_cycle::CYCLE_NS) else { continue };
        let mut round = Round::new(number);
        let mut out = round.record(BENCH, cost_params(scope.page_size_bytes, 0), start);
        let growth = |metric: Metric, from: &Samples, to: &Samples| {
            Some((to.first(metric)? - from.first(metric)?) / pages)
        };
        let of_page = |metric| growth(metric, &empty, &unwritten);
        let first_fork = unwritten
            .first(calibrate_cycle::FIRST_FORK_NS)
            .zip(empty.first(calibrate_cycle::FORK_NS))
            .map(|(first, empty)| (first - empty) / pages);
        let freed = growth(calibrate_cycle::REST_NS, &unwritten, &written);
        out.add_known([
            (calibrate::NEW_PROCESS_NS, empty.first(calibrate_cycle::CYCLE_NS)),
            (calibrate::FORK_CALL_NS, empty.first(calibrate_cycle::FORK_NS)),
            (calibrate::EXIT_WAIT_NS, empty.first(calibrate_cycle::REST_NS)),
            (calibrate::PTE_NS_PER_PAGE, of_page(calibrate_cycle::FORK_NS)),
            (calibrate::PTE_TEARDOWN_NS_PER_PAGE, of_page(calibrate_cycle::REST_NS)),
            (calibrate::FIRST_FORK_NS_PER_PAGE, first_fork),
            (calibrate::COPY_FREE_NS_PER_PAGE, freed),
        ]);
        derived.extend(round.finish());
    }
    derived
}

/// The cost of touching memory that was not used lately, seen while it was warmed for the run.
pub fn cold_touch_sample(page: u64, warm: &WarmMemory<'_>, start_unix_ns: i64) -> Vec<Sample> {
    let mut round = Round::new(0);
    let mut out = round.record(BENCH, cost_params(page, 0), start_unix_ns);
    out.add(calibrate::COLD_TOUCH_NS_PER_PAGE, warm.touch_ns as f64 / warm.pages as f64);
    round.finish()
}
