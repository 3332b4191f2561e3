// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CCoW (2022), every figure that its text states, beside the same here and beside the best here.

use cowlab_analysis::compared::{change, counted_waste, estimated_waste, precopied};
use cowlab_analysis::configuration::Configuration;
use cowlab_model::Estimate;
use cowlab_schema::{Metric, Policy, Quantile, snapshot as names};

use super::workload::Workload;
use crate::Rows;
use crate::cells;
use crate::document::{Cell, Column, Table};
use crate::fmt;
use crate::papers::{CCOW, Line};

const TABLE: &str = "snapshot-published";

/// The thresholds of its Figure 4, in percent.
const THRESHOLDS: std::ops::RangeInclusive<u32> = 70..=95;

/// A figure, with its interval where rounds have one each.
#[derive(Clone, Copy)]
enum Measured {
    Rounds(Estimate),
    Whole(f64),
}

const FASTEST: &str = "nothing that copies ahead was measured at this α";

pub(super) fn table(workloads: &[Workload]) -> Table {
    let caption = "CCoW's figures (16 GB, Linux 5.7.7, Xeon Gold 5215) beside the same \
                   configuration here, and beside the one that wrote fastest of all that copy ahead \
                   at that α; changes are against plain copy-on-write, round by round";
    let at = |line: &Line| {
        let alpha = line.params.get(names::ZIPF_ALPHA.name())?;
        workloads.iter().find(|workload| workload.param(names::ZIPF_ALPHA) == alpha)
    };
    let best = |line: &Line| at(line).and_then(|own| Some((own, fastest(own)?)));
    Rows::of(TABLE, caption, CCOW.lines(TABLE))
        .text("Figure", |line| &line.what)
        .figure("CCoW (2022)", |line| {
            cell(line.there.map(Measured::Whole), &line.unit, "the paper does not say")
        })
        .figure("the same here (95% interval)", |line| same(workloads, at(line), line))
        .figure("the fastest here", |line| {
            let its = best(line).and_then(|(own, one)| figure(own, &one, &line.figure));
            cell(its, &line.unit, FASTEST)
        })
        .column(Column::text("which is"), |line| {
            let name = best(line).map(|(own, one)| own.configurations.name(&one));
            cells::or(name.map(Cell::text), FASTEST)
        })
        .text("Where and how", |line| &line.how)
        .table()
}

/// The figure of the line's policy at its α, or the least or largest of all thresholds at any.
fn same(workloads: &[Workload], at: Option<&Workload>, line: &Line) -> Cell {
    let all = || -> Vec<Measured> {
        let of = |own: &Workload| {
            let all = own.configurations.iter().filter(has_the_documents_threshold);
            all.filter_map(|one| figure(own, &one, &line.figure)).collect::<Vec<_>>()
        };
        workloads.iter().flat_map(of).collect()
    };
    let by_value = |a: &Measured, b: &Measured| a.value().total_cmp(&b.value());
    let none = "no threshold of 70 to 95% was measured";
    match line.figure.as_str() {
        "memory_change_most_ratio" | "unnecessary_most_ratio" => {
            cell(all().into_iter().max_by(by_value), &line.unit, none)
        }
        "unnecessary_least_ratio" => cell(all().into_iter().min_by(by_value), &line.unit, none),
        name => {
            let policy = names::POLICY.of(&line.params).unwrap_or(Policy::Off);
            let own = at.and_then(|own| figure(own, &with_policy(own, policy)?, name));
            let alpha = &line.params[names::ZIPF_ALPHA.name()];
            cell(own, &line.unit, &format!("`{policy}` was not measured at α {alpha}"))
        }
    }
}

fn figure(workload: &Workload, one: &Configuration, figure: &str) -> Option<Measured> {
    let (plain, case) = (workload.plain(one), workload.case(one));
    let against_plain = |metric: Metric| change(&plain, &case, metric).map(Measured::Rounds);
    match figure {
        "throughput_change_ratio" => against_plain(names::THROUGHPUT_PER_S),
        "memory_change_ratio" | "memory_change_most_ratio" => against_plain(names::PSS_SUM_BYTES),
        "lowest_per_s" => case.estimate(names::LOWEST_WINDOW_PER_S).map(Measured::Rounds),
        "usual_per_s" => {
            let windows = case.with(names::QUANTILE, Quantile::P90);
            windows.estimate(names::WINDOW_PER_S).map(Measured::Rounds)
        }
        "operations_ratio" => {
            let preferred = case.median(names::PREFERRED_FIFTH_WRITES)?;
            Some(Measured::Whole(preferred / case.median(names::WRITES_MADE)?))
        }
        "precopied_ratio" => precopied(&case).map(Measured::Whole),
        "counted_ratio" => counted_waste(&case).map(Measured::Whole),
        _ => estimated_waste(&plain, &case).map(Measured::Whole),
    }
}

fn has_the_documents_threshold(one: &Configuration) -> bool {
    matches!(one.policy, Policy::CoverageOf(percent, Policy::REGION_KB)
        if THRESHOLDS.contains(&percent))
}

fn with_policy<'a>(workload: &Workload<'a>, policy: Policy) -> Option<Configuration<'a>> {
    // Where no policy was set the kernel's own is plain copy-on-write.
    let is =
        |one: &Configuration| one.policy == policy || (policy == Policy::Off && one.is_plain());
    let base = |one: &Configuration| !one.is_plain() || workload.configurations.is_base(one);
    workload.configurations.iter().find(|one| is(one) && base(one))
}

fn fastest<'a>(workload: &Workload<'a>) -> Option<Configuration<'a>> {
    let rate =
        |one: &Configuration| workload.case(one).median(names::THROUGHPUT_PER_S).unwrap_or(0.0);
    let ahead = workload.configurations.iter().filter(|one| !one.is_plain());
    ahead.max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

impl Measured {
    fn value(&self) -> f64 {
        match self {
            Measured::Rounds(e) => e.value,
            Measured::Whole(value) => *value,
        }
    }
}

fn written(value: f64, unit: &str) -> String {
    match unit {
        "change" => format!("{:+.1}%", value * 100.0),
        unit => fmt::quantity(value, unit),
    }
}

fn cell(figure: Option<Measured>, unit: &str, missing: &str) -> Cell {
    match figure {
        None => Cell::Missing(missing.to_owned()),
        Some(Measured::Whole(value)) => Cell::Number { value, text: written(value, unit) },
        Some(Measured::Rounds(Estimate { value, low, high, .. })) => {
            let [own, from, to] = [value, low, high].map(|value| written(value, unit));
            let text = if low == high { own } else { format!("{own} ({from} to {to})") };
            Cell::Estimate { value, low, high, text }
        }
    }
}
