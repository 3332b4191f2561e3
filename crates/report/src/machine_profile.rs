// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine profile as a table.

use cowlab_model::profile::{Cost, MachineProfile};
use cowlab_schema::{Metric, calibrate};

use crate::Rows;
use crate::cells;
use crate::document::{Cell, Table};

pub(crate) const TABLE: &str = "machine-profile";

/// Every primitive cost, and why one is missing.
pub fn table(profile: &MachineProfile) -> Table {
    let of = |metric: &Metric, cell: fn(&Cost) -> Cell| {
        cells::or(profile.costs.get(metric.name).map(cell), reason(metric.name))
    };
    Rows::of(TABLE, "The machine profile", calibrate::BENCH.metrics)
        .text("Cost", Metric::what)
        .figure("Median (95% interval)", |metric| {
            of(metric, |cost| {
                let e = cost.estimate;
                Cell::estimate(e.value, e.low, e.high, &cost.unit)
            })
        })
        .figure("Rounds", |metric| of(metric, |cost| Cell::count(cost.estimate.count as u64)))
        .text("Name in the profile", |metric| format!("`{}`", metric.name))
        .table()
}

fn reason(name: &str) -> &'static str {
    if name.starts_with("thp") {
        "needs huge pages"
    } else if name.contains("threads") || name == calibrate::REMOTE_FLUSH_NS.name {
        "needs a second CPU"
    } else {
        "was not measured in this run"
    }
}
