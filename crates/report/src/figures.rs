// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures as one table.

use cowlab_analysis::figures::Figure;

use crate::cells;
use crate::document::{Cell, Column, Table};

/// A table of figures; parameters that are the same everywhere are left out of its columns.
pub fn table(id: &str, caption: &str, figures: &[Figure]) -> Table {
    let mut names: Vec<&String> = figures.iter().flat_map(|f| f.key.params.keys()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| {
        let first = figures.first().and_then(|f| f.key.params.get(*name));
        figures.iter().any(|f| f.key.params.get(*name) != first)
    });
    let mut columns: Vec<Column> = names.iter().map(|name| Column::text(name.as_str())).collect();
    columns.push(Column::text("metric"));
    columns.push(Column::number("median (95% interval)"));
    columns.push(Column::number("repetitions"));
    let mut table = Table::new(id, caption, columns);
    for figure in figures {
        let mut row: Vec<Cell> = names
            .iter()
            .map(|name| Cell::text(figure.key.params.get(*name).map_or("", String::as_str)))
            .collect();
        row.push(Cell::text(&figure.key.metric));
        row.push(cells::estimate(Some(figure.estimate), &figure.key.unit, ""));
        row.push(Cell::count(figure.estimate.count as u64));
        table.push(row);
    }
    table
}
