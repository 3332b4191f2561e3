// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the samples of a study to the document that people read. Pure: no I/O.

mod beyond;
mod cells;
mod check;
mod compared;
mod configuration;
mod curves;
mod distribution;
mod explain;
mod faults;
mod findings;
pub mod footprint;
pub mod kernel;
mod lines;
mod machine;
mod method;
mod papers;
mod picked;
pub mod programs;
pub mod redis;
mod shares;
mod small_sample;
pub mod snapshot;
mod summary;
mod surface;
mod sweep;
mod table;
pub mod tend;
#[cfg(test)]
mod tests;

use cowlab_bench::points::Check;
use cowlab_model::profile::MachineProfile;
use cowlab_store::{Environment, Run};

use crate::document::{Block, Document, Section};
use crate::emulated;
use crate::fmt;
use lines::Sweep;
use picked::Picked;

pub use summary::summary;

/// The title where both of document 003's benchmarks were measured.
const CCOW: &str = "Coverage-based copy-on-write: document 003 whole";

/// The report of a run that is not a study's.
fn beside_published(run: &Run, title: &str, sections: Vec<Section>) -> Document {
    let mut document = Document::new(title, "Published figures beside measured ones.");
    document.facts = machine::headline_facts(&run.info);
    document.sections = sections;
    emulated::label_document(&mut document, emulated::label_of(&run.info.environments));
    document
}

/// A study: what was measured, and what it was condensed to.
#[derive(Debug, Clone, Copy)]
pub struct Study<'a> {
    /// Every sample, and how they were made.
    pub run: &'a Run,
    /// The calibration's result.
    pub profile: &'a MachineProfile,
    /// Predictions beside measurements, if any were made.
    pub check: Option<&'a Check>,
}

/// A study with what several sections need of it.
struct Analysis<'a> {
    study: Study<'a>,
    sweep: Sweep,
}

impl<'a> Analysis<'a> {
    fn of(study: &Study<'a>) -> Analysis<'a> {
        Analysis { study: *study, sweep: lines::sweep(study) }
    }

    fn profile(&self) -> &'a MachineProfile {
        self.study.profile
    }

    fn samples(&self, bench: &str) -> Picked<'a> {
        // What was measured in a guest is the kernel section's.
        Picked::of(&self.study.run.samples, bench).in_environment(0)
    }

    fn environment(&self) -> Option<&'a Environment> {
        self.study.run.info.environments.first()
    }

    /// `not available: …`, with the run's own reason where it names one of `words`.
    fn not_available(&self, what: &str, words: &[&str], needs: &str) -> Block {
        let recorded = self.study.run.info.missing.iter().find(|missing| {
            words.iter().any(|word| missing.metric.contains(word) || missing.reason.contains(word))
        });
        let reason = recorded.map_or_else(|| format!("needs {needs}"), |m| m.reason.clone());
        Block::Note(format!("{what}: not available: {reason}."))
    }
}

/// The report of a run of one of the benchmarks that have their own; `None` of any other.
pub fn of_bench(run: &Run) -> Option<Document> {
    let sections: Vec<Section> =
        [snapshot::section(run), redis::section(run)].into_iter().flatten().collect();
    let title = match &sections[..] {
        [] => return tend::document(run),
        [one] => one.title.clone(),
        _ => CCOW.to_owned(),
    };
    let mut document = beside_published(run, &title, sections);
    if let Some(first) = document.sections.first_mut() {
        first.blocks.extend(programs::notes(run));
    }
    // Its parts have labels of their own.
    document.sections.extend(kernel::section(run));
    Some(document)
}

/// The report of a study, its findings first.
pub fn document(study: &Study) -> Document {
    let analysis = Analysis::of(study);
    let info = &study.run.info;
    let mut document = Document::new(
        "What fork and copy-on-write cost on this machine",
        "Measured on its own kernel, beside what was published in 1988, 2010, 2024 and 2025.",
    );
    document.facts = machine::headline_facts(info);
    document.sections = vec![
        findings::section(&analysis),
        machine::section(&analysis),
        sweep::section(&analysis),
        beyond::section(&analysis),
        table::section(&analysis),
        faults::section(&analysis),
        check::section(&analysis),
        method::section(&analysis),
    ];
    // Each of its parts has a label of its own.
    let guests = kernel::section(study.run);
    if let Some(environment) = analysis.environment() {
        emulated::label_document(&mut document, emulated::label(environment.accelerator));
    }
    let after_faults = document.sections.iter().position(|section| section.id == "model");
    if let (Some(section), Some(at)) = (guests, after_faults) {
        document.sections.insert(at, section);
    }
    document
}

/// A number of bytes, short: `16 MiB`.
fn size(bytes: u64) -> String {
    fmt::tick(bytes as f64, "bytes")
}

/// A heap of document 000, in its decimal units: 316 MB is what it chose, not 302 MiB.
fn heap_size(bytes: u64) -> String {
    match bytes {
        0 => "none".to_owned(),
        1..1_000_000 => format!("{} kB", fmt::number(bytes as f64 / 1e3)),
        _ => format!("{} MB", fmt::number(bytes as f64 / 1e6)),
    }
}

/// A time.
fn time(ns: f64) -> String {
    fmt::quantity(ns, "ns")
}

/// A share.
fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.000_5 {
        return "less than 0.1%".to_owned();
    }
    fmt::quantity(share, "fraction")
}
