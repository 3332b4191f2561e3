// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The application profile: what programs mapped and wrote between two moments.

mod answer;
mod comparison;
mod map;
mod tables;
#[cfg(test)]
mod tests;

use cowlab_analysis::samples::Samples;
use cowlab_schema::footprint as names;
use cowlab_schema::{Key, Value};
use cowlab_store::{Params, Run};

pub use answer::answer;
pub use comparison::comparison;

use crate::document::{Block, Document, Section};

pub const SECTION: &str = "footprint";

const TITLE: &str = "What programs write after a fork (Smith & Maguire 1988, section 4)";

/// One row of the profile: a program, between which moments, by whom, how it was seen.
struct Row<'a> {
    params: Params,
    samples: Samples<'a>,
}

impl Row<'_> {
    fn param<T: Value>(&self, key: Key<T>) -> &str {
        self.params.get(key.name()).map_or("", String::as_str)
    }

    fn is_fork(&self) -> bool {
        names::SPAN.of(&self.params).is_some_and(names::Between::is_fork)
    }

    fn pages(&self) -> f64 {
        let of = |metric| self.samples.first(metric).unwrap_or(0.0);
        of(names::PAGES_MAPPED).max(of(names::START_PAGES))
    }

    /// `redis-server, fork-to-exit, child`.
    fn name(&self) -> String {
        let (program, span) = (self.param(names::PROGRAM), self.param(names::SPAN));
        match self.param(names::WRITER) {
            "own" => format!("{program}, {span}"),
            writer => format!("{program}, {span}, {writer}"),
        }
    }
}

/// Samples as rows, by their parameters.
fn rows<'a>(samples: &Samples<'a>) -> Vec<Row<'a>> {
    let groups = samples.by_params(&[]).into_iter();
    groups.map(|(params, samples)| Row { params, samples }).collect()
}

/// The section; `None` of a run without this benchmark.
pub fn section(run: &Run) -> Option<Section> {
    let samples = Samples::of(&run.samples, names::BENCH);
    let mut rows = rows(&samples.with(names::MAPPING, names::Mapping::All));
    rows.sort_by(|one, two| two.pages().total_cmp(&one.pages()));
    rows.first()?;
    let mut blocks: Vec<Block> = answer(run).map(Block::Text).into_iter().collect();
    blocks.push(Block::Text(
        "Mapped are the private pages at the second of two moments; written are those of them that \
         changed since the first, new ones included: Smith & Maguire's fraction. Of a fork, copied \
         are the pages that it shared and one side wrote, which is what copy-on-write costs."
            .into(),
    ));
    blocks.push(Block::Table(tables::fractions(&rows)));
    blocks.push(Block::Table(tables::mappings(&rows, &samples)));
    blocks.push(Block::Table(tables::remote(&rows)));
    blocks.extend(tables::policies(&samples).map(Block::Table));
    blocks.extend(map::plots(&rows, &samples).into_iter().map(Block::Plot));
    blocks.push(Block::Table(tables::cost(&samples)));
    for missing in &run.info.missing {
        blocks
            .push(Block::Note(format!("`{}`: not available: {}.", missing.metric, missing.reason)));
    }
    Some(Section::new(SECTION, TITLE, blocks))
}

/// One screen of it: the largest rows, of forks where there were some, and what makes them a lower bound.
pub fn screen(run: &Run) -> Option<Section> {
    let samples = Samples::of(&run.samples, names::BENCH);
    let mut rows = rows(&samples.with(names::MAPPING, names::Mapping::All));
    if rows.iter().any(Row::is_fork) {
        rows.retain(Row::is_fork);
    }
    rows.sort_by(|one, two| two.pages().total_cmp(&one.pages()));
    let mut blocks = vec![Block::Table(tables::largest(&rows))];
    // What a method never sees is no news about this run.
    let never = [names::BYTES_CHANGED.name, names::HIT_FRACTION.name];
    let missing = run.info.missing.iter().filter(|of| !never.contains(&of.metric.as_str()));
    blocks.extend(missing.map(|of| Block::Note(format!("`{}`: {}.", of.metric, of.reason))));
    (!rows.is_empty()).then(|| Section::new(SECTION, "", blocks))
}

/// The report of a run that has nothing else.
pub fn document(run: &Run) -> Option<Document> {
    let section = section(run)?;
    let mut document = crate::emulated::beside_published(run, "Application profile", vec![section]);
    document.subtitle = "What was mapped and written between two moments.".into();
    Some(document)
}
