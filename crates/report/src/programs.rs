// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real programs side by side: what they write after a fork, and what a remote fork of them would send.

use cowlab_analysis::application::{Subject, subjects};
use cowlab_analysis::samples::Samples;
use cowlab_schema::footprint::{self, Method};
use cowlab_schema::{Key, Metric, Text};
use cowlab_store::Run;

use crate::Rows;
use crate::cells;
use crate::document::{Block, Cell, Document, Section, Table};
use crate::papers::SMITH;

/// Rows of Smith & Maguire (1988) that stand beside ours, and their unit of counting.
const PUBLISHED: [(&str, &str, &str); 4] = [
    ("franz.all", "Franz Lisp, ABSTRIPS, VAX (1988)", "blocks"),
    ("emacs.after", "GNU Emacs, (hanoi 10), VAX (1988)", "bytes"),
    ("emacs.3b2", "the same, AT&T 3B2 (1988)", "bytes"),
    ("emacs.hp", "the same, HP 9000/350 (1988)", "bytes"),
];

struct Program<'a> {
    name: &'a str,
    samples: Samples<'a>,
    /// By the method that sees writes, and by the one that compares bytes.
    seen: Option<Subject>,
    compared: Option<Subject>,
}

impl<'a> Program<'a> {
    fn of((name, samples): (&'a str, Samples<'a>)) -> Program<'a> {
        let all = subjects(&samples);
        let seen = all.iter().find(|of| of.method != Method::Snapshot).or(all.first()).cloned();
        // By the same writer, where the comparison tells writers apart.
        let mut compared = all.iter().filter(|of| of.method == Method::Snapshot);
        let same = |of: &&Subject| seen.as_ref().is_some_and(|seen| seen.writer == of.writer);
        let compared = compared.clone().find(same).or_else(|| compared.next()).cloned();
        Program { name, samples, seen, compared }
    }

    fn figure(&self, of: &Option<Subject>, metric: Metric) -> Option<f64> {
        of.as_ref()?.total(&self.samples, metric)
    }

    fn seen(&self, metric: Metric) -> Cell {
        cells::counted(self.figure(&self.seen, metric), metric.unit, NOT_SEEN)
    }

    fn compared(&self, metric: Metric) -> Cell {
        cells::counted(self.figure(&self.compared, metric), metric.unit, NOT_COMPARED)
    }

    fn text(&self, key: Key<Text>) -> &str {
        self.samples.words(key).first().copied().unwrap_or_default()
    }
}

/// The section of footprints; `None` of a run without named ones.
pub fn section(run: &Run) -> Option<Section> {
    let named = Samples::of(&run.samples, footprint::BENCH).by(footprint::NAME);
    let programs: Vec<Program> = named.into_iter().map(Program::of).collect();
    programs.first()?;
    let mut blocks = vec![Block::Text(
        "Each program between two moments. Mapped are its private pages at the second moment, \
         written are those of them that were written since the first, new ones included: Smith & \
         Maguire's fraction. Copied are the pages that the fork shared and that were written. \
         Changed are the pages, 512-byte pages and bytes that differ between the moments when \
         their bytes are compared: the ground truth for pages, less what was written as it was."
            .into(),
    )];
    blocks.push(Block::Table(fractions(&programs)));
    blocks.push(Block::Table(remote(&programs)));
    blocks.push(Block::Table(commands(&programs)));
    blocks.extend(notes(run));
    Some(Section::new("programs", "What real programs write", blocks))
}

/// What could not be measured, and why.
pub(crate) fn notes(run: &Run) -> Vec<Block> {
    let note = |missing: &cowlab_store::Missing| {
        Block::Note(format!("{}: not available: {}", missing.metric, missing.reason))
    };
    run.info.missing.iter().map(note).collect()
}

const NOT_COMPARED: &str = "its bytes were not compared (method snapshot)";
const NOT_SEEN: &str = "it was not seen";

fn fractions(programs: &[Program]) -> Table {
    let mut table = Rows::of("programs", "Write fractions of real programs", programs)
        .text("program", |of| of.name)
        .figure("times", |of| of.seen(footprint::SPANS))
        .unit("mapped", "pages", |of| of.seen(footprint::PAGES_MAPPED))
        .unit("written", "pages", |of| of.seen(footprint::PAGES_WRITTEN))
        .unit("fraction, page-wise", "fraction", |of| of.seen(footprint::WRITE_FRACTION))
        .unit("copied", "pages", |of| of.seen(footprint::COW_PAGES))
        .unit("changed, by comparison", "pages", |of| of.compared(footprint::PAGES_WRITTEN))
        .unit("changed of 512-byte pages", "fraction", |of| {
            of.compared(footprint::BLOCK_WRITE_FRACTION)
        })
        .unit("changed of bytes", "fraction", |of| of.compared(footprint::BYTE_WRITE_FRACTION))
        .text("method, writer", |of| {
            let how = of.seen.as_ref().map(|seen| format!("{}, {}", seen.method, seen.writer));
            how.unwrap_or_default()
        })
        .table();
    for (id, name, counted) in PUBLISHED {
        let printed = |metric, unit| cells::counted(SMITH.value(id, metric), unit, "not printed");
        let absent = || Cell::Missing("not printed".to_owned());
        let fraction =
            |of| if of == counted { printed("write_fraction", "fraction") } else { absent() };
        let mut row = vec![Cell::text(name), Cell::count(1)];
        row.extend([printed("dump_pages", "pages"), printed("changed_pages", "pages")]);
        row.extend([absent(), absent(), absent(), fraction("blocks"), fraction("bytes")]);
        row.push(Cell::text("comparison of dumps; pages of 512 bytes"));
        table.push(row);
    }
    table
}

/// What a remote fork would send (Smith & Maguire 1988, section 1.2).
fn remote(programs: &[Program]) -> Table {
    Rows::of("remote-fork", "Bytes that a remote fork would send", programs)
        .text("program", |of| of.name)
        .figure("whole", |of| of.seen(footprint::REMOTE_WHOLE_BYTES))
        .figure("written pages", |of| of.seen(footprint::REMOTE_PAGES_BYTES))
        .number("of the whole", "fraction", NOT_SEEN, |of| {
            let figure = |metric| of.figure(&of.seen, metric);
            let whole = figure(footprint::REMOTE_WHOLE_BYTES)?;
            Some(figure(footprint::REMOTE_PAGES_BYTES)? / whole.max(1.0))
        })
        .figure("changed bytes alone", |of| of.compared(footprint::REMOTE_CHANGED_BYTES))
        .table()
}

fn commands(programs: &[Program]) -> Table {
    Rows::of("program-commands", "How each row is made, in examples/footprints", programs)
        .text("program", |of| of.name)
        .text("what", |of| of.text(footprint::WHAT).to_owned())
        .text("command", |of| format!("`{}`", of.text(footprint::COMMAND)))
        .table()
}

/// The report of a run that has nothing else.
pub fn document(run: &Run) -> Option<Document> {
    Some(crate::emulated::beside_published(run, "Real programs", vec![section(run)?]))
}
