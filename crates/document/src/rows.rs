// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables made column by column: what a column is called stands beside what it shows.

use cowlab_model::Estimate;

use crate::cells;
use crate::document::{Cell, Column, Table};

/// A table with a row for each of some things, to which columns are added.
pub struct Rows<'a, T> {
    things: &'a [T],
    table: Table,
}

impl<'a, T> Rows<'a, T> {
    /// A table without columns.
    pub fn of(id: impl Into<String>, caption: impl Into<String>, things: &'a [T]) -> Rows<'a, T> {
        let rows = things.iter().map(|_| Vec::new()).collect();
        Rows { things, table: Table { rows, ..Table::new(id, caption, Vec::new()) } }
    }

    pub fn table(self) -> Table {
        self.table
    }

    pub fn column(mut self, column: Column, cell: impl Fn(&'a T) -> Cell) -> Self {
        self.table.columns.push(column);
        for (row, thing) in self.table.rows.iter_mut().zip(self.things) {
            row.push(cell(thing));
        }
        self
    }

    pub fn text<S: Into<String>>(self, name: &str, text: impl Fn(&'a T) -> S) -> Self {
        self.column(Column::text(name), |thing| Cell::text(text(thing)))
    }

    /// Figures of different units, or of none.
    pub fn figure(self, name: &str, cell: impl Fn(&T) -> Cell) -> Self {
        self.column(Column::number(name), cell)
    }

    pub fn count(self, name: &str, count: impl Fn(&T) -> u64) -> Self {
        self.figure(name, |thing| Cell::count(count(thing)))
    }

    /// Cells with figures in `unit`.
    pub fn unit(self, name: &str, unit: &str, cell: impl Fn(&T) -> Cell) -> Self {
        self.column(Column::unit(name, unit), cell)
    }

    /// Figures in `unit`, and why one is missing.
    pub fn number(
        self,
        name: &str,
        unit: &str,
        missing: &str,
        figure: impl Fn(&T) -> Option<f64>,
    ) -> Self {
        self.unit(name, unit, |thing| cells::number(figure(thing), unit, missing))
    }

    /// The same with their intervals.
    pub fn estimate(
        self,
        name: &str,
        unit: &str,
        missing: &str,
        figure: impl Fn(&T) -> Option<Estimate>,
    ) -> Self {
        self.unit(name, unit, |thing| cells::estimate(figure(thing), unit, missing))
    }
}
