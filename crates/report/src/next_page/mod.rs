// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The next-page study's kernel: its pre-copy beside what it published, counts before times, the
//! depths beyond it, and what the patches cost while they are switched off.

mod cases;
mod commands;
mod counts;
mod depth;
mod instructions;
mod published;

use cases::Measured;
use cowlab_store::{Accelerator, Run};
use serde_json::{Value, json};

use crate::document::{Block, Document, Section};
use crate::emulated;

pub const SECTION: &str = "pre-copy";

const TITLE: &str = "Copying ahead of a write (next-page study, patched kernel)";

/// The section; `None` of a run that measured no policy and counted no instructions.
pub fn section(run: &Run) -> Option<Section> {
    let mut blocks = vec![Block::Text(
        "The next-page study copies the page that follows a written one in the same fault, so that \
         its own write finds it copied. `off` copies the written page alone, `next` one neighbour, \
         `next:N` up to N of them in one batch. Counts come first: they are exact wherever they \
         are made. Times stand below them, labelled with what executed them."
            .into(),
    )];
    let intro = blocks.len();
    if let Some(measured) = Measured::of(run) {
        let mut own = counts::blocks(&measured);
        own.push(Block::Table(published::table(&measured)));
        own.extend(depth::blocks(&measured));
        label_times(&mut own, measured.accelerator());
        blocks.extend(own);
    }
    blocks.extend(instructions::blocks(run));
    blocks.extend(commands::blocks(run));
    (blocks.len() > intro).then(|| Section::new(SECTION, TITLE, blocks))
}

/// Counts are exact under TCG as well, and still say where they were made.
fn label_times(blocks: &mut [Block], accelerator: Accelerator) {
    emulated::label_blocks(blocks, emulated::label(accelerator));
}

/// The report of a run that has nothing else.
pub fn document(run: &Run) -> Option<Document> {
    let section = section(run)?;
    let title = "Copying ahead of a write: the next-page study on this machine's guest";
    let mut document = Document::new(title, "Published figures beside measured ones.");
    document.facts = crate::facts::headline_facts(&run.info);
    let environments = run.info.environments.iter();
    document.facts.extend(environments.map(|e| {
        let how = crate::facts::executed(e.accelerator);
        let variant = e.build.as_ref().map_or("not cowlab's", |build| build.variant.as_str());
        (format!("Linux {}", e.kernel), format!("{variant}, {how}"))
    }));
    document.sections = vec![section];
    Some(document)
}

pub fn summary(run: &Run) -> Value {
    json!({ "findings": section(run).map_or_else(Vec::new, |section| section.findings()) })
}
