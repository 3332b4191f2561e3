// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real programs side by side: what they write after a fork, what a remote fork of them would send,
//! and what their forks cost beside what was predicted.

use cowlab_analysis::application::{SNAPSHOT, Subject, subjects};
use cowlab_analysis::names::FORECAST;
use cowlab_store::{Run, Sample};

use super::cells;
use crate::document::{Block, Cell, Column, Document, Section, Table};
use crate::papers::SMITH;
use cowlab_analysis::picked::Picked;

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

fn cell(value: Option<f64>, unit: &str, missing: &str) -> Cell {
    match value {
        Some(value) if unit == "pages" => Cell::count(value.round() as u64),
        Some(value) => Cell::number(value, unit),
        None => Cell::Missing(missing.to_owned()),
    }
}

const NOT_COMPARED: &str = "its bytes were not compared (method snapshot)";
const NOT_SEEN: &str = "it was not seen";

fn fractions(programs: &[Program]) -> Table {
    let columns = vec![
        Column::text("program"),
        Column::number("times"),
        Column::unit("mapped", "pages"),
        Column::unit("written", "pages"),
        Column::unit("fraction, page-wise", "fraction"),
        Column::unit("copied", "pages"),
        Column::unit("changed, by comparison", "pages"),
        Column::unit("changed of 512-byte pages", "fraction"),
        Column::unit("changed of bytes", "fraction"),
        Column::text("method, writer"),
    ];
    let mut table = Table::new("programs", "Write fractions of real programs", columns);
    for of in programs {
        let seen = |metric, unit| cell(of.figure(&of.seen, metric), unit, NOT_SEEN);
        let compared = |metric, unit| cell(of.figure(&of.compared, metric), unit, NOT_COMPARED);
        let how = of.seen.as_ref().map(|seen| format!("{}, {}", seen.method, seen.writer));
        table.push(vec![
            Cell::text(of.name),
            seen("spans", "pages"),
            seen("pages_mapped", "pages"),
            seen("pages_written", "pages"),
            seen("write_fraction", "fraction"),
            seen("cow_pages", "pages"),
            compared("pages_written", "pages"),
            compared("block_write_fraction", "fraction"),
            compared("byte_write_fraction", "fraction"),
            Cell::text(how.unwrap_or_default()),
        ]);
    }
    for (id, name, counted) in PUBLISHED {
        let figure = |metric| SMITH.value(id, metric);
        let absent = || Cell::Missing("not printed".to_owned());
        let fraction = |of: &str| match figure("write_fraction") {
            Some(value) if of == counted => Cell::number(value, "fraction"),
            _ => absent(),
        };
        let pages = |metric| figure(metric).map_or_else(absent, |value| Cell::count(value as u64));
        table.push(vec![
            Cell::text(name),
            Cell::count(1),
            pages("dump_pages"),
            pages("changed_pages"),
            absent(),
            absent(),
            absent(),
            fraction("blocks"),
            fraction("bytes"),
            Cell::text("comparison of dumps; pages of 512 bytes"),
        ]);
    }
    table
}

/// What a remote fork would send (document 000, section 1.2).
fn remote(programs: &[Program]) -> Table {
    let columns = vec![
        Column::text("program"),
        Column::number("whole"),
        Column::number("written pages"),
        Column::unit("of the whole", "fraction"),
        Column::number("changed bytes alone"),
    ];
    let mut table = Table::new("remote-fork", "Bytes that a remote fork would send", columns);
    for of in programs {
        let whole = of.figure(&of.seen, "remote_whole_bytes");
        let pages = of.figure(&of.seen, "remote_pages_bytes");
        let share = whole.zip(pages).map(|(whole, pages)| pages / whole.max(1.0));
        table.push(vec![
            Cell::text(of.name),
            cell(whole, "bytes", NOT_SEEN),
            cell(pages, "bytes", NOT_SEEN),
            cell(share, "fraction", NOT_SEEN),
            cell(of.figure(&of.compared, "remote_changed_bytes"), "bytes", NOT_COMPARED),
        ]);
    }
    table
}

fn commands(programs: &[Program]) -> Table {
    let columns = vec![Column::text("program"), Column::text("what"), Column::text("command")];
    let caption = "How each row is made, in examples/footprints";
    let mut table = Table::new("program-commands", caption, columns);
    for of in programs {
        let command = format!("`{}`", of.text("command"));
        table.push(vec![Cell::text(of.name), Cell::text(of.text("what")), Cell::text(command)]);
    }
    table
}

/// The section of forecasts; `None` of a run without any.
pub fn forecast_section(run: &Run) -> Option<Section> {
    let names = names(run, FORECAST);
    names.first()?;
    let columns = vec![
        Column::text("program"),
        Column::number("without a fork"),
        Column::number("extra time, predicted"),
        Column::number("extra time, measured"),
        Column::unit("off by", "percent"),
        Column::number("extra memory, predicted"),
        Column::number("extra memory, measured"),
        Column::unit("off by", "percent"),
        Column::unit("faults, predicted", "faults"),
        Column::unit("faults, measured", "faults"),
    ];
    let caption =
        "What a fork adds to a program's work: predicted and measured (medians of the rounds)";
    let mut table = Table::new("forecast", caption, columns);
    let mut parts = Table::new(
        "forecast-parts",
        "Of the extra time, the call of fork and the rest: the writes after it",
        vec![
            Column::text("program"),
            Column::number("fork, predicted"),
            Column::number("fork, measured"),
            Column::unit("off by", "percent"),
            Column::number("writes, predicted"),
            Column::number("writes, measured"),
            Column::unit("off by", "percent"),
        ],
    );
    for name in names {
        let its = Picked::of(&run.samples, FORECAST).with(NAME, name);
        let first =
            |figure: &str, metric: &str| its.with("figure", figure).values(metric).first().copied();
        let predicted = |metric: &str| first("predicted", metric);
        let cycles = its.with("figure", "measured");
        let measured = |metric: &str| cycles.estimate_of_rounds(metric);
        let unit = |metric: &str| if metric.ends_with("_ns") { "ns" } else { "bytes" };
        let of = |metric: &str| cells::of_rounds(&cycles, metric, unit(metric), NOT_SEEN);
        let off = |metric: &str| match (predicted(metric), measured(metric)) {
            (Some(p), Some(m)) if m.value != 0.0 => {
                let percent = (p / m.value - 1.0) * 100.0;
                Cell::Number { value: percent, text: format!("{percent:+.1} %") }
            }
            _ => Cell::Missing(NOT_SEEN.to_owned()),
        };
        let time = |metric: &str| match ["predicted", "low", "high"].map(|f| first(f, metric)) {
            [Some(value), Some(low), Some(high)] => Cell::estimate(value, low, high, "ns"),
            _ => Cell::Missing(NOT_SEEN.to_owned()),
        };
        let faults = |value: Option<f64>| cell(value, "pages", NOT_SEEN);
        table.push(vec![
            Cell::text(name),
            of("alone_ns"),
            time("extra_ns"),
            of("extra_ns"),
            off("extra_ns"),
            cell(predicted("extra_bytes"), "bytes", NOT_SEEN),
            of("extra_bytes"),
            off("extra_bytes"),
            faults(predicted("extra_faults")),
            faults(measured("extra_faults").map(|e| e.value)),
        ]);
        parts.push(vec![
            Cell::text(name),
            time("fork_ns"),
            of("fork_ns"),
            off("fork_ns"),
            time("write_ns"),
            of("write_ns"),
            off("write_ns"),
        ]);
    }
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
