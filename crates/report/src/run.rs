// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The report of a run that is not a study's.

use cowlab_store::Run;

use crate::document::{Block, Document, Section};
use crate::emulated::beside_published;
use crate::{next_page, redis, snapshot};

/// The title where both of CCoW's benchmarks were measured.
const CCOW: &str = "Coverage-based copy-on-write: CCoW (2022) whole";

/// The report of a run of one of the benchmarks that have their own; `None` of any other.
pub fn of_bench(run: &Run) -> Option<Document> {
    let sections: Vec<Section> =
        [snapshot::section(run), redis::section(run)].into_iter().flatten().collect();
    let title = match &sections[..] {
        [] => return None,
        [one] => one.title.clone(),
        _ => CCOW.to_owned(),
    };
    let mut document = beside_published(run, &title, sections);
    if let Some(first) = document.sections.first_mut() {
        first.blocks.extend(run.info.missing.iter().map(|missing| {
            Block::Note(format!("{}: not available: {}", missing.metric, missing.reason))
        }));
    }
    // Its parts have labels of their own.
    document.sections.extend(next_page::section(run));
    Some(document)
}
