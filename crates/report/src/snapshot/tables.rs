// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Of each workload: what its configurations write, how long a write takes, what copies occupy.

use std::collections::BTreeSet;

use cowlab_analysis::compared::{
    change, counted_waste, estimated_waste, lost, precopied, won_back,
};
use cowlab_analysis::configuration::Configuration;
use cowlab_analysis::samples::Samples;
use cowlab_schema::{Metric, Quantile, snapshot as names};

use super::SECTION;
use super::workload::Workload;
use crate::Rows;
use crate::cells::{self, MISSING, NOTHING_AHEAD, OfSamples};
use crate::document::{Cell, Table};
use crate::fmt;
use crate::papers::CCOW;

/// A row: what a configuration measured, or the same writes without forks.
struct Case<'a> {
    name: String,
    samples: Samples<'a>,
    /// `None` without forks.
    one: Option<Configuration<'a>>,
}

impl<'a> Case<'a> {
    fn of(workload: &Workload<'a>, one: Configuration<'a>) -> Case<'a> {
        let name = workload.configurations.name(&one);
        Case { name, samples: workload.case(&one), one: Some(one) }
    }

    /// The same writes without forks, for each size of pages.
    fn without_forks(workload: &Workload<'a>) -> Vec<Case<'a>> {
        let mut pages = BTreeSet::new();
        let first = workload.configurations.iter().filter(|one| pages.insert(one.page));
        let case = |one: Configuration<'a>| {
            let name = format!("no forks{}", workload.configurations.pages(one.page));
            Case { name, samples: workload.reference(&one), one: None }
        };
        first.map(case).collect()
    }

    fn own(&self) -> Samples<'a> {
        self.samples.clone()
    }

    fn figure(&self, of: impl Fn(&Configuration<'a>) -> Cell) -> Cell {
        cells::or(self.one.as_ref().map(of), "there is no fork")
    }
}

fn rows<'a, 'b>(id: String, caption: String, cases: &'b [Case<'a>]) -> Rows<'b, Case<'a>> {
    Rows::of(id, caption, cases).text("Configuration", |case| case.name.clone())
}

pub(super) fn all(workload: &Workload, number: usize) -> [Table; 3] {
    let forking: Vec<Case> =
        workload.configurations.iter().map(|one| Case::of(workload, one)).collect();
    let memory = memory(workload, number, &forking);
    let mut cases = Case::without_forks(workload);
    cases.extend(forking);
    [writes(workload, number, &cases), times(workload, number, &cases), memory]
}

fn writes(workload: &Workload, number: usize, cases: &[Case]) -> Table {
    let caption = format!("{}; medians of the rounds with 95% intervals", forked(workload));
    let published = |one: &Configuration| {
        let row = format!("fig5.{}.{}", workload.param(names::ZIPF_ALPHA), one.policy);
        let figure = CCOW.value(&row, "throughput_change_ratio");
        cells::number(figure, "fraction", "the paper does not say")
    };
    let won = |one: &Configuration| {
        let plain = || lost(&workload.plain_reference(one), &workload.plain(one));
        let own = || lost(&workload.reference(one), &workload.case(one));
        cells::unless_itself(workload.configurations.is_base(one), || {
            cells::estimate_or_reason(won_back(&plain(), &own()), "fraction")
        })
    };
    rows(format!("{SECTION}-{number}"), caption, cases)
        .metric("Writes", names::THROUGHPUT_PER_S, Case::own)
        .unit("against plain", "fraction", |case| {
            case.figure(|one| beside(workload, one, names::THROUGHPUT_PER_S))
        })
        .unit("CCoW (2022)", "fraction", |case| case.figure(published))
        .unit("Won back", "fraction", |case| case.figure(won))
        .unit("Lowest window", "per_s", |case| {
            let lowest = case.samples.estimate(names::LOWEST_WINDOW_PER_S);
            case.figure(|_| cells::estimate(lowest, "per_s", MISSING))
        })
        .table()
}

fn times<'a>(workload: &Workload, number: usize, cases: &[Case<'a>]) -> Table {
    let caption =
        format!("{}: one write in 16 is timed; a fork's time is its call's", workload.name());
    let at = |quantile| move |case: &Case<'a>| case.samples.with(names::QUANTILE, quantile);
    rows(format!("{SECTION}-times-{number}"), caption, cases)
        .metric("A write, p50", names::LATENCY_NS, at(Quantile::P50))
        .metric("p99", names::LATENCY_NS, at(Quantile::P99))
        .metric("p99.9", names::LATENCY_NS, at(Quantile::P99_9))
        .metric("Fork", names::FORK_NS, at(Quantile::P50))
        .table()
}

fn memory(workload: &Workload, number: usize, cases: &[Case]) -> Table {
    let caption = format!(
        "{}: memory of all processes at the ends of intervals, and copies",
        workload.name()
    );
    let waste = |case: &Case| estimated_waste(&workload.plain(&case.one?), &case.samples);
    rows(format!("{SECTION}-memory-{number}"), caption, cases)
        .metric("Sum of PSS", names::PSS_SUM_BYTES, Case::own)
        .unit("against plain", "fraction", |case| {
            case.figure(|one| beside(workload, one, names::PSS_SUM_BYTES))
        })
        .metric("Faults", names::MINOR_FAULTS, Case::own)
        .number("Copied ahead", "fraction", NOTHING_AHEAD, |case| precopied(&case.samples))
        .number("Unnecessary, estimated", "fraction", NOTHING_AHEAD, waste)
        .number("never written", "fraction", NOTHING_AHEAD, |case| counted_waste(&case.samples))
        .table()
}

fn forked(workload: &Workload) -> String {
    let ns = |of: Samples, metric| of.median(metric).map(|ns| fmt::quantity(ns, "ns"));
    let found = |metric| ns(workload.calibration(), metric);
    let why = match (found(names::RECOVERY_NS), found(names::LOOKED_NS)) {
        (Some(recovery), _) => format!("plain copy-on-write gets over one in {recovery}"),
        (None, Some(looked)) => {
            format!("plain copy-on-write did not get over one within {looked}")
        }
        (None, None) => "as it was asked for".to_owned(),
    };
    let first = workload.configurations.iter().next().map(|one| workload.case(&one));
    let interval =
        first.and_then(|case| ns(case, names::INTERVAL_NS_FOUND)).unwrap_or_else(|| "?".into());
    format!("{}: a fork every {interval} ({why})", workload.name())
}

/// A figure's change against plain copy-on-write.
fn beside(workload: &Workload, one: &Configuration, metric: Metric) -> Cell {
    cells::unless_itself(workload.configurations.is_base(one), || {
        let change = change(&workload.plain(one), &workload.case(one), metric);
        cells::estimate(change, "fraction", MISSING)
    })
}
