// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the results of a study to the document that people read.

mod check;
mod curves;
mod faults;
mod findings;
mod machine;
mod method;
mod shares;
mod small_sample;
mod stop_chart;
mod summary;
mod surface;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod variants;

use cowlab_analysis::study::Study;
use cowlab_model::cost::Question;
use cowlab_model::profile::Writer;

use crate::document::{Block, Document};
use crate::{emulated, facts, next_page};

pub use summary::summary;

/// `not available: …`, with the run's own reason where it names one of `words`.
fn not_available(study: &Study, what: &str, words: &[&str], needs: &str) -> Block {
    let recorded = study.run.info.missing.iter().find(|missing| {
        words.iter().any(|word| missing.metric.contains(word) || missing.reason.contains(word))
    });
    let reason = recorded.map_or_else(|| format!("needs {needs}"), |m| m.reason.clone());
    Block::Note(format!("{what}: not available: {reason}."))
}

/// A fork of so many base pages, of which so many were written since the last one.
fn question(study: &Study, pages: u64, written_before: u64, writer: Writer) -> Question {
    Question {
        pages,
        written: 0,
        written_before,
        writer,
        threads: 0.0,
        page_size_bytes: study.profile.page_size_bytes,
        split_pages: None,
        among_work: false,
        cpu_ns_per_copy: None,
        nearby_share: None,
        vmas: None,
    }
}

/// The report of a study, its findings first.
pub fn document(study: &Study) -> Document {
    let info = &study.run.info;
    let mut document = Document::new(
        "What fork and copy-on-write cost on this machine",
        "Measured on its own kernel, beside what was published in 1988, 2010, 2024 and 2025.",
    );
    document.facts = facts::headline_facts(info);
    document.sections = vec![
        findings::section(study),
        machine::section(study),
        sweep::section(study),
        variants::section(study),
        table::section(study),
        faults::section(study),
        check::section(study),
        method::section(study),
    ];
    // Each of its parts has a label of its own.
    let guests = next_page::section(study.run);
    if let Some(environment) = study.environment() {
        emulated::label_document(&mut document, emulated::label(environment.accelerator));
    }
    let after_faults = document.sections.iter().position(|section| section.id == "model");
    if let (Some(section), Some(at)) = (guests, after_faults) {
        document.sections.insert(at, section);
    }
    document
}
