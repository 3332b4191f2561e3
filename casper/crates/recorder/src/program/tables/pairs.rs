// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time between two events, and the sections of a whole.

use cowlab_casper::profile::{Moments, PairTimes, Profile};

use super::View;
use super::words::{code, share, span, spread, variance};
use cowlab_document::{Block, Cell, Rows, Table};

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
    let whole = total.times.sum();
    let parts = profile.pairs.iter().filter(|of| of.pair != total.pair);
    let rest = whole - parts.clone().map(|of| of.times.sum()).sum::<f64>();
    let row = |name, times: &Moments, sum| (name, times.mean(), Some(times.variance()), sum);
    let mut rows: Vec<_> =
        parts.map(|of| row(code(&of.pair.name), &of.times, of.times.sum())).collect();
    let mean = (total.times.count > 0).then(|| rest / total.times.count as f64);
    rows.push(("Miscellaneous".to_owned(), mean, None, rest));
    rows.push(row(format!("Total {}", code(&total.pair.name)), &total.times, whole));
    Rows::of("sections", caption, &rows)
        .text("Section", |(name, ..)| name)
        .unit("Mean time", "ns", |(_, mean, ..)| span(profile, *mean))
        .unit("Variance", "µs²", |(_, _, times, _)| {
            times.map_or_else(|| Cell::text(""), |times| variance(profile, times))
        })
        .unit("Total time", "fraction", |(.., sum)| share(*sum, whole))
        .table()
}
