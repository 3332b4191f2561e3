// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions: how often, how long, and how they ended.

use cowlab_casper::profile::{Function, Profile};

use super::View;
use super::words::{chosen, code, share, span, spread};
use cowlab_document::{Block, Rows, Table, fmt};

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
    let all = "what the recording of the events itself costs, as calibrated on this machine before, is taken off";
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
    let time = |ticks: fn(&Function) -> f64| {
        move |(_, function): &(usize, &Function)| span(profile, Some(ticks(function)))
    };
    let caption = "Where the time went. Inclusive time counts only the outermost call of a recursion; the shares are of the self time of all functions.";
    Rows::of("functions-time", caption, shown)
        .text("Function", |(_, function)| code(&function.name))
        .text("Where", |(_, function)| code(&place(function)))
        .count("Calls", |(_, function)| function.calls)
        .unit("Self", "ns", time(Function::own_ticks))
        .unit("Self share", "fraction", |(_, function)| share(function.own_ticks(), all))
        .unit("Inclusive", "ns", time(Function::inclusive_ticks))
        .table()
}

fn durations(profile: &Profile, shown: &[(usize, &Function)]) -> Table {
    let caption = "How long a call took, of those that returned. Percentiles are good to 1%.";
    let rows = Rows::of("functions-duration", caption, shown)
        .text("Function", |(_, function)| code(&function.name))
        .count("Returned", |(_, function)| function.times.count)
        .unit("Total", "ns", |(_, function)| {
            span(profile, (function.times.count > 0).then(|| function.total_ticks()))
        })
        .unit("Mean", "ns", |(_, function)| span(profile, function.mean_ticks()));
    spread(rows, profile, |(_, function)| &function.times).table()
}

/// Calls whose ends are not both known, by why.
type Ending = (&'static str, fn(&Function) -> u64);

/// Calls that did not begin and return before the recorder's eyes.
fn endings(list: &[(usize, &Function)], view: &View) -> Table {
    let counts: [Ending; 4] = [
        ("Left by longjmp", |function| function.left_by_longjmp),
        ("Not returned at the end", |function| function.still_open),
        ("Cut by lost events", |function| function.cut_by_loss),
        ("Returned, but begun before", |function| function.exits_without_enter),
    ];
    let some = |function: &&Function| counts.iter().any(|(_, count)| count(function) > 0);
    let shown = list.iter().map(|(_, function)| *function).filter(some).take(view.rows());
    let shown: Vec<&Function> = shown.collect();
    let caption = "Calls of which not both ends are known. They are in no duration; what a longjmp left is in the sums up to its last event.";
    let rows = Rows::of("functions-ended", caption, &shown)
        .text("Function", |function| code(&function.name));
    counts.iter().fold(rows, |rows, (name, count)| rows.count(name, |of| count(of))).table()
}
