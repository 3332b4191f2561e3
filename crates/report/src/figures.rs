// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures as one table.

use cowlab_analysis::figures::Figure;

use crate::Rows;
use crate::cells;
use crate::document::{Cell, Table};

/// A table of figures; parameters that are the same everywhere are left out of its columns.
pub fn table(id: &str, caption: &str, figures: &[Figure]) -> Table {
    let mut names: Vec<&String> = figures.iter().flat_map(|f| f.key.params.keys()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| {
        let first = figures.first().and_then(|f| f.key.params.get(*name));
        figures.iter().any(|f| f.key.params.get(*name) != first)
    });
    let mut rows = Rows::of(id, caption, figures);
    for name in names {
        rows = rows.text(name, |of| of.key.params.get(name).map_or("", String::as_str));
    }
    rows.text("metric", |of| &of.key.metric)
        .figure("median (95% interval)", |of| cells::estimate(Some(of.estimate), &of.key.unit, ""))
        .figure("repetitions", |of| Cell::count(of.estimate.count as u64))
        .table()
}
