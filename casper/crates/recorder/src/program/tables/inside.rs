// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a function's time is made of: Barkley and Schimmel's Table I, and their "600 calls to
//! ptalloc, or six per fork".

use std::cell::RefCell;

use cowlab_casper::profile::{Edge, Function, Profile};
use cowlab_casper::symbol::Symbols;

use super::View;
use super::words::{chosen, code, share, span};
use cowlab_document::{Block, Cell, Rows, Table, fmt};

/// Functions that are taken apart, where they were asked for by name.
const MOST_APART: usize = 8;

pub(super) fn blocks(profile: &Profile, view: &View) -> Vec<Block> {
    let mut blocks = Vec::new();
    if view.function.is_some() {
        let parts = chosen(profile, view).into_iter().filter(|(_, function)| function.calls > 0);
        for (index, function) in parts.take(MOST_APART) {
            blocks.extend(sections(profile, index, function).map(Block::Table));
        }
    }
    let edges = edges(profile, view);
    if !edges.rows.is_empty() {
        blocks.push(Block::Table(edges));
    }
    if profile.functions.calls_without_edge > 0 {
        let count = fmt::count(profile.functions.calls_without_edge);
        blocks.push(Block::Note(format!(
            "{count} calls are not shown by caller: there were too many call sites."
        )));
    }
    blocks
}

/// The functions that one called, as sections of it, and the rest as miscellaneous.
fn sections(profile: &Profile, index: usize, function: &Function) -> Option<Table> {
    let calls = function.calls as f64;
    let mut parts: Vec<(usize, u64, f64)> = Vec::new();
    for edge in profile.functions.edges.iter().filter(|edge| edge.caller == Some(index)) {
        match parts.iter_mut().find(|(callee, ..)| *callee == edge.callee) {
            Some((_, calls, ticks)) => {
                (*calls, *ticks) = (*calls + edge.calls, *ticks + edge.ticks())
            }
            None => parts.push((edge.callee, edge.calls, edge.ticks())),
        }
    }
    if parts.is_empty() {
        return None;
    }
    parts.sort_by(|a, b| b.2.total_cmp(&a.2));
    let timed: f64 = parts.iter().map(|part| part.2).sum();
    // Of a recursive function the outermost calls' time, in which the inner ones' is.
    let whole = function.own_ticks() + timed;
    let caption = format!(
        "{}, {} calls: what each of its calls did",
        code(&function.name),
        fmt::count(function.calls)
    );
    let called = parts.into_iter().map(|(callee, count, ticks)| {
        (code(&profile.functions.list[callee].name), Some(count), ticks)
    });
    let total = format!("Total {}", code(&function.name));
    let rest = [("Miscellaneous".to_owned(), None, function.own_ticks()), (total, None, whole)];
    let rows: Vec<(String, Option<u64>, f64)> = called.chain(rest).collect();
    let of_count =
        |count: Option<u64>, cell: &dyn Fn(u64) -> Cell| count.map_or_else(|| Cell::text(""), cell);
    let table = Rows::of(format!("inside-{index}"), caption, &rows)
        .text("Section", |(name, ..)| name)
        .figure("Calls", |(_, count, _)| of_count(*count, &Cell::count))
        .figure("Calls per call", |(_, count, _)| {
            of_count(*count, &|count| Cell::number(count as f64 / calls, ""))
        })
        .unit("Time per call", "ns", |(.., ticks)| span(profile, Some(ticks / calls)))
        .unit("Total time", "fraction", |(.., ticks)| share(*ticks, whole));
    Some(table.table())
}

fn edges(profile: &Profile, view: &View) -> Table {
    let chosen: std::collections::HashSet<usize> =
        chosen(profile, view).into_iter().map(|(index, _)| index).collect();
    let mut list: Vec<&Edge> = profile
        .functions
        .edges
        .iter()
        .filter(|edge| {
            chosen.contains(&edge.callee) || edge.caller.is_some_and(|c| chosen.contains(&c))
        })
        .collect();
    list.sort_by(|a, b| b.ticks().total_cmp(&a.ticks()).then(b.calls.cmp(&a.calls)));
    list.truncate(view.rows());
    let symbols = RefCell::new(Symbols::default());
    let caller = |edge: &Edge| edge.caller.map(|caller| &profile.functions.list[caller]);
    let of_caller = |edge: &Edge, of: &dyn Fn(&Function) -> Cell| {
        caller(edge).map_or_else(|| Cell::text(""), of)
    };
    Rows::of("calls", "Who called whom, and from where", &list)
        .text("Caller", |edge| caller(edge).map_or_else(String::new, |of| code(&of.name)))
        .text("Function", |edge| code(&profile.functions.list[edge.callee].name))
        .text("Call site", |edge| code(&edge.place(&profile.metadata, &mut symbols.borrow_mut())))
        .count("Calls", |edge| edge.calls)
        .figure("Per call of the caller", |edge| {
            of_caller(edge, &|of| Cell::number(edge.calls as f64 / of.calls.max(1) as f64, ""))
        })
        .unit("Total", "ns", |edge| span(profile, Some(edge.ticks())))
        .unit("Share of the caller", "fraction", |edge| match edge.caller {
            // A recursion's inner calls are in its inclusive time already.
            Some(caller) if caller == edge.callee => Cell::text(""),
            _ => of_caller(edge, &|of| share(edge.ticks(), of.inclusive_ticks())),
        })
        .table()
}
