// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPI's Table 28-3 and its replay: processes made by method and size.

use cowlab_analysis::study::Study;
use cowlab_analysis::study::fork_table::{Made, PAPER_ITERATIONS, made};
use cowlab_schema::Method;
use cowlab_schema::fork_table::METHODS;

use crate::Rows;
use crate::cells::{self, MISSING};
use crate::document::{Axis, Block, Cell, Column, Plot, Section, Series, Table};
use crate::fmt::{self, size};
use crate::papers::{FORK_TABLE, Paper, TLPI};
use crate::study::not_available;

/// Anchor of the table for touched memory.
pub(super) const TABLE: &str = "fork-table-touched";
/// The sizes in bytes, and what Table 28-3 calls them.
pub(super) const SIZES: [(u64, &str); 3] =
    [(1_782_579, "1.70"), (2_831_155, "2.70"), (12_268_339, "11.70")];
const TITLE: &str = "Ways to make a process, by size (TLPI table 28-3 and its replay)";

pub(super) fn section(study: &Study) -> Section {
    let touched = table(study, true);
    let untouched = table(study, false);
    if touched.is_none() && untouched.is_none() {
        let needs = "its samples (bench fork-table)";
        let note = not_available(study, "The table", &["fork-table"], needs);
        return Section::new("fork-table", TITLE, vec![note]);
    }
    let all = all(study, true);
    let iterations = all.iter().map(|made| made.iterations);
    let (least, most) = iterations.fold((u64::MAX, 0), |(a, b), i| (a.min(i), b.max(i)));
    let scaled = if most == 0 || least == PAPER_ITERATIONS {
        String::new()
    } else {
        format!(
            " Here {} were made in a run, and times are scaled up to {}.",
            if least == most {
                fmt::count(most)
            } else {
                format!("{} to {}", fmt::count(least), fmt::count(most))
            },
            fmt::count(PAPER_ITERATIONS)
        )
    };
    let mut blocks = vec![Block::Text(format!(
        "A program that allocated memory makes {} processes, one after the other, and waits for \
         each. In brackets the CPU time of the program itself, as in the document's second table; \
         [with its children's](#fork-table-figures) it is below.{scaled} Rates are processes a \
         second.",
        fmt::count(PAPER_ITERATIONS)
    ))];
    blocks.extend([touched, untouched].into_iter().flatten().map(Block::Table));
    blocks.push(Block::Table(published()));
    blocks.push(Block::Table(figures(study)));
    blocks.extend(rates(study).map(Block::Plot));
    blocks.push(Block::Note(
        "The published columns are not quite the same quantity: the replay names what malloc was \
         asked for, table 28-3 the whole virtual memory of the process. The document's first table \
         counts its children's CPU time, its second does not."
            .into(),
    ));
    Section::new("fork-table", TITLE, blocks)
}

/// Every cell of the table that was measured: by method, then by size.
fn all(study: &Study, touched: bool) -> Vec<Made> {
    let sizes = |method| SIZES.into_iter().map(move |(size, _)| (method, size));
    let cells = METHODS.into_iter().flat_map(sizes);
    cells.filter_map(|(method, size)| made(study, method, size, touched)).collect()
}

fn table(study: &Study, touched: bool) -> Option<Table> {
    let (id, caption) = if touched {
        (TABLE, "Every page of the memory was written before (the document's second table)")
    } else {
        ("fork-table-untouched", "The memory was never touched (the document's first table)")
    };
    let cells = all(study, touched);
    let methods: Vec<Method> =
        METHODS.into_iter().filter(|own| cells.iter().any(|cell| cell.method == *own)).collect();
    let total = |ns: f64| fmt::quantity(ns * PAPER_ITERATIONS as f64, "ns");
    let missing = "was not measured in this run";
    let mut rows = Rows::of(id, caption, &methods).text("Method", |method| method.name());
    for (size, megabytes) in SIZES {
        let cell = |method: &Method| {
            cells.iter().find(|cell| (cell.method, cell.size_bytes) == (*method, size))
        };
        rows = rows
            .column(Column::text(format!("{megabytes} MB: time (CPU)")), |method| {
                let Some(made) = cell(method) else { return Cell::Missing(missing.into()) };
                let own = made.cpu_ns.map_or("–".into(), |e| total(e.value));
                Cell::text(format!("{} ({own})", total(made.elapsed_ns.value)))
            })
            .number("rate", "per_s", missing, |method| Some(cell(method)?.rate_per_s?.value));
    }
    (!methods.is_empty()).then(|| rows.table())
}

/// Every figure of the table, for one process, with its interval.
fn figures(study: &Study) -> Table {
    let state = |made: &Made| if made.touched { "touched" } else { "untouched" };
    let each = |paper: &Paper, id: &str| {
        Some(paper.value(id, "elapsed_s")? * 1e9 / PAPER_ITERATIONS as f64)
    };
    let caption = "The same for one process, with 95% intervals, beside what was published";
    Rows::of("fork-table-figures", caption, &[all(study, true), all(study, false)].concat())
        .text("Method", |made| made.method.name())
        .text("Memory", |made| format!("{}, {}", megabytes(made.size_bytes), state(made)))
        .estimate("A process", "ns", MISSING, |made| Some(made.elapsed_ns))
        .estimate("CPU of the program", "ns", MISSING, |made| made.cpu_ns)
        .estimate("CPU with its children", "ns", MISSING, |made| made.with_children_ns)
        .number("The replay, a process", "ns", "not published", |made| {
            each(&FORK_TABLE, &format!("{}.{}.{}", state(made), made.method, made.size_bytes))
        })
        .number("TLPI 28-3, a process", "ns", "not published", |made| {
            let (_, megabytes) = SIZES.iter().find(|(size, _)| *size == made.size_bytes)?;
            let id = format!("{}.{megabytes}", made.method);
            each(&TLPI, &id).filter(|_| made.touched)
        })
        .table()
}

/// The replay's two tables and the book's, in their own layout.
fn published() -> Table {
    let mut columns = vec![Column::text("Method, published in")];
    for (_, megabytes) in SIZES {
        columns.push(Column::text(format!("{megabytes} MB: time (CPU)")));
        columns.push(Column::unit("rate", "per_s"));
    }
    let caption = "Published: the replay (arm64 guest, Linux 6.1) and table 28-3 (x86-32, Linux \
                   2.6.27); CPU times of the latter were not taken over. * CPU with the children's";
    let mut table = Table::new("fork-table-published", caption, columns);
    let mut add = |source: &str, paper: &Paper, prefix: &str, method: &str, ids: [String; 3]| {
        let mut row = vec![Cell::text(format!("{method}, {source}"))];
        for id in ids.map(|id| format!("{prefix}{method}.{id}")) {
            let time = |quantity| paper.value(&id, quantity).map(|s| fmt::quantity(s * 1e9, "ns"));
            let cpu = time("cpu_s").map_or(String::new(), |cpu| format!(" ({cpu})"));
            let elapsed = time("elapsed_s").map(|elapsed| Cell::text(format!("{elapsed}{cpu}")));
            row.push(cells::or(elapsed, "not published"));
            row.push(cells::number(paper.value(&id, "rate_per_s"), "per_s", "not published"));
        }
        table.push(row);
    };
    for (source, prefix) in [("replay touched", "touched."), ("replay untouched*", "untouched.")] {
        for method in ["fork", "vfork"] {
            add(source, &FORK_TABLE, prefix, method, SIZES.map(|(size, _)| size.to_string()));
        }
    }
    for method in ["fork", "vfork", "clone", "fork+exec", "vfork+exec"] {
        add("TLPI 28-3", &TLPI, "", method, SIZES.map(|(_, megabytes)| megabytes.to_owned()));
    }
    table
}

fn rates(study: &Study) -> Option<Plot> {
    let mut plot = Plot::new(
        "fork-table-rates",
        "Processes made a second, by method and size",
        Axis::log("Memory, every page of which was written before", "bytes"),
        Axis::log("Processes a second", "per_s"),
    )
    .caption(
        "Dashed: the replay's guest. What falls with size copies page tables; what is flat does \
         not.",
    );
    for method in METHODS {
        let rate = |size| made(study, method, size, true)?.rate_per_s;
        let points = SIZES.iter().filter_map(|(size, _)| Some((*size as f64, rate(*size)?)));
        plot.draw(Series::estimates(method.name(), points));
    }
    if plot.series.is_empty() {
        return None;
    }
    for method in ["fork", "vfork"] {
        let rate = |size| FORK_TABLE.value(&format!("touched.{method}.{size}"), "rate_per_s");
        let points = SIZES.iter().filter_map(|(size, _)| Some((*size as f64, rate(*size)?)));
        plot.draw(Series::line(format!("{method}, the replay"), points, true));
    }
    Some(plot)
}

/// What a size is called in sentences.
pub(super) fn megabytes(bytes: u64) -> String {
    SIZES
        .iter()
        .find(|(size, _)| *size == bytes)
        .map_or_else(|| size(bytes), |(_, megabytes)| format!("{megabytes} MB"))
}
