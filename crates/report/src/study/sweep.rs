// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Smith & Maguire's sweep: its lines, rates and equation beside the published ones.

use cowlab_analysis::study::Study;
use cowlab_analysis::study::sweep::FRACTIONS;
use cowlab_analysis::study::sweep::{self as lines, FORKS, FractionLine};
use cowlab_model::regression::Line;

use super::{shares, small_sample, surface};
use crate::Rows;
use crate::cells;
use crate::document::{Axis, Block, Cell, Column, Plot, Section, Series, Table};
use crate::fmt::{self, heap_size};
use crate::study::not_available;

pub(super) const LINES_TABLE: &str = "sweep-lines";

pub(super) fn section(study: &Study) -> Section {
    let mut blocks = vec![Block::Text(
        "Smith and Maguire (1988) ran a program that forks 1000 times with a heap of some size, of \
         which each child writes a fraction, one byte a page, and fitted a line of real time over \
         size for each fraction. The same program ran here with heaps a thousand times as large. \
         The heap is filled before the first fork, and each child is waited for before the next."
            .into(),
    )];
    if study.sweep.points.is_empty() {
        let needs = "the sweep's samples (bench fork-sweep) and memory for its heaps";
        blocks.push(not_available(study, "The sweep", &["fork-sweep"], needs));
        return Section::new("sweep", TITLE, blocks);
    }
    blocks.extend(line_blocks(study));
    blocks.extend(shares::blocks(study));
    blocks.push(Block::Table(points(study)));
    blocks.push(Block::Table(forks(study)));
    blocks.extend(surface::blocks(study));
    blocks.extend(small_sample::blocks(study));
    Section::new("sweep", TITLE, blocks)
}

const TITLE: &str = "Memory, write fraction and time (Smith & Maguire 1988)";

fn line_blocks(study: &Study) -> Vec<Block> {
    let sweep = &study.sweep;
    if sweep.lines.is_empty() {
        let needs = "three heaps at least for a line, so more memory";
        return vec![not_available(study, "Regression lines", &["fork-sweep"], needs)];
    }
    vec![
        Block::Plot(figure(study)),
        Block::Table(table(study)),
        Block::Text(
            "The main line weighs every point by 1/y², so that all sizes count alike in relative \
             terms. The published fit, ordinary least squares, stands beside it: sizes grow \
             exponentially, so the largest heap decides it almost alone, and its intercept, the \
             cost of a fork without a heap, may then be far off."
                .into(),
        ),
        Block::Plot(residuals(study)),
    ]
}

fn name(fraction: f64) -> String {
    format!("fraction {}", fmt::tick(fraction, ""))
}

/// Figures 1 and 2.
fn figure(study: &Study) -> Plot {
    let mut plot = Plot::new(
        "figure-1",
        "Figures 1 and 2: real time of 1000 forks over the heap's size",
        Axis::linear("Heap", "bytes"),
        Axis::linear("Real time of 1000 forks", "ns"),
    )
    .caption(
        "Points are medians with their 95% intervals over the rounds, lines the weighted fit. The \
         published machines have no place on these axes: their figures are in the \
         [table below](#sweep-published).",
    );
    for line in shares::PUBLISHED.iter().filter_map(|fraction| study.sweep.line(*fraction)) {
        let points = of_line(study, line).map(|p| (p.heap_bytes as f64, p.real_ns));
        plot.draw(Series::estimates(name(line.fraction), points));
        let last = of_line(study, line).map(|p| p.heap_bytes as f64).fold(0.0, f64::max);
        let ends = [0.0, last].map(|x| (x, line.relative.at(x)));
        plot.draw(Series::line(name(line.fraction), ends, false));
    }
    plot
}

fn of_line<'a>(study: &'a Study, line: &FractionLine) -> impl Iterator<Item = &'a lines::Point> {
    let fraction = line.fraction;
    study.sweep.points.iter().filter(move |p| p.fraction == fraction && p.heap_bytes > 0)
}

/// How far the points lie from their lines.
fn residuals(study: &Study) -> Plot {
    let mut plot = Plot::new(
        "sweep-residuals",
        "How far each point lies from its line",
        Axis::log("Heap", "bytes"),
        Axis::linear("(measured − line) / line", "fraction"),
    )
    .caption(
        "Bars are the 95% intervals over the rounds. A shape that all fractions share is the \
         machine's; scatter is noise.",
    );
    for line in &study.sweep.lines {
        let points = of_line(study, line).map(|p| {
            let x = p.heap_bytes as f64;
            let at = line.relative.at(x);
            (x, p.real_ns.map(|ns| (ns - at) / at))
        });
        plot.draw(Series::estimates(name(line.fraction), points));
    }
    plot
}

fn table(study: &Study) -> Table {
    let residual = |line: &Line| {
        Cell::number(line.worst().map_or(f64::NAN, |p| p.relative_residual()), "fraction")
    };
    let caption =
        "A line for each write fraction, with 95% intervals (Student's t over the points)";
    Rows::of(LINES_TABLE, caption, &study.sweep.lines)
        .text("Write fraction", |of| fmt::tick(of.fraction, ""))
        .estimate("Slope, for 1000 forks", "ns_per_byte", "", |of| Some(of.relative.slope))
        .estimate("Intercept, for 1000 forks", "ns", "", |of| Some(of.relative.intercept))
        .figure("r²", |of| r_squared(of.relative.r_squared))
        .unit("Largest residual", "fraction", |of| residual(&of.relative))
        .text("at heap", |of| {
            of.relative.worst().map_or_else(String::new, |p| heap_size(p.x as u64))
        })
        .estimate("Slope as published (ordinary)", "ns_per_byte", "", |of| Some(of.ordinary.slope))
        .estimate("Intercept (ordinary)", "ns", "", |of| Some(of.ordinary.intercept))
        .unit("Largest residual (ordinary)", "fraction", |of| residual(&of.ordinary))
        .table()
}

/// Three digits would make every good fit 1: as many nines as there are, cut and not rounded.
fn r_squared(value: f64) -> Cell {
    let text = if value > 0.99 && value < 1.0 {
        let decimals = (1.0 - value).log10().abs().ceil().min(9.0) as i32 + 1;
        let cut = (value * 10f64.powi(decimals)).floor() / 10f64.powi(decimals);
        format!("{cut:.*}", decimals as usize)
    } else {
        fmt::number(value)
    };
    Cell::Number { value, text }
}

fn points(study: &Study) -> Table {
    let caption = "Real time of 1000 forks, with 95% intervals";
    let column = |fraction| Column::unit(name(fraction), "ns");
    let cell = |p: &lines::Point| cells::estimate(Some(p.real_ns), "ns", "");
    by_fraction("sweep-points", caption, study, column, cell)
}

fn forks(study: &Study) -> Table {
    let caption = format!(
        "Forks made in each run of the program: where there are fewer than {}, the time was scaled \
         up from them",
        fmt::count(FORKS as u64)
    );
    let column = |fraction| Column::number(name(fraction));
    by_fraction("sweep-forks", &caption, study, column, |p| Cell::count(p.forks))
}

fn by_fraction(
    id: &str,
    caption: &str,
    study: &Study,
    column: impl Fn(f64) -> Column,
    cell: impl Fn(&lines::Point) -> Cell,
) -> Table {
    let heaps: Vec<u64> = std::iter::once(0).chain(lines::heaps_bytes()).collect();
    let heap = |heap: &u64| Cell::Number { value: *heap as f64, text: heap_size(*heap) };
    let mut rows = Rows::of(id, caption, &heaps).unit("Heap", "bytes", heap);
    for fraction in FRACTIONS {
        rows = rows.column(column(fraction), |heap| {
            let point = study.sweep.point(*heap, fraction);
            cells::or(point.map(&cell), "needs more memory or more time")
        });
    }
    rows.table()
}
