// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Of each workload: the rate in the course of an interval, and its distribution (Figure 6).

use cowlab_schema::snapshot::{AFTER_FORK_PER_S, PHASE_PERCENT, WINDOW_PER_S};

use super::SECTION;
use super::workload::Workload;
use crate::distribution::cdf;
use crate::document::{Axis, Plot, Series};
use crate::plain;

/// Phases are twentieths: their middles lie so far behind their beginnings.
const HALF_A_PHASE_PERCENT: f64 = 2.5;

pub(super) fn all(workload: &Workload, number: usize) -> impl Iterator<Item = Plot> {
    let drawn = [course(workload, number), rates(workload, number)];
    drawn.into_iter().filter_map(Plot::drawn)
}

fn course(workload: &Workload, number: usize) -> Plot {
    let mut plot = Plot::new(
        format!("{SECTION}-course-{number}"),
        format!("After a fork: {}", workload.name()),
        Axis::linear("Since the fork, of the interval", "fraction"),
        Axis::linear("Writes", "per_s"),
    )
    .caption("Medians over forks and rounds, in twentieths of the interval.");
    for one in workload.configurations.iter() {
        let case = workload.case(&one);
        let phases = case.numbers(PHASE_PERCENT).into_iter();
        let points = phases.filter_map(|percent| {
            let rate = case.with(PHASE_PERCENT, percent).median(AFTER_FORK_PER_S)?;
            Some(((percent as f64 + HALF_A_PHASE_PERCENT) / 100.0, rate))
        });
        let name = plain(&workload.configurations.name(&one));
        plot.draw(Series::line(name, points, one.is_plain()));
    }
    plot
}

fn rates(workload: &Workload, number: usize) -> Plot {
    let mut plot = Plot::new(
        format!("{SECTION}-rates-{number}"),
        format!("Rates of windows: {}", workload.name()),
        Axis::linear("Writes", "per_s"),
        Axis::linear("Share of the windows that are at most as fast", "fraction"),
    )
    .caption("CCoW's Figure 6. All rounds together; a window is a fiftieth of an interval.");
    for one in workload.configurations.iter() {
        let windows = workload.case(&one).of_metric(WINDOW_PER_S).distribution();
        plot.series.extend(
            windows.and_then(|rates| cdf(plain(&workload.configurations.name(&one)), &rates)),
        );
    }
    plot
}
