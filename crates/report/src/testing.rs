// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tests of several reports do with runs, tables and cells.

use cowlab_store::{Run, RunInfo, Sample};

use crate::document::{Block, Cell, Section, Table};

pub(crate) fn run(name: &str, samples: Vec<Sample>) -> Run {
    Run { info: RunInfo::begin(name, 1, Default::default()), samples }
}

pub(crate) fn tables(section: Section) -> Vec<Table> {
    let table = |block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    };
    section.blocks.into_iter().filter_map(table).collect()
}

pub(crate) fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Number { value, .. } | Cell::Estimate { value, .. } => *value,
        _ => panic!("no figure: {cell:?}"),
    }
}

pub(crate) fn names(table: &Table) -> Vec<&str> {
    table.rows.iter().map(|row| row[0].display()).collect()
}
