// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the time of a copy-on-write fault goes.

use cowlab_analysis::study::Study;
use cowlab_model::Estimate;

use crate::Rows;
use crate::cells;
use crate::document::{Axis, Block, Cell, Plot, Series};
use crate::papers::COW_STUDY;
use crate::study::not_available;

pub(super) const PLOT: &str = "fault-parts";

/// The parts: name, short name, and as they are in the profile.
const PARTS: [(&str, &str, &str); 4] = [
    ("copy of the page", "copy", "copy_ns_per_page"),
    ("trap: into the kernel and back", "trap", "trap_ns"),
    ("the rest: allocation, accounting, mapping", "the rest", "fault_rest_ns"),
    ("on top with a running thread: flush of the other CPU's TLB", "flush", "remote_flush_ns"),
];

pub(super) fn blocks(study: &Study) -> Vec<Block> {
    let profile = &study.profile;
    let measured: Vec<_> =
        PARTS.iter().filter_map(|part| Some((part, profile.costs.get(part.2)?.estimate))).collect();
    let Some(fault) = profile.cost("cow_fault_ns").filter(|_| !measured.is_empty()) else {
        let needs = "the calibration's trap, copy and rest of a fault";
        return vec![not_available(study, "Where a fault's time goes", &["trap"], needs)];
    };
    let published = |quantity: &str| COW_STUDY.value("breakdown", quantity);
    let together = profile.cost("trap_ns").zip(profile.cost("fault_rest_ns")).map(|(a, b)| a + b);
    const TOGETHER: &str = "trap and rest";
    // The sum of two medians has no interval of its own.
    let together = together.map(|ns| Estimate { value: ns, low: ns, high: ns, count: 1 });
    let here = measured.iter().map(|(part, e)| (part.1.to_owned(), *e));
    let here = here.chain(together.map(|sum| (TOGETHER.to_owned(), sum)));
    let (here, figures): (Vec<String>, Vec<Estimate>) = here.unzip();
    let there = [("copy", published("copy_ns")), (TOGETHER, published("rest_ns"))];
    let there = there.into_iter().filter_map(|(label, ns)| Some((label.to_owned(), ns?)));
    let (there, printed) = there.unzip();
    let plot = Plot::new(
        PLOT,
        "Where the time of a copy-on-write fault goes",
        Axis::linear("", ""),
        Axis::linear("Time", "ns"),
    )
    .caption(
        "Measured from user space: the trap is what faults cost beyond the same copies made by one \
         `madvise` call without faults, the copy is a page-wise memcpy, and the rest is what \
         remains. The flush comes on top while another thread of the process runs.",
    )
    .with(Series::bars("this machine", here, Vec::new()).measured(&figures))
    .with(Series::bars("next-page study", there, printed));
    let own = |quantity: &str| (published(quantity), "not published by itself");
    let mut rows: Vec<_> = measured
        .into_iter()
        .map(|((name, _, key), e)| {
            let there = match *key {
                "copy_ns_per_page" => [own("copy_ns"), own("copy_share_ratio")],
                _ => [(None, "not published by itself"); 2],
            };
            (*name, e, there)
        })
        .collect();
    let there = [own("rest_ns"), own("rest_share_ratio")];
    rows.extend(together.map(|sum| ("trap and the rest together", sum, there)));
    let caption = "The parts beside the next-page study, which measured the copy and took the rest";
    let table = Rows::of("fault-parts-table", caption, &rows)
        .text("Part", |(name, ..)| *name)
        .estimate("Time", "ns", "", |(_, e, _)| Some(*e))
        .unit("Of a fault", "fraction", |(_, e, _)| Cell::number(e.value / fault, "fraction"))
        .unit("Next-page study", "ns", |(.., [(ns, none), _])| cells::number(*ns, "ns", none))
        .unit("of a fault, as published", "fraction", |(.., [_, (share, none)])| {
            cells::number(*share, "fraction", none)
        })
        .table();
    vec![Block::Plot(plot), Block::Table(table)]
}
