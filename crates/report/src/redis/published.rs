// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figure 7 and Table 1 of document 003 beside the same here and beside every other that copies
//! ahead.

use cowlab_analysis::compared::{change, counted_waste, estimated_waste, precopied};
use cowlab_analysis::configuration::Configuration;
use cowlab_schema::redis::{self as names, CLOSED, Snapshots};
use cowlab_schema::{Metric, Policy};

use super::Measured;
use crate::cells;
use crate::configuration::Names as _;
use crate::document::{Cell, Column, Table};
use crate::papers::CCOW;

/// A figure of one configuration.
type Figure = fn(&Measured, &Configuration) -> Option<f64>;

/// The document's own configuration.
const OWN: Policy = Policy::CoverageOf(80, 0, Policy::REGION_KB);

/// What was printed: its name, the row and the quantity, where.
const ROWS: [(&str, &str, &str, Figure, &str); 5] = [
    (
        "throughput, at most",
        "fig7.redis",
        "throughput_change_most_ratio",
        |m, one| against_plain(m, one, names::THROUGHPUT_PER_S),
        "Figure 7, of all its thresholds; here CCoW-80's",
    ),
    (
        "copies made ahead",
        "table1.ccow:80",
        "precopied_ratio",
        |m, one| precopied(&m.phase(one, CLOSED, Snapshots::Save)),
        "Table 1",
    ),
    (
        "memory",
        "table1.ccow:80",
        "memory_change_ratio",
        |m, one| against_plain(m, one, names::PSS_SUM_BYTES),
        "Table 1; RSS in print, PSS here",
    ),
    (
        "unnecessary, estimated",
        "table1.ccow:80",
        "unnecessary_ratio",
        |m, one| {
            estimated_waste(
                &m.plain(one, CLOSED, Snapshots::Save),
                &m.phase(one, CLOSED, Snapshots::Save),
            )
        },
        "Table 1: the growth of memory over the share made ahead; 23.4% to 35.6% of all thresholds",
    ),
    (
        "unnecessary, counted",
        "table1.ccow:80",
        "counted_ratio",
        |m, one| counted_waste(&one.of(&m.samples)),
        "what the dirty bits show, of all phases: made ahead and never written",
    ),
];

/// A column for each configuration that copies ahead, after the document's.
pub(super) fn table(measured: &Measured) -> Table {
    let all = &measured.configurations;
    let own = all.iter().find(|one| one.policy == OWN);
    let others: Vec<Configuration> =
        all.iter().filter(|one| !one.is_plain() && one.policy != OWN).collect();
    let mut columns = vec![
        Column::text("Figure"),
        Column::unit("Document 003", "fraction"),
        Column::unit("CCoW-80 here", "fraction"),
    ];
    columns.extend(others.iter().map(|one| Column::unit(all.name(one), "fraction")));
    columns.push(Column::text("Where and how"));
    let caption = "Document 003's Redis (10 GB, Linux 5.7.7, Xeon Gold 5215) beside the same here: \
                   the closed loop with BGSnapshots::Save; changes are against plain copy-on-write";
    let mut table = Table::new("redis-published", caption, columns);
    for (what, row, quantity, figure, how) in ROWS {
        let number =
            |figure: Option<f64>, missing: &str| cells::number(figure, "fraction", missing);
        let here = own.and_then(|one| figure(measured, &one));
        let mut cells = vec![
            Cell::text(what),
            number(CCOW.value(row, quantity), "document 003 does not say"),
            number(here, "`ccow:80` was not measured, or is not counted"),
        ];
        let missing = "nothing was copied ahead, or the kernel does not tell";
        cells.extend(others.iter().map(|one| number(figure(measured, one), missing)));
        cells.push(Cell::text(how));
        table.push(cells);
    }
    table
}

fn against_plain(measured: &Measured, one: &Configuration, metric: Metric) -> Option<f64> {
    let (plain, own) = (
        measured.plain(one, CLOSED, Snapshots::Save),
        measured.phase(one, CLOSED, Snapshots::Save),
    );
    change(&plain, &own, metric).map(|e| e.value)
}
