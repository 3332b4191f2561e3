// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real programs side by side: what they write after a fork, what a remote fork of them would send,
//! and what their forks cost beside what was predicted.

use cowlab_analysis::application::{Subject, subjects};
use cowlab_analysis::samples::Samples;
use cowlab_schema::footprint::{self, Method};
use cowlab_schema::{Figure, Key, Metric, Text, forecast};
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

/// A program's samples.
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

/// A program's forks: what was predicted of them, and what was measured.
struct Forecast<'a> {
    name: &'a str,
    samples: Samples<'a>,
    measured: Samples<'a>,
}

impl Forecast<'_> {
    /// What was said beforehand: `predicted`, or an end of its interval.
    fn said(&self, figure: Figure, metric: Metric) -> Option<f64> {
        self.samples.with(forecast::FIGURE, figure).first(metric)
    }

    fn predicted(&self, metric: Metric) -> Cell {
        let said = [Figure::Predicted, Figure::Low, Figure::High].map(|of| self.said(of, metric));
        match said {
            [Some(value), Some(low), Some(high)] => Cell::estimate(value, low, high, metric.unit),
            [value, ..] => cells::counted(value, metric.unit, NOT_SEEN),
        }
    }

    fn measured(&self, metric: Metric) -> Cell {
        cells::of_rounds(&self.measured, metric, NOT_SEEN)
    }

    fn off(&self, metric: Metric) -> Cell {
        let measured = self.measured.estimate_of_rounds(metric);
        match (self.said(Figure::Predicted, metric), measured) {
            (Some(predicted), Some(measured)) if measured.value != 0.0 => {
                let percent = (predicted / measured.value - 1.0) * 100.0;
                Cell::Number { value: percent, text: format!("{percent:+.1} %") }
            }
            _ => Cell::Missing(NOT_SEEN.to_owned()),
        }
    }
}

/// The section of forecasts; `None` of a run without any.
pub fn forecast_section(run: &Run) -> Option<Section> {
    let named = Samples::of(&run.samples, forecast::BENCH).by(forecast::NAME);
    let all: Vec<Forecast> = named
        .into_iter()
        .map(|(name, samples)| {
            let measured = samples.with(forecast::FIGURE, Figure::Measured);
            Forecast { name, samples, measured }
        })
        .collect();
    all.first()?;
    let caption =
        "What a fork adds to a program's work: predicted and measured (medians of the rounds)";
    let table = Rows::of("forecast", caption, &all)
        .text("program", |of| of.name)
        .figure("without a fork", |of| of.measured(forecast::ALONE_NS))
        .figure("extra time, predicted", |of| of.predicted(forecast::EXTRA_NS))
        .figure("extra time, measured", |of| of.measured(forecast::EXTRA_NS))
        .unit("off by", "percent", |of| of.off(forecast::EXTRA_NS))
        .figure("extra memory, predicted", |of| of.predicted(forecast::EXTRA_BYTES))
        .figure("extra memory, measured", |of| of.measured(forecast::EXTRA_BYTES))
        .unit("off by", "percent", |of| of.off(forecast::EXTRA_BYTES))
        .unit("faults, predicted", "faults", |of| of.predicted(forecast::EXTRA_FAULTS))
        .unit("faults, measured", "faults", |of| {
            let faults = of.measured.estimate_of_rounds(forecast::EXTRA_FAULTS);
            cells::counted(faults.map(|e| e.value), "faults", NOT_SEEN)
        })
        .table();
    let caption = "Of the extra time, the call of fork and the rest: the writes after it";
    let parts = Rows::of("forecast-parts", caption, &all)
        .text("program", |of| of.name)
        .figure("fork, predicted", |of| of.predicted(forecast::FORK_NS))
        .figure("fork, measured", |of| of.measured(forecast::FORK_NS))
        .unit("off by", "percent", |of| of.off(forecast::FORK_NS))
        .figure("writes, predicted", |of| of.predicted(forecast::WRITE_NS))
        .figure("writes, measured", |of| of.measured(forecast::WRITE_NS))
        .unit("off by", "percent", |of| of.off(forecast::WRITE_NS))
        .table();
    let text = "The same work is done without a fork and beside one, in turn; measured is the CPU \
                time of the process that works (the fork, the faults, and what cold caches cost it), \
                and the memory that only the child still has at the end, with its page tables. \
                Predicted is the program's footprint times the machine profile. The call of fork \
                is measured by the clock; the writes are what is left of the extra CPU time.";
    let mut blocks = vec![Block::Text(text.into()), Block::Table(table), Block::Table(parts)];
    blocks.extend(notes(run));
    Some(Section::new("forecast", "Predicted and measured cost of real forks", blocks))
}

/// The report of a run that has nothing else.
pub fn document(run: &Run) -> Option<Document> {
    let sections: Vec<Section> =
        [section(run), forecast_section(run)].into_iter().flatten().collect();
    let mut sections = sections.into_iter();
    let mut document =
        crate::emulated::beside_published(run, "Real programs", vec![sections.next()?]);
    document.sections.extend(sections);
    Some(document)
}
