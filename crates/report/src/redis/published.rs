// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 7 and Table 1 of CCoW (2022) beside the same here and beside every other that copies
//! ahead.

use cowlab_analysis::compared::{change, counted_waste, estimated_waste, precopied};
use cowlab_analysis::configuration::Configuration;
use cowlab_schema::redis::{self as names, CLOSED, Snapshots};
use cowlab_schema::{Metric, Policy};

use super::Measured;
use crate::Rows;
use crate::cells::{self, NOTHING_AHEAD};
use crate::document::{Column, Table};
use crate::papers::{CCOW, Line};

const TABLE: &str = "redis-published";

const OWN: Policy = Policy::CoverageOf(80, Policy::REGION_KB);

fn figure(measured: &Measured, one: &Configuration, figure: &str) -> Option<f64> {
    let plain = measured.plain(one, CLOSED, Snapshots::Save);
    let own = measured.phase(one, CLOSED, Snapshots::Save);
    let against_plain = |metric: Metric| change(&plain, &own, metric).map(|e| e.value);
    match figure {
        "throughput_change_most_ratio" => against_plain(names::THROUGHPUT_PER_S),
        "precopied_ratio" => precopied(&own),
        "memory_change_ratio" => against_plain(names::PSS_SUM_BYTES),
        "unnecessary_ratio" => estimated_waste(&plain, &own),
        "counted_ratio" => counted_waste(&one.of(&measured.samples)),
        _ => None,
    }
}

/// A column for each configuration that copies ahead, after the document's.
pub(super) fn table(measured: &Measured) -> Table {
    let all = &measured.configurations;
    let own = all.iter().find(|one| one.policy == OWN);
    let caption = "CCoW's Redis (10 GB, Linux 5.7.7, Xeon Gold 5215) beside the same here: \
                   the closed loop with BGSnapshots::Save; changes are against plain copy-on-write";
    let share = |figure, missing: &str| cells::number(figure, "fraction", missing);
    let missing = "`ccow:80` was not measured, or is not counted";
    let mut rows = Rows::of(TABLE, caption, CCOW.lines(TABLE))
        .text("Figure", |line| &line.what)
        .unit("CCoW (2022)", "fraction", |line| share(line.there, "the paper does not say"))
        .number("CCoW-80 here", "fraction", missing, |line: &Line| {
            figure(measured, &own?, &line.figure)
        });
    for one in all.iter().filter(|one| !one.is_plain() && one.policy != OWN) {
        rows = rows.column(Column::unit(all.name(&one), "fraction"), |line| {
            share(figure(measured, &one, &line.figure), NOTHING_AHEAD)
        });
    }
    rows.text("Where and how", |line| &line.how).table()
}
