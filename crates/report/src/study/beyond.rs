// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What document 000 could not ask: variants of its program, each beside the plain one.

use cowlab_analysis::names::FORK_SWEEP as BENCH;
use cowlab_analysis::study::Study;
use cowlab_model::Estimate;

use crate::cells;
use crate::document::{Block, Cell, Column, Section, Table};
use crate::fmt::{self, size};
use crate::study::not_available;

/// Anchor of the table.
pub(super) const TABLE: &str = "variants";
/// The heap of the variants.
const HEAP_BYTES: u64 = 31_622_000;
/// The heap of the variants with huge pages.
const HUGE_HEAP_BYTES: u64 = 268_435_456;

/// A variant: where it departs from document 000's case.
struct Variant {
    name: &'static str,
    heap_bytes: u64,
    fraction: f64,
    huge: bool,
    departs: &'static [(&'static str, &'static str)],
    why: &'static str,
}

impl Variant {
    fn described(&self) -> String {
        if self.why.is_empty() {
            return self.name.to_owned();
        }
        format!("{}: {}", self.name, self.why)
    }
}

const fn variant(
    name: &'static str,
    fraction: f64,
    departs: &'static [(&'static str, &'static str)],
    why: &'static str,
) -> Variant {
    Variant { name, heap_bytes: HEAP_BYTES, fraction, huge: false, departs, why }
}

const fn large(name: &'static str, fraction: f64, huge: bool, why: &'static str) -> Variant {
    Variant { name, heap_bytes: HUGE_HEAP_BYTES, fraction, huge, departs: &[], why }
}

const VARIANTS: [Variant; 20] = [
    variant("plain, nothing written", 0.0, &[], ""),
    variant("plain, half written by the child", 0.5, &[], ""),
    variant(
        "untouched heap, nothing written",
        0.0,
        &[("populated", "false")],
        "malloc alone maps nothing: there are no page-table entries for fork to copy",
    ),
    variant(
        "untouched heap, half written by the child",
        0.5,
        &[("populated", "false")],
        "the child's writes are given zeroed pages: nothing is shared, so nothing is copied",
    ),
    variant(
        "parent and child on any CPU",
        0.5,
        &[("pinned", "false")],
        "the child may start on another CPU at once, which has to be woken",
    ),
    variant(
        "at most 4 children at once, on any CPU",
        0.5,
        &[("reap", "4"), ("pinned", "false")],
        "children run beside each other and beside the forking program",
    ),
    variant(
        "children never waited for, on any CPU",
        0.5,
        &[("reap", "never"), ("pinned", "false")],
        "as published: children overlap, and the CPU time and faults of those not waited for are \
         lost to the counters",
    ),
    variant(
        "the parent writes while the child lives",
        0.5,
        &[("writer", "parent")],
        "the parent pays for the copies; each fork then write-protects again what it wrote",
    ),
    variant(
        "the parent writes after the child's end",
        0.5,
        &[("writer", "parent-reuse")],
        "nobody shares the pages any more: the fault only makes the page writable again",
    ),
    variant(
        "vfork",
        0.0,
        &[("method", "vfork")],
        "shares the memory instead of copying its tables; the parent waits",
    ),
    variant(
        "clone with CLONE_VM and CLONE_VFORK",
        0.0,
        &[("method", "clone-vm-vfork")],
        "the same by another door; what posix_spawn uses inside",
    ),
    variant(
        "posix_spawn of a tiny program",
        0.0,
        &[("method", "posix-spawn")],
        "like vfork, and the cost of loading a program",
    ),
    variant(
        "another thread running, nothing written",
        0.0,
        &[("threads", "1")],
        "write-protecting the parent's pages must flush the other CPU's TLB, once a fork",
    ),
    variant(
        "another thread running, the parent writes",
        0.5,
        &[("threads", "1"), ("writer", "parent")],
        "each copy must flush the other CPU's TLB",
    ),
    large("base pages, nothing written", 0.0, false, ""),
    large("huge pages, nothing written", 0.0, true, "one entry where there were hundreds"),
    large("base pages, a tenth written", 0.1, false, ""),
    large(
        "huge pages, a tenth written",
        0.1,
        true,
        "the first write to each huge page splits it; the rest are base pages",
    ),
    large("base pages, all written", 1.0, false, ""),
    large("huge pages, all written", 1.0, true, "what a split leaves is copied page by page"),
];

/// What was measured of a variant.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measured {
    pub(super) fork_ns: Option<Estimate>,
    cycle_ns: Option<Estimate>,
    write_ns_per_page: Option<Estimate>,
    faults_per_fork: Option<Estimate>,
}

/// Document 000's case with some parameters changed.
pub(super) fn measured(
    study: &Study,
    heap_bytes: u64,
    fraction: f64,
    page_size_bytes: u64,
    departs: &[(&str, &str)],
) -> Measured {
    let page = study.profile.page_size_bytes;
    let plain = [
        ("method", "fork"),
        ("writer", "child"),
        ("reap", "each"),
        ("populated", "true"),
        ("threads", "0"),
        ("pinned", "true"),
    ];
    let mut samples = study
        .samples(BENCH)
        .with("heap_bytes", heap_bytes)
        .with("write_fraction", fraction)
        .with("page_size_bytes", page_size_bytes);
    for (key, value) in plain {
        let own = departs.iter().find(|(name, _)| *name == key);
        samples = samples.with(key, own.map_or(value, |(_, own)| own));
    }
    let Some(forks) = samples.numbers("forks").pop() else { return Measured::default() };
    let samples = samples.with("forks", forks);
    let written = (heap_bytes as f64 * fraction / page as f64).ceil();
    let write = samples.estimate("write_ns").filter(|_| written > 0.0);
    Measured {
        fork_ns: samples.estimate("fork_ns"),
        cycle_ns: samples.estimate("cycle_ns"),
        write_ns_per_page: write.map(|e| e.scaled(1.0 / written)),
        faults_per_fork: samples.estimate("minor_faults").map(|e| e.scaled(1.0 / forks as f64)),
    }
}

pub(super) fn section(study: &Study) -> Section {
    let title = "Beyond document 000";
    let page = study.profile.page_size_bytes;
    let huge = study.environment().and_then(|e| e.thp_size_bytes);
    let huge = huge.or(study.profile.huge_page_bytes);
    let columns = vec![
        Column::text("Variant"),
        Column::unit("The fork call", "ns"),
        Column::unit("A cycle", "ns"),
        Column::unit("Writes", "ns_per_page"),
        Column::number("Faults a fork"),
    ];
    let table = |id: &str, heap: u64| {
        let caption = format!(
            "Variants with a heap of {}: medians over the rounds with 95% intervals",
            size(heap)
        );
        Table::new(id, caption, columns.clone())
    };
    let mut tables = [table(TABLE, HEAP_BYTES), table("variants-huge", HUGE_HEAP_BYTES)];
    let mut left_out = Vec::new();
    for variant in &VARIANTS {
        let page = if variant.huge { huge.unwrap_or(0) } else { page };
        let found = measured(study, variant.heap_bytes, variant.fraction, page, variant.departs);
        if found.fork_ns.is_none() && found.cycle_ns.is_none() {
            left_out.push(variant);
            continue;
        }
        let writes = if variant.fraction > 0.0 { "was not measured" } else { "nothing is written" };
        tables[usize::from(variant.heap_bytes == HUGE_HEAP_BYTES)].push(vec![
            Cell::text(variant.described()),
            cells::estimate(found.fork_ns, "ns", "was not measured"),
            cells::estimate(found.cycle_ns, "ns", "was not measured"),
            cells::estimate(found.write_ns_per_page, "ns_per_page", writes),
            cells::estimate(found.faults_per_fork, "", "was not measured"),
        ]);
    }
    let mut blocks = vec![Block::Text(
        "The same program with one thing changed at a time. A cycle is a fork, the writes, the \
         child's end and the wait for it; a fault is counted each time that the kernel had to step \
         in for a page."
            .into(),
    )];
    if tables.iter().all(|table| table.rows.is_empty()) {
        let needs = "the sweep's samples (bench fork-sweep)";
        blocks.push(not_available(study, "The variants", &["fork-sweep"], needs));
        return Section::new("beyond", title, blocks);
    }
    blocks.extend(tables.into_iter().filter(|t| !t.rows.is_empty()).map(Block::Table));
    blocks.extend(untouched(study).map(Block::Text));
    blocks.extend(left_out.iter().map(|variant| {
        let needs = if variant.huge {
            "huge pages, and memory for them"
        } else if variant.departs.iter().any(|(key, _)| *key == "threads") {
            "a second CPU"
        } else {
            "memory, or time, that this run did not have"
        };
        not_available(study, variant.name, &[], needs)
    }));
    Section::new("beyond", title, blocks)
}

/// Fork calls of a heap that was filled, of one only asked for, and without one.
pub(super) fn untouched_forks(study: &Study) -> Option<[Estimate; 3]> {
    let page = study.profile.page_size_bytes;
    let fork = |heap, departs: &[(&str, &str)]| measured(study, heap, 0.0, page, departs).fork_ns;
    Some([fork(HEAP_BYTES, &[])?, fork(HEAP_BYTES, &[("populated", "false")])?, fork(0, &[])?])
}

fn untouched(study: &Study) -> Option<String> {
    let [filled, asked_for, none] = untouched_forks(study)?;
    Some(format!(
        "Memory that was asked for but never touched: fork took {} with {} of it, {} without any, \
         and {} once it had been written ({} times as long). Document 004 found the same.",
        cells::words(asked_for, "ns"),
        size(HEAP_BYTES),
        cells::words(none, "ns"),
        cells::words(filled, "ns"),
        fmt::number(filled.value / asked_for.value),
    ))
}
