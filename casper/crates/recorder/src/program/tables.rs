// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a CASPER trace says, as a document.

mod account;
mod events;
mod functions;
mod inside;
mod pairs;
mod plots;
mod summary;
#[cfg(test)]
mod tests;
mod words;

pub use summary::summary;

use cowlab_casper::profile::Profile;

use cowlab_document::{Block, Document, Section};

/// Whose events a table counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Group {
    #[default]
    All,
    Process,
    Thread,
}

/// By what functions are put in order, the greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Time in the function alone.
    #[default]
    Own,
    /// Time in it and in what it called.
    Inclusive,
    Calls,
    Mean,
    /// The 99th percentile.
    P99,
    Max,
    Name,
}

/// What of a profile is shown, and how.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Only functions whose name fits; `*` is any text, `?` any character.
    pub function: Option<String>,
    /// How they are put in order.
    pub order: Order,
    /// Rows of a table at most; 0: all.
    pub limit: usize,
    pub group: Group,
    /// Name of the pair that is the whole of which the other pairs are sections.
    pub total: Option<String>,
    pub plots: bool,
}

impl View {
    fn rows(&self) -> usize {
        if self.limit == 0 { usize::MAX } else { self.limit }
    }
}

pub fn document(
    title: &str,
    facts: Vec<(String, String)>,
    profile: &Profile,
    view: &View,
) -> Document {
    let mut document = Document::new(title, "What CASPER recorded.");
    document.facts = facts;
    let mut push = |id: &str, title: &str, blocks: Vec<Block>| {
        if !blocks.is_empty() {
            document.sections.push(Section::new(id, title, blocks));
        }
    };
    push("missing", "Is it all there?", account::blocks(profile));
    push("functions", "Functions", functions::blocks(profile, view));
    push("inside", "Inside the functions", inside::blocks(profile, view));
    push("pairs", "Time between events", pairs::blocks(profile, view));
    push("field", "Values", events::field(profile, view));
    push("events", "Events", events::blocks(profile, view));
    if view.plots {
        push("plots", "Plots", plots::blocks(profile, view));
    }
    document
}
