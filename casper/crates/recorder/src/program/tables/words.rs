// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names and figures of a trace in a table.

use cowlab_casper::profile::{Function, Moments, Profile};
use globset::Glob;

use super::{Order, View};
use cowlab_document::{Cell, Rows, cells};

/// A name out of a trace, in which no markup is understood.
pub(super) fn code(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("`{}`", name.replace('`', "'")) }
}

pub(super) fn span(profile: &Profile, ticks: Option<f64>) -> Cell {
    cells::number(ticks.map(|ticks| profile.clock.span_ns(ticks)), "ns", "nothing was timed")
}

fn quantile(profile: &Profile, ticks: Option<u64>) -> Cell {
    let ns = ticks.map(|ticks| profile.clock.span_ns(ticks as f64));
    cells::number(ns, "ns", "no distribution was kept")
}

pub(super) fn variance(profile: &Profile, ticks: Option<f64>) -> Cell {
    let us = profile.clock.span_ns(1.0) / 1000.0;
    cells::number(ticks.map(|ticks| ticks * us * us), "µs²", "needs two values")
}

pub(super) fn spread<'r, T>(
    rows: Rows<'r, T>,
    profile: &Profile,
    times: impl Fn(&T) -> &Moments,
) -> Rows<'r, T> {
    let end = |of: &T, end: fn(&Moments) -> u64| {
        let times = times(of);
        span(profile, (times.count > 0).then(|| end(times) as f64))
    };
    rows.unit("Variance", "µs²", |of| variance(profile, times(of).variance()))
        .unit("Min", "ns", |of| end(of, |times| times.min))
        .unit("P50", "ns", |of| quantile(profile, times(of).quantile(0.5)))
        .unit("P99", "ns", |of| quantile(profile, times(of).quantile(0.99)))
        .unit("Max", "ns", |of| end(of, |times| times.max))
}

/// A share of a whole; a dash where there is no whole.
pub(super) fn share(part: f64, whole: f64) -> Cell {
    cells::number((whole > 0.0).then(|| part / whole), "fraction", "the whole is 0")
}

/// The functions of a view, in its order.
pub(super) fn chosen<'a>(profile: &'a Profile, view: &View) -> Vec<(usize, &'a Function)> {
    let glob = view.function.as_deref().and_then(|glob| Glob::new(glob).ok());
    let glob = glob.map(|glob| glob.compile_matcher());
    let fits = |name: &str| glob.as_ref().is_none_or(|glob| glob.is_match(name));
    let mut list: Vec<_> =
        profile.functions.used().filter(|(_, function)| fits(&function.name)).collect();
    let key = |function: &Function| match view.order {
        Order::Own => function.own_ticks(),
        Order::Inclusive => function.inclusive_ticks(),
        Order::Calls => function.calls as f64,
        Order::Mean => function.mean_ticks().unwrap_or(-1.0),
        Order::P99 => function.times.quantile(0.99).map_or(-1.0, |ticks| ticks as f64),
        Order::Max => function.times.max as f64,
        Order::Name => 0.0,
    };
    list.sort_by(|(_, a), (_, b)| key(b).total_cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
    list
}
