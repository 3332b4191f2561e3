// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The application profile: what programs mapped and wrote between two moments.

mod map;
mod tables;
#[cfg(test)]
mod tests;

use cowlab_analysis::picked::Picked;
use cowlab_store::{Params, Run};

use crate::document::{Block, Document, Section};

/// Anchor of the section.
pub const SECTION: &str = "footprint";

const BENCH: &str = "footprint";
const TITLE: &str = "What programs write after a fork (document 000, section 4)";

/// One row of the profile: a program, between which moments, by whom, how it was seen.
struct Row<'a> {
    params: Params,
    samples: Picked<'a>,
}

impl<'a> Row<'a> {
    fn param(&self, key: &str) -> &str {
        self.params.get(key).map_or("", String::as_str)
    }

    /// A figure that there is one of.
    fn value(&self, metric: &str) -> Option<f64> {
        self.samples.values(metric).first().copied()
    }

    fn pages(&self) -> f64 {
        let of = |metric| self.value(metric).unwrap_or(0.0);
        of("pages_mapped").max(of("start_pages"))
    }

    /// `redis-server, fork-to-exit, child`.
    fn name(&self) -> String {
        let (program, span) = (self.param("program"), self.param("span"));
        match self.param("writer") {
            "own" => format!("{program}, {span}"),
            writer => format!("{program}, {span}, {writer}"),
        }
    }
}

/// The rows of a run, the largest first.
fn rows<'a>(samples: &Picked<'a>) -> Vec<Row<'a>> {
    let groups = samples.with("mapping", "all").by_params(&[]);
    let row = |(params, samples)| Row { params, samples };
    let mut rows: Vec<Row> = groups.into_iter().map(row).collect();
    rows.sort_by(|one, two| two.pages().total_cmp(&one.pages()));
    rows
}

/// The section; `None` of a run without this benchmark.
pub fn section(run: &Run) -> Option<Section> {
    let samples = Picked::of(&run.samples, BENCH);
    let rows = rows(&samples);
    rows.first()?;
    let mut blocks = vec![Block::Text(
        "Mapped are the private pages at the second of two moments; written are those of them that \
         changed since the first, new ones included: document 000's fraction. Of a fork, copied are \
         the pages that it shared and one side wrote, which is what copy-on-write costs."
            .into(),
    )];
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

/// The report of a run that has nothing else.
pub fn document(run: &Run) -> Option<Document> {
    let section = section(run)?;
    let mut document = crate::run::beside_published(run, "Application profile", vec![section]);
    document.subtitle = "What was mapped and written between two moments.".into();
    Some(document)
}
