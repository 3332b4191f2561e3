// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions: how often, how long, and how they ended.

use cowlab_casper::profile::{Function, Profile};

use super::View;
use super::words::{chosen, code, share, span, variance, whole_span};
use crate::{Block, Cell, Column, Table, fmt};

pub(super) fn blocks(profile: &Profile, view: &View) -> Vec<Block> {
    let list = chosen(profile, view);
    if profile.functions.used().next().is_none() {
        return Vec::new();
    }
    if list.is_empty() {
        let glob = view.function.as_deref().unwrap_or("*");
        return vec![Block::Note(format!("No function's name fits {}.", code(glob)))];
    }
    let shown = &list[..list.len().min(view.rows())];
    let mut blocks = vec![Block::Note(overhead(profile))];
    blocks.push(Block::Table(times(profile, shown)));
    blocks.push(Block::Table(durations(profile, shown)));
    if shown.len() < list.len() {
        let (shown, all) = (fmt::count(shown.len() as u64), fmt::count(list.len() as u64));
        blocks.push(Block::Note(format!("{shown} of {all} functions are shown: see --limit.")));
    }
    let endings = endings(&list, view);
    if !endings.rows.is_empty() {
        blocks.push(Block::Table(endings));
    }
    blocks
}

fn overhead(profile: &Profile) -> String {
    let overhead = &profile.functions.overhead;
    let all = "what the recording of the events itself costs, as calibrated on this machine before, is taken off; “raw” is with it";
    match (overhead.calls_known, overhead.addresses_known) {
        (true, true) => format!("In all times of functions {all}."),
        (true, false) => format!("In times of functions {all}; not so for those that -finstrument-functions reported, whose cost is not known."),
        (false, true) => format!("In times of functions {all}; not so for those that `insert` instrumented, whose cost is not known."),
        (false, false) => "What the recording of the events itself costs is not known, and so is contained in all times.".to_owned(),
    }
}

fn place(function: &Function) -> String {
    let short = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    match (&function.file, function.line, &function.module) {
        (Some(file), Some(line), _) => format!("{}:{line}", short(file)),
        (Some(file), None, _) => short(file),
        (None, _, Some(module)) => short(module),
        _ => String::new(),
    }
}

fn times(profile: &Profile, shown: &[(usize, &Function)]) -> Table {
    let all: f64 = profile.functions.list.iter().map(Function::own_ticks).sum();
    let mut table = Table::new(
        "functions-time",
        "Where the time went. Inclusive time counts only the outermost call of a recursion; the shares are of the self time of all functions.",
        vec![
            Column::text("Function"),
            Column::text("Where"),
            Column::number("Calls"),
            Column::unit("Self", "ns"),
            Column::unit("Self share", "fraction"),
            Column::unit("Inclusive", "ns"),
            Column::unit("Self, raw", "ns"),
            Column::unit("Inclusive, raw", "ns"),
        ],
    );
    for (_, function) in shown {
        table.push(vec![
            Cell::text(code(&function.name)),
            Cell::text(code(&place(function))),
            Cell::count(function.calls),
            span(profile, Some(function.own_ticks())),
            share(function.own_ticks(), all),
            span(profile, Some(function.inclusive_ticks())),
            span(profile, Some(function.own_raw_ticks as f64)),
            span(profile, Some(function.inclusive_raw_ticks as f64)),
        ]);
    }
    table
}

fn durations(profile: &Profile, shown: &[(usize, &Function)]) -> Table {
    let mut table = Table::new(
        "functions-duration",
        "How long a call took, of those that returned. Percentiles are good to 1%.",
        vec![
            Column::text("Function"),
            Column::number("Returned"),
            Column::unit("Total", "ns"),
            Column::unit("Mean", "ns"),
            Column::unit("Mean, raw", "ns"),
            Column::unit("Variance", "µs²"),
            Column::unit("Min", "ns"),
            Column::unit("P50", "ns"),
            Column::unit("P99", "ns"),
            Column::unit("Max", "ns"),
        ],
    );
    for (_, function) in shown {
        let times = &function.times;
        let some = |ticks: u64| (times.count > 0).then_some(ticks as f64);
        table.push(vec![
            Cell::text(code(&function.name)),
            Cell::count(times.count),
            span(profile, some(0).map(|_| function.total_ticks())),
            span(profile, function.mean_ticks()),
            span(profile, function.raw_mean_ticks()),
            variance(profile, times.variance()),
            span(profile, some(times.min)),
            whole_span(profile, times.quantile(0.5)),
            whole_span(profile, times.quantile(0.99)),
            span(profile, some(times.max)),
        ]);
    }
    table
}

/// Calls that did not begin and return before the recorder's eyes.
fn endings(list: &[(usize, &Function)], view: &View) -> Table {
    let mut table = Table::new(
        "functions-ended",
        "Calls of which not both ends are known. They are in no duration; what a longjmp left is in the sums up to its last event.",
        vec![
            Column::text("Function"),
            Column::number("Left by longjmp"),
            Column::number("Not returned at the end"),
            Column::number("Cut by lost events"),
            Column::number("Returned, but begun before"),
        ],
    );
    for (_, function) in list {
        let counts = [
            function.left_by_longjmp,
            function.still_open,
            function.cut_by_loss,
            function.exits_without_enter,
        ];
        if counts.iter().any(|&count| count > 0) && table.rows.len() < view.rows() {
            let mut row = vec![Cell::text(code(&function.name))];
            row.extend(counts.map(Cell::count));
            table.push(row);
        }
    }
    table
}
