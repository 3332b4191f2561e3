// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Smith and Maguire's program with one thing changed at a time: what the document could not ask.

use cowlab_model::Estimate;
use cowlab_schema::fork_sweep::{self, DoFork};
use cowlab_schema::{Field, Method, Reap, Writer};

use super::Study;

pub const HEAP_BYTES: u64 = 31_622_000;
/// The heap of the variants with huge pages.
pub const HUGE_HEAP_BYTES: u64 = 268_435_456;

/// A size of larger pages that programs without huge ones may get (mTHP).
pub const FOLIO_BYTES: u64 = 64 << 10;

/// First forks of heaps in pages of that size, for the chart of stops.
pub fn stops(page_size_bytes: u64) -> [DoFork; 3] {
    [16, 64, 256].map(|mib| DoFork::new(1, mib << 20, 0.0, page_size_bytes))
}

#[derive(Debug, Clone)]
pub struct Variant {
    pub name: &'static str,
    /// What to expect of it, if there is something to say.
    pub why: &'static str,
    pub cell: DoFork,
    /// Whether the document's own sweep measures it.
    pub in_sweep: bool,
}

/// Every variant, on a machine with pages of `page` and huge ones of `huge` bytes.
pub fn variants(page: u64, huge: u64) -> Vec<Variant> {
    let heap = |fraction| DoFork::new(40, HEAP_BYTES, fraction, page);
    let (none, half) = (heap(0.0), heap(0.5));
    let unpinned = DoFork { pinned: false, ..half.clone() };
    let made = |method| DoFork { method, forks: 500, ..heap(0.0) };
    let large = |fraction| DoFork::new(4, HUGE_HEAP_BYTES, fraction, page);
    let huge = |fraction| DoFork { page_size_bytes: huge, ..large(fraction) };
    let plain = |name, cell| Variant { name, why: "", cell, in_sweep: true };
    let of = |name, cell, why| Variant { name, why, cell, in_sweep: false };
    vec![
        plain("plain, nothing written", none.clone()),
        plain("plain, half written by the child", half.clone()),
        of(
            "untouched heap, nothing written",
            DoFork { populated: false, ..none.clone() },
            "malloc alone maps nothing: there are no page-table entries for fork to copy",
        ),
        of(
            "untouched heap, half written by the child",
            DoFork { populated: false, ..half.clone() },
            "the child's writes are given zeroed pages: nothing is shared, so nothing is copied",
        ),
        of(
            "parent and child on any CPU",
            unpinned.clone(),
            "the child may start on another CPU at once, which has to be woken",
        ),
        of(
            "at most 4 children at once, on any CPU",
            DoFork { reap: Reap::AtMost(4), ..unpinned.clone() },
            "children run beside each other and beside the forking program",
        ),
        of(
            "children never waited for, on any CPU",
            DoFork { reap: Reap::Never, ..unpinned },
            "as published: children overlap, and the CPU time and faults of those not waited for \
             are lost to the counters",
        ),
        of(
            "the parent writes while the child lives",
            DoFork { writer: Writer::Parent, ..half.clone() },
            "the parent pays for the copies; each fork then write-protects again what it wrote",
        ),
        of(
            "the parent writes after the child's end",
            DoFork { writer: Writer::ParentReuse, ..half.clone() },
            "nobody shares the pages any more: the fault only makes the page writable again",
        ),
        of(
            "vfork",
            made(Method::Vfork),
            "shares the memory instead of copying its tables; the parent waits",
        ),
        of(
            "clone with CLONE_VM and CLONE_VFORK",
            made(Method::CloneVmVfork),
            "the same by another door; what posix_spawn uses inside",
        ),
        of(
            "posix_spawn of a tiny program",
            made(Method::PosixSpawn),
            "like vfork, and the cost of loading a program",
        ),
        of(
            "another thread running, nothing written",
            DoFork { threads: 1, ..none },
            "write-protecting the parent's pages must flush the other CPU's TLB, once a fork",
        ),
        of(
            "another thread running, the parent writes",
            DoFork { threads: 1, writer: Writer::Parent, forks: 10, ..half },
            "each copy must flush the other CPU's TLB",
        ),
        of("base pages, nothing written", large(0.0), ""),
        of("huge pages, nothing written", huge(0.0), "one entry where there were hundreds"),
        of("base pages, a tenth written", large(0.1), ""),
        of(
            "huge pages, a tenth written",
            huge(0.1),
            "the first write to each huge page splits it; the rest are base pages",
        ),
        of("base pages, all written", large(1.0), ""),
        of("huge pages, all written", huge(1.0), "what a split leaves is copied page by page"),
    ]
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    pub fork_ns: Option<Estimate>,
    /// From the call until the child was reaped.
    pub cycle_ns: Option<Estimate>,
    pub write_ns_per_page: Option<Estimate>,
    pub faults_per_fork: Option<Estimate>,
}

/// What was measured of the program with these parameters, whatever the number of forks.
pub fn measured(study: &Study, cell: &DoFork) -> Measured {
    let free: [&dyn Field; 2] = [&fork_sweep::FORKS, &fork_sweep::SETTLED];
    let samples = study.samples(fork_sweep::BENCH).of_cell(cell, &free);
    let Some(forks) = samples.numbers(fork_sweep::FORKS).pop() else { return Measured::default() };
    let samples = samples.with(fork_sweep::FORKS, forks);
    let page = study.profile.page_size_bytes as f64;
    let written = (cell.heap_bytes as f64 * cell.write_fraction / page).ceil();
    let write = samples.estimate(fork_sweep::WRITE_NS).filter(|_| written > 0.0);
    let faults = samples.estimate(fork_sweep::MINOR_FAULTS);
    Measured {
        fork_ns: samples.estimate(fork_sweep::FORK_NS),
        cycle_ns: samples.estimate(fork_sweep::CYCLE_NS),
        write_ns_per_page: write.map(|e| e.scaled(1.0 / written)),
        faults_per_fork: faults.map(|e| e.scaled(1.0 / forks as f64)),
    }
}

/// Fork calls of a heap that was filled, of one only asked for, and without one.
pub fn untouched_forks(study: &Study) -> Option<[Estimate; 3]> {
    let heap = |bytes| DoFork::new(1, bytes, 0.0, study.profile.page_size_bytes);
    let fork = |cell: &DoFork| measured(study, cell).fork_ns;
    let untouched = DoFork { populated: false, ..heap(HEAP_BYTES) };
    Some([fork(&heap(HEAP_BYTES))?, fork(&untouched)?, fork(&heap(0))?])
}
