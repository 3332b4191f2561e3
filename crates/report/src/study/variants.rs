// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Smith and Maguire's program with one thing changed at a time, each beside the plain one.

use cowlab_analysis::study::Study;
use cowlab_analysis::study::variants::{
    HEAP_BYTES, HUGE_HEAP_BYTES, Measured, Variant, measured, variants,
};

use crate::Rows;
use crate::cells::{self, MISSING};
use crate::document::{Block, Section};
use crate::fmt::size;
use crate::study::not_available;

pub(super) const TABLE: &str = "variants";

fn described(variant: &Variant) -> String {
    match variant.why {
        "" => variant.name.to_owned(),
        why => format!("{}: {why}", variant.name),
    }
}

pub(super) fn section(study: &Study) -> Section {
    let title = "Beyond Smith & Maguire (1988)";
    let page = study.profile.page_size_bytes;
    let huge = study.environment().and_then(|e| e.thp_size_bytes);
    let huge = huge.or(study.profile.huge_page_bytes);
    let all = variants(page, huge.unwrap_or(0)).into_iter();
    let all = all.map(|variant| (measured(study, &variant.cell), variant));
    let (found, left_out): (Vec<_>, Vec<_>) =
        all.partition(|(found, _)| found.fork_ns.or(found.cycle_ns).is_some());
    let mut blocks = vec![Block::Text(
        "The same program with one thing changed at a time. A cycle is a fork, the writes, the \
         child's end and the wait for it; a fault is counted each time that the kernel had to step \
         in for a page."
            .into(),
    )];
    if found.is_empty() {
        let needs = "the sweep's samples (bench fork-sweep)";
        blocks.push(not_available(study, "The variants", &["fork-sweep"], needs));
        return Section::new("beyond", title, blocks);
    }
    for (id, heap) in [(TABLE, HEAP_BYTES), ("variants-huge", HUGE_HEAP_BYTES)] {
        let own = found.iter().filter(|(_, variant)| variant.cell.heap_bytes == heap);
        blocks.extend(table(id, heap, &own.collect::<Vec<_>>()));
    }
    blocks.extend(left_out.iter().map(|(_, variant)| {
        let needs = if variant.cell.page_size_bytes != page {
            "huge pages, and memory for them"
        } else if variant.cell.threads > 0 {
            "a second CPU"
        } else {
            "memory, or time, that this run did not have"
        };
        not_available(study, variant.name, &[], needs)
    }));
    Section::new("beyond", title, blocks)
}

fn table(id: &str, heap: u64, all: &[&(Measured, Variant)]) -> Option<Block> {
    let caption = format!(
        "Variants with a heap of {}: medians over the rounds with 95% intervals",
        size(heap)
    );
    let table = Rows::of(id, caption, all)
        .text("Variant", |(_, variant)| described(variant))
        .estimate("The fork call", "ns", MISSING, |(found, _)| found.fork_ns)
        .estimate("A cycle", "ns", MISSING, |(found, _)| found.cycle_ns)
        .unit("Writes", "ns_per_page", |(found, variant)| {
            let none = variant.cell.write_fraction == 0.0;
            let missing = if none { "nothing is written" } else { MISSING };
            cells::estimate(found.write_ns_per_page, "ns_per_page", missing)
        })
        .figure("Faults a fork", |(found, _)| cells::estimate(found.faults_per_fork, "", MISSING));
    (!all.is_empty()).then(|| Block::Table(table.table()))
}
