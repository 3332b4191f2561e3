// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CCoW's microbenchmark: every configuration of a workload beside plain copy-on-write and
//! beside the same writes without a fork, and what the document says of it.

mod plots;
mod published;
mod tables;
#[cfg(test)]
mod tests;
mod workload;

use cowlab_analysis::samples::Samples;
use cowlab_schema::snapshot::BENCH;
use cowlab_store::Run;
use workload::Workload;

use crate::document::{Block, Section};

pub const SECTION: &str = "snapshot";

const TITLE: &str = "A store that takes snapshots (CCoW's microbenchmark)";

/// The section; `None` of a run without this benchmark.
pub fn section(run: &Run) -> Option<Section> {
    let workloads = Workload::all(&Samples::of(&run.samples, BENCH));
    if workloads.is_empty() {
        return None;
    }
    let mut blocks = vec![Block::Text(
        "A space is written in blocks that Zipf's law chooses, and forked again and again; each child \
         stays idle for two intervals. Lost is what forks take from the throughput of the same \
         writes without any; won back is the part of it that a configuration saves. Windows are \
         measured from the return of each fork."
            .into(),
    )];
    for (number, workload) in workloads.iter().enumerate() {
        blocks.extend(tables::all(workload, number).map(Block::Table));
        blocks.extend(plots::all(workload, number).map(Block::Plot));
    }
    blocks.push(Block::Table(published::table(&workloads)));
    Some(Section::new(SECTION, TITLE, blocks))
}
