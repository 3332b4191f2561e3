// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The next-page study, every figure that it published, beside the same here at its depth of one
//! page.

use cowlab_analysis::compared::{change, ratio};
use cowlab_analysis::samples::Samples;
use cowlab_model::Estimate;
use cowlab_model::stats::estimate;
use cowlab_schema::cow_faults::{
    self, COPY_NS, COW_FAULTS, ELAPSED_NS, PAGES_WRITTEN, PATTERN, POLICY, PRECOPY_PAGES, QUANTILE,
    SIZE_BYTES,
};
use cowlab_schema::{Metric, Params, Pattern, Quantile};

use super::cases::{Measured, NEXT, OFF, Workload, per_page};
use crate::Rows;
use crate::cells::{self, MISSING};
use crate::document::{Cell, Table};
use crate::papers::{self, COW_STUDY, Line};

pub(super) const TABLE: &str = "pre-copy-published";

pub(super) fn table(measured: &Measured) -> Table {
    let caption = "The next-page study's figures beside the same here, with its own depth of one \
                   page: changes are `next` against `off`, round by round in one boot";
    Rows::of(TABLE, caption, COW_STUDY.lines(TABLE))
        .text("Figure", |line| &line.what)
        .figure("Next-page study", |line| line.there("not published"))
        .figure("here (95% interval)", |line| match &line.never {
            Some(reason) => Cell::Missing(reason.clone()),
            None => estimate_cell(here(measured, line), &line.unit),
        })
        .text("Where and how", |line| &line.how)
        .table()
}

/// The same figure here.
fn here(measured: &Measured, line: &Line) -> Option<Estimate> {
    match (&line.here, line.figure.as_str()) {
        (Some(figure), _) => of_case(measured, figure, &line.params),
        // The sizes differ, so the change of the whole is divided by theirs.
        (_, "page_time_change_ratio") => {
            let pattern = PATTERN.of(&line.params)?;
            let [small, large] = [16, 64].map(|mib| measured.case(Workload::of(pattern, mib), OFF));
            let change = change(&small, &large, ELAPSED_NS)?;
            Some(change.map(|value| (1.0 + value) / 4.0 - 1.0))
        }
        (_, figure) => of_both(measured, figure),
    }
}

fn of_case(measured: &Measured, of: &papers::Measured, params: &Params) -> Option<Estimate> {
    let case = |params: &Params| {
        let workload =
            Workload { pattern: PATTERN.of(params)?, bytes: SIZE_BYTES.of(params)?, threads: 0 };
        let case = measured.case(workload, POLICY.of(params)?);
        Some(match QUANTILE.of(params) {
            Some(quantile) => case.with(QUANTILE, quantile),
            None => case,
        })
    };
    let (own, metric) = (case(params)?, cow_faults::BENCH.metric(&of.metric)?);
    match (&of.against, &of.per) {
        (Some(against), _) => {
            let base: Params = [params, against].into_iter().flat_map(Params::clone).collect();
            change(&case(&base)?, &own, metric)
        }
        (None, Some(per)) => ratio(&own, metric, cow_faults::BENCH.metric(per)?),
        (None, None) => own.estimate(metric),
    }
}

/// What follows from sequential writes with `off` and with `next`: table II, with the document's
/// formula and our costs, by the larger size if it was measured.
fn of_both(measured: &Measured, figure: &str) -> Option<Estimate> {
    let [small, large] = [16, 64].map(|mib| Workload::of(Pattern::Sequential, mib));
    let copy_share = || {
        let off = measured.case(small, OFF);
        let copy = off.with(QUANTILE, Quantile::Mean).estimate(COPY_NS)?;
        Some(quotient(copy, per_page(&off, ELAPSED_NS)?))
    };
    let workload = if measured.case(large, OFF).is_empty() { small } else { large };
    let (off, next) = (measured.case(workload, OFF), measured.case(workload, NEXT));
    let (fault, ahead) = (per_page(&off, ELAPSED_NS), precopy_ns(&off, &next));
    let interval = |value, low, high, count| Some(Estimate { value, low, high, count });
    match figure {
        "copy_share_ratio" => copy_share(),
        "rest_share_ratio" => {
            let Estimate { value, low, high, count } = copy_share()?;
            interval(1.0 - value, 1.0 - high, 1.0 - low, count)
        }
        "trap_ns" => fault,
        "precopy_ns" => ahead,
        "saved_ns" => {
            let (fault, ahead) = (fault?, ahead?);
            let value = fault.value - ahead.value;
            interval(value, fault.low - ahead.high, fault.high - ahead.low, ahead.count)
        }
        "break_even_hit_ratio" => Some(quotient(ahead?, fault?)),
        _ => None,
    }
}

/// The run with pre-copy is its faults, each as dear as without, and the pages copied ahead.
fn precopy_ns(off: &Samples, next: &Samples) -> Option<Estimate> {
    let by = |metric: Metric| next.by_round(metric);
    let (faults, ahead, elapsed) = (by(COW_FAULTS), by(PRECOPY_PAGES), by(ELAPSED_NS));
    let (off_elapsed, pages) = (off.by_round(ELAPSED_NS), off.by_round(PAGES_WRITTEN));
    let each: Vec<f64> = elapsed
        .into_iter()
        .filter_map(|(round, elapsed)| {
            let fault = off_elapsed.get(&round)? / pages.get(&round)?;
            let ahead = ahead.get(&round).filter(|pages| **pages > 0.0)?;
            Some((elapsed - fault * faults.get(&round)?) / ahead)
        })
        .collect();
    estimate(&each)
}

/// A quotient with the widest interval that its parts allow.
fn quotient(above: Estimate, below: Estimate) -> Estimate {
    Estimate {
        value: above.value / below.value,
        low: above.low / below.high,
        high: above.high / below.low,
        count: above.count.min(below.count),
    }
}

fn estimate_cell(figure: Option<Estimate>, unit: &str) -> Cell {
    let figure = figure.filter(|e| e.value.is_finite());
    match unit {
        "change" => cells::change(figure, MISSING),
        unit => cells::estimate(figure, unit, MISSING),
    }
}
