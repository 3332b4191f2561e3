// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots of a page: how durations are distributed.

use cowlab_casper::profile::{Moments, Profile};

use super::View;
use super::words::chosen;
use cowlab_document::{Axis, Block, Plot, Series};

/// Curves that can still be told apart.
const CURVES: usize = 7;

pub(super) fn blocks(profile: &Profile, view: &View) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut plot = Plot::new(
        "durations",
        "How long calls took",
        Axis::log("Duration", "ns"),
        Axis::linear("Share of calls that took no longer", "fraction"),
    )
    .caption("The functions that come first in the tables; what the recording costs is taken off where it is known.");
    let curve = |name: &str, times: &Moments| {
        // 0 has no place on a logarithmic axis.
        let ns = |ticks: u64| profile.clock.span_ns(ticks as f64).max(1.0);
        Series::cdf(name, times.cumulative().into_iter().map(|(ticks, share)| (ns(ticks), share)))
    };
    for (_, function) in chosen(profile, view).into_iter().take(CURVES) {
        plot.draw(curve(&function.name, &function.times));
    }
    blocks.extend(plot.drawn().map(Block::Plot));
    let mut plot = Plot::new(
        "pairs-durations",
        "Time between events",
        Axis::log("Time", "ns"),
        Axis::linear("Share of times that are no longer", "fraction"),
    );
    for times in profile.pairs.iter().take(CURVES) {
        plot.draw(curve(&times.pair.name, &times.times));
    }
    blocks.extend(plot.drawn().map(Block::Plot));
    blocks
}
