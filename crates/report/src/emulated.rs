// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was emulated says so: in every table, plot and finding.

use cowlab_store::{Accelerator, Environment, Run};

use crate::document::{Block, Document, Section};
use crate::facts::headline_facts;

/// What stands before a caption that shows figures from this accelerator; empty for hardware's.
pub fn label(accelerator: Accelerator) -> &'static str {
    match accelerator {
        Accelerator::Native | Accelerator::Kvm => "",
        Accelerator::Tcg => "Emulated (TCG): ",
        Accelerator::Icount => "Counted (TCG, icount): ",
    }
}

/// The label of figures from several environments: the first that is not hardware's.
pub fn label_of(environments: &[Environment]) -> &'static str {
    environments.iter().map(|e| label(e.accelerator)).find(|l| !l.is_empty()).unwrap_or("")
}

/// Label every table, plot and finding.
pub fn label_document(document: &mut Document, label: &str) {
    document.title.insert_str(0, label);
    for section in &mut document.sections {
        label_blocks(&mut section.blocks, label);
    }
}

pub(crate) fn label_blocks(blocks: &mut [Block], label: &str) {
    for block in blocks {
        match block {
            Block::Table(table) => table.caption.insert_str(0, label),
            Block::Plot(plot) => plot.title.insert_str(0, label),
            Block::Drawing(drawing) => drawing.caption.insert_str(0, label),
            Block::Finding(finding) => finding.headline.insert_str(0, label),
            Block::Text(_) | Block::Note(_) => {}
        }
    }
}

/// A report of published figures beside those of a run, labelled.
pub(crate) fn beside_published(run: &Run, title: &str, sections: Vec<Section>) -> Document {
    let mut document = Document::new(title, "Published figures beside measured ones.");
    document.facts = headline_facts(&run.info);
    document.sections = sections;
    label_document(&mut document, label_of(&run.info.environments));
    document
}
