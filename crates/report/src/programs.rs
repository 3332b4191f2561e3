// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real programs side by side: what they write after a fork, what a remote fork of them would send,
//! and what their forks cost beside what was predicted.

use cowlab_analysis::application::{SNAPSHOT, Subject, subjects};
use cowlab_analysis::names::FORECAST;
use cowlab_analysis::picked::Picked;
use cowlab_store::{Named, Run, Sample};

use crate::cells;
use crate::document::{Block, Cell, Document, Section, Table};
use crate::papers::SMITH;
use crate::rows::Rows;

/// The parameter that names a row.
const NAME: &str = "name";

/// Rows of document 000 that stand beside ours, and their unit of counting.
const PUBLISHED: [(&str, &str, &str); 4] = [
    ("franz.all", "Franz Lisp, ABSTRIPS, VAX (1988)", "blocks"),
    ("emacs.after", "GNU Emacs, (hanoi 10), VAX (1988)", "bytes"),
    ("emacs.3b2", "the same, AT&T 3B2 (1988)", "bytes"),
    ("emacs.hp", "the same, HP 9000/350 (1988)", "bytes"),
];

/// A program's samples.
struct Program<'a> {
    name: &'a str,
    samples: Vec<Sample>,
    /// By the method that sees writes, and by the one that compares bytes.
    seen: Option<Subject>,
    compared: Option<Subject>,
}

impl Program<'_> {
    fn figure(&self, of: &Option<Subject>, metric: &str) -> Option<f64> {
        of.as_ref()?.total(&self.samples, metric)
    }

    fn text(&self, param: &str) -> &str {
        self.samples.iter().find_map(|s| s.params.get(param)).map_or("", String::as_str)
    }
}

fn has(sample: &Sample, param: &str, value: &str) -> bool {
    sample.params.get(param).is_some_and(|of| of == value)
}

fn names<'a>(run: &'a Run, bench: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for sample in run.samples.iter().filter(|s| s.bench == bench) {
        if let Some(name) = sample.params.get(NAME)
            && !names.contains(&name.as_str())
        {
            names.push(name);
        }
    }
    names
}

fn program<'a>(run: &Run, name: &'a str) -> Program<'a> {
    let its = run.samples.iter().filter(|s| has(s, NAME, name));
    let samples: Vec<Sample> = its.cloned().collect();
    let all = subjects(&samples);
    let seen = all.iter().find(|of| of.method != SNAPSHOT).or(all.first()).cloned();
    // By the same writer, where the comparison tells writers apart.
    let mut compared = all.iter().filter(|of| of.method == SNAPSHOT);
    let same = |of: &&Subject| seen.as_ref().is_some_and(|seen| seen.writer == of.writer);
    let compared = compared.clone().find(same).or_else(|| compared.next()).cloned();
    Program { name, samples, seen, compared }
}

/// The section of footprints; `None` of a run without named ones.
pub fn section(run: &Run) -> Option<Section> {
    let programs: Vec<Program> =
        names(run, "footprint").into_iter().map(|name| program(run, name)).collect();
    programs.first()?;
    let mut blocks = vec![Block::Text(
        "Each program between two moments. Mapped are its private pages at the second moment, \
         written are those of them that were written since the first, new ones included: document \
         000's fraction. Copied are the pages that the fork shared and that were written. Changed \
         are the pages, 512-byte pages and bytes that differ between the moments when their bytes \
         are compared: the ground truth for pages, less what was written as it was."
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

/// A figure, exact where it counts pages.
fn cell(value: Option<f64>, unit: &str, missing: &str) -> Cell {
    match value {
        Some(value) if unit == "pages" => Cell::count(value.round() as u64),
        value => cells::number(value, unit, missing),
    }
}

const NOT_COMPARED: &str = "its bytes were not compared (method snapshot)";
const NOT_SEEN: &str = "it was not seen";

fn fractions(programs: &[Program]) -> Table {
    let seen = |unit: &'static str, metric: &'static str| {
        move |of: &Program| cell(of.figure(&of.seen, metric), unit, NOT_SEEN)
    };
    let compared = |unit: &'static str, metric: &'static str| {
        move |of: &Program| cell(of.figure(&of.compared, metric), unit, NOT_COMPARED)
    };
    let mut table = Rows::of("programs", "Write fractions of real programs", programs)
        .text("program", |of| of.name)
        .figure("times", seen("pages", "spans"))
        .unit("mapped", "pages", seen("pages", "pages_mapped"))
        .unit("written", "pages", seen("pages", "pages_written"))
        .unit("fraction, page-wise", "fraction", seen("fraction", "write_fraction"))
        .unit("copied", "pages", seen("pages", "cow_pages"))
        .unit("changed, by comparison", "pages", compared("pages", "pages_written"))
        .unit("changed of 512-byte pages", "fraction", compared("fraction", "block_write_fraction"))
        .unit("changed of bytes", "fraction", compared("fraction", "byte_write_fraction"))
        .text("method, writer", |of| {
            let how = of.seen.as_ref().map(|seen| format!("{}, {}", seen.method, seen.writer));
            how.unwrap_or_default()
        })
        .table();
    for (id, name, counted) in PUBLISHED {
        let printed = |metric, unit| cell(SMITH.value(id, metric), unit, "not printed");
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

/// What a remote fork would send (document 000, section 1.2).
fn remote(programs: &[Program]) -> Table {
    let bytes = |of: &Option<Subject>, program: &Program, metric: &str, missing: &str| {
        cell(program.figure(of, metric), "bytes", missing)
    };
    Rows::of("remote-fork", "Bytes that a remote fork would send", programs)
        .text("program", |of| of.name)
        .figure("whole", |of| bytes(&of.seen, of, "remote_whole_bytes", NOT_SEEN))
        .figure("written pages", |of| bytes(&of.seen, of, "remote_pages_bytes", NOT_SEEN))
        .number("of the whole", "fraction", NOT_SEEN, |of| {
            let figure = |metric| of.figure(&of.seen, metric);
            Some(figure("remote_pages_bytes")? / figure("remote_whole_bytes")?.max(1.0))
        })
        .figure("changed bytes alone", |of| {
            bytes(&of.compared, of, "remote_changed_bytes", NOT_COMPARED)
        })
        .table()
}

fn commands(programs: &[Program]) -> Table {
    Rows::of("program-commands", "How each row is made, in examples/footprints", programs)
        .text("program", |of| of.name)
        .text("what", |of| of.text("what").to_owned())
        .text("command", |of| format!("`{}`", of.text("command")))
        .table()
}

/// A program's forks: what was predicted of them, and what was measured.
struct Forecast<'a> {
    name: &'a str,
    samples: Picked<'a>,
    measured: Picked<'a>,
}

impl Forecast<'_> {
    /// What was said beforehand: `predicted`, or an end of its interval.
    fn said(&self, figure: &str, metric: &str) -> Option<f64> {
        self.samples.with("figure", figure).values(metric).first().copied()
    }

    fn predicted_time(&self, metric: &str) -> Cell {
        match ["predicted", "low", "high"].map(|figure| self.said(figure, metric)) {
            [Some(value), Some(low), Some(high)] => Cell::estimate(value, low, high, "ns"),
            _ => Cell::Missing(NOT_SEEN.to_owned()),
        }
    }

    fn measured(&self, metric: &str) -> Cell {
        cells::of_rounds(&self.measured, metric, metric.unit(), NOT_SEEN)
    }

    fn off(&self, metric: &str) -> Cell {
        match (self.said("predicted", metric), self.measured.estimate_of_rounds(metric)) {
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
    let names = names(run, FORECAST);
    names.first()?;
    let forecast = |name| {
        let samples = Picked::of(&run.samples, FORECAST).with(NAME, name);
        Forecast { name, measured: samples.with("figure", "measured"), samples }
    };
    let all: Vec<Forecast> = names.into_iter().map(forecast).collect();
    let faults = |value: Option<f64>| cell(value, "pages", NOT_SEEN);
    let caption =
        "What a fork adds to a program's work: predicted and measured (medians of the rounds)";
    let table = Rows::of("forecast", caption, &all)
        .text("program", |of| of.name)
        .figure("without a fork", |of| of.measured("alone_ns"))
        .figure("extra time, predicted", |of| of.predicted_time("extra_ns"))
        .figure("extra time, measured", |of| of.measured("extra_ns"))
        .unit("off by", "percent", |of| of.off("extra_ns"))
        .figure("extra memory, predicted", |of| {
            cell(of.said("predicted", "extra_bytes"), "bytes", NOT_SEEN)
        })
        .figure("extra memory, measured", |of| of.measured("extra_bytes"))
        .unit("off by", "percent", |of| of.off("extra_bytes"))
        .unit("faults, predicted", "faults", |of| faults(of.said("predicted", "extra_faults")))
        .unit("faults, measured", "faults", |of| {
            faults(of.measured.estimate_of_rounds("extra_faults").map(|e| e.value))
        })
        .table();
    let caption = "Of the extra time, the call of fork and the rest: the writes after it";
    let parts = Rows::of("forecast-parts", caption, &all)
        .text("program", |of| of.name)
        .figure("fork, predicted", |of| of.predicted_time("fork_ns"))
        .figure("fork, measured", |of| of.measured("fork_ns"))
        .unit("off by", "percent", |of| of.off("fork_ns"))
        .figure("writes, predicted", |of| of.predicted_time("write_ns"))
        .figure("writes, measured", |of| of.measured("write_ns"))
        .unit("off by", "percent", |of| of.off("write_ns"))
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
    let mut document = crate::run::beside_published(run, "Real programs", vec![sections.next()?]);
    document.sections.extend(sections);
    Some(document)
}
