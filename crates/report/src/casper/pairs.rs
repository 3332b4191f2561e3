// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time between two events, and the sections of a whole.

use cowlab_casper::profile::{PairTimes, Profile};

use super::View;
use super::words::{code, share, span, spread, variance};
use crate::rows::Rows;
use crate::{Block, Cell, Column, Table};

pub(super) fn blocks(profile: &Profile, view: &View) -> Vec<Block> {
    if profile.pairs.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![Block::Table(each(profile))];
    let total = view.total.as_ref();
    if let Some(total) = total.and_then(|name| profile.pairs.iter().find(|t| t.pair.name == *name))
    {
        blocks.push(Block::Table(sections(profile, total)));
        let parts = profile.pairs.iter().filter(|times| times.pair != total.pair);
        if parts.map(|times| times.times.sum()).sum::<f64>() > total.times.sum() {
            let text = "The sections take more than the whole: they overlap, or lie outside it.";
            blocks.push(Block::Note(text.to_owned()));
        }
    }
    blocks
}

fn each(profile: &Profile) -> Table {
    let caption = "From each first event to the next second one. These times contain what the recording of the events costs.";
    let rows = Rows::of("pairs", caption, &profile.pairs)
        .text("From", |of| code(&of.pair.from))
        .text("To", |of| code(&of.pair.to))
        .count("Times", |of| of.times.count)
        .count("Without an end", |of| of.without_end)
        .unit("Mean", "ns", |of| span(profile, of.times.mean()));
    spread(rows, profile, |of| &of.times).table()
}

/// As in Barkley and Schimmel's Table I.
fn sections(profile: &Profile, total: &PairTimes) -> Table {
    let caption = format!("{}, averaged over {} times", code(&total.pair.name), total.times.count);
    let mut table = Table::new(
        "sections",
        caption,
        vec![
            Column::text("Section"),
            Column::unit("Mean time", "ns"),
            Column::unit("Variance", "µs²"),
            Column::unit("Total time", "fraction"),
        ],
    );
    let whole = total.times.sum();
    let mut rest = whole;
    for PairTimes { pair, times, .. } in profile.pairs.iter().filter(|t| t.pair != total.pair) {
        rest -= times.sum();
        table.push(vec![
            Cell::text(code(&pair.name)),
            span(profile, times.mean()),
            variance(profile, times.variance()),
            share(times.sum(), whole),
        ]);
    }
    let mean = (total.times.count > 0).then(|| rest / total.times.count as f64);
    table.push(vec![
        Cell::text("Miscellaneous"),
        span(profile, mean),
        Cell::text(""),
        share(rest, whole),
    ]);
    table.push(vec![
        Cell::text(format!("Total {}", code(&total.pair.name))),
        span(profile, total.times.mean()),
        variance(profile, total.times.variance()),
        share(whole, whole),
    ]);
    table
}
