// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Document 004's table and Table 28-3: processes made by method and size.

use cowlab_analysis::names::FORK_TABLE as BENCH;
use cowlab_analysis::study::PAPER_ITERATIONS;
use cowlab_analysis::study::Study;
use cowlab_model::Estimate;
use cowlab_schema::Method;
use cowlab_schema::fork_table::{self, METHODS};

use crate::cells;
use crate::document::{Axis, Block, Cell, Column, Plot, Section, Series, Table};
use crate::fmt::{self, size};
use crate::papers::{FORK_TABLE, Paper, TLPI};
use crate::study::not_available;

/// Anchor of the table for touched memory.
pub(super) const TABLE: &str = "fork-table-touched";
/// The sizes in bytes, and what Table 28-3 calls them.
pub(super) const SIZES: [(u64, &str); 3] =
    [(1_782_579, "1.70"), (2_831_155, "2.70"), (12_268_339, "11.70")];
const TITLE: &str = "Ways to make a process, by size (document 004, TLPI table 28-3)";

/// One cell, for one iteration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub(super) elapsed_ns: Estimate,
    cpu_ns: Option<Estimate>,
    with_children_ns: Option<Estimate>,
    rate_per_s: Option<Estimate>,
    iterations: u64,
}

/// What was measured of a method at a size.
pub(super) fn made(study: &Study, method: Method, size: u64, touched: bool) -> Option<Made> {
    let samples = study
        .samples(BENCH)
        .with(fork_table::METHOD, method)
        .with(fork_table::SIZE_BYTES, size)
        .with(fork_table::TOUCHED, touched)
        .with(fork_table::PINNED, true);
    let iterations =
        samples.numbers(fork_table::ITERATIONS).pop().filter(|iterations| *iterations > 0)?;
    let samples = samples.with(fork_table::ITERATIONS, iterations);
    let each =
        |metric| samples.estimate(metric).map(|e: Estimate| e.scaled(1.0 / iterations as f64));
    Some(Made {
        elapsed_ns: each(fork_table::ELAPSED_NS)?,
        cpu_ns: each(fork_table::CPU_NS),
        with_children_ns: each(fork_table::CPU_WITH_CHILDREN_NS),
        rate_per_s: samples.estimate(fork_table::RATE_PER_S),
        iterations,
    })
}

pub(super) fn section(study: &Study) -> Section {
    let touched = table(study, true);
    let untouched = table(study, false);
    if touched.is_none() && untouched.is_none() {
        let needs = "its samples (bench fork-table)";
        let note = not_available(study, "The table", &["fork-table"], needs);
        return Section::new("fork-table", TITLE, vec![note]);
    }
    let iterations = METHODS
        .iter()
        .flat_map(|method| SIZES.map(|(size, _)| made(study, *method, size, true)))
        .flatten()
        .map(|made| made.iterations);
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
    blocks.push(Block::Table(summary_file(study)));
    blocks.push(Block::Note(
        "The published columns are not quite the same quantity: document 004 names what malloc was \
         asked for, table 28-3 the whole virtual memory of the process. The document's first table \
         counts its children's CPU time, its second does not."
            .into(),
    ));
    Section::new("fork-table", TITLE, blocks)
}

fn table(study: &Study, touched: bool) -> Option<Table> {
    let (id, caption) = if touched {
        (TABLE, "Every page of the memory was written before (the document's second table)")
    } else {
        ("fork-table-untouched", "The memory was never touched (the document's first table)")
    };
    let mut columns = vec![Column::text("Method")];
    for (_, megabytes) in SIZES {
        columns.push(Column::text(format!("{megabytes} MB: time (CPU)")));
        columns.push(Column::unit("rate", "per_s"));
    }
    let mut table = Table::new(id, caption, columns);
    let total = PAPER_ITERATIONS as f64;
    for method in METHODS {
        let cells = SIZES.map(|(size, _)| made(study, method, size, touched));
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let mut row = vec![Cell::text(method.name())];
        for made in cells {
            let missing = || Cell::Missing("was not measured in this run".into());
            let Some(made) = made else {
                row.extend([missing(), missing()]);
                continue;
            };
            let own = made.cpu_ns.map_or("–".into(), |e| fmt::quantity(e.value * total, "ns"));
            let elapsed = fmt::quantity(made.elapsed_ns.value * total, "ns");
            row.push(Cell::text(format!("{elapsed} ({own})")));
            row.push(cells::number(made.rate_per_s.map(|e| e.value), "per_s", ""));
        }
        table.push(row);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Every figure of the table, for one process, with its interval.
fn figures(study: &Study) -> Table {
    let columns = vec![
        Column::text("Method"),
        Column::text("Memory"),
        Column::unit("A process", "ns"),
        Column::unit("CPU of the program", "ns"),
        Column::unit("CPU with its children", "ns"),
        Column::unit("Document 004, a process", "ns"),
        Column::unit("TLPI 28-3, a process", "ns"),
    ];
    let caption = "The same for one process, with 95% intervals, beside what was published";
    let mut table = Table::new("fork-table-figures", caption, columns);
    for (touched, state) in [(true, "touched"), (false, "untouched")] {
        for method in METHODS {
            for (size, megabytes) in SIZES {
                let Some(made) = made(study, method, size, touched) else { continue };
                let each = |paper: &Paper, id: &str| {
                    let total = paper.value(id, "elapsed_s")?;
                    Some(total * 1e9 / PAPER_ITERATIONS as f64)
                };
                let replay = each(&FORK_TABLE, &format!("{state}.{method}.{size}"));
                let book = touched.then(|| each(&TLPI, &format!("{method}.{megabytes}"))).flatten();
                let cell = |e| cells::estimate(e, "ns", "was not measured");
                table.push(vec![
                    Cell::text(method.name()),
                    Cell::text(format!("{megabytes} MB, {state}")),
                    cell(Some(made.elapsed_ns)),
                    cell(made.cpu_ns),
                    cell(made.with_children_ns),
                    cells::number(replay, "ns", "not published"),
                    cells::number(book, "ns", "not published"),
                ]);
            }
        }
    }
    table
}

/// Document 004's two tables and the book's, in their own layout.
fn published() -> Table {
    let mut columns = vec![Column::text("Method, published in")];
    for (_, megabytes) in SIZES {
        columns.push(Column::text(format!("{megabytes} MB: time (CPU)")));
        columns.push(Column::unit("rate", "per_s"));
    }
    let caption = "Published: document 004 (arm64 guest, Linux 6.1) and table 28-3 (x86-32, Linux \
                   2.6.27); CPU times of the latter were not taken over. * CPU with the children's";
    let mut table = Table::new("fork-table-published", caption, columns);
    let mut add = |source: &str, paper: &Paper, prefix: &str, method: &str, ids: [String; 3]| {
        let mut row = vec![Cell::text(format!("{method}, {source}"))];
        for id in ids.map(|id| format!("{prefix}{method}.{id}")) {
            let time = |quantity| paper.value(&id, quantity).map(|s| fmt::quantity(s * 1e9, "ns"));
            let cpu = time("cpu_s").map_or(String::new(), |cpu| format!(" ({cpu})"));
            row.push(match time("elapsed_s") {
                Some(elapsed) => Cell::text(format!("{elapsed}{cpu}")),
                None => Cell::Missing("not published".into()),
            });
            row.push(cells::number(paper.value(&id, "rate_per_s"), "per_s", "not published"));
        }
        table.push(row);
    };
    for (source, prefix) in [("004 touched", "touched."), ("004 untouched*", "untouched.")] {
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
        "Dashed: document 004's guest. What falls with size copies page tables; what is flat does \
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
        plot.draw(Series::line(format!("{method}, document 004"), points, true));
    }
    Some(plot)
}

/// The document's summary file, line by line.
fn summary_file(study: &Study) -> Table {
    let columns = vec![Column::text("benchmark_results.txt of this machine")];
    let caption = "The document's summary file: method, iterations, size, and the times of a run";
    let mut table = Table::new("fork-table-summary", caption, columns);
    for method in METHODS {
        for (size, _) in SIZES {
            let Some(made) = made(study, method, size, true) else { continue };
            let Some(cpu_ns) = made.cpu_ns else { continue };
            // The file is read by programs: plain digits in seconds, as the document prints them.
            let seconds = |e: Estimate| e.value * PAPER_ITERATIONS as f64 / 1e9;
            table.push(vec![Cell::text(format!(
                "`{method} {PAPER_ITERATIONS} {size} -> Elapsed: {:.4} sec, CPU: {:.5} sec`",
                seconds(made.elapsed_ns),
                seconds(cpu_ns),
            ))]);
        }
    }
    table
}

/// What a size is called in sentences.
pub(super) fn megabytes(bytes: u64) -> String {
    SIZES
        .iter()
        .find(|(size, _)| *size == bytes)
        .map_or_else(|| size(bytes), |(_, megabytes)| format!("{megabytes} MB"))
}
