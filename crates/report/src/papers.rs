// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The published figures, from `papers/*.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use cowlab_schema::Params;
use serde::Deserialize;

use crate::cells;
use crate::document::Cell;

/// Smith and Maguire 1988.
pub(crate) static SMITH: LazyLock<Paper> =
    LazyLock::new(|| Paper::parse(include_str!("../../../papers/000-smith-maguire-1988.toml")));
/// Copy-on-Write Optimization Study 2024.
pub(crate) static COW_STUDY: LazyLock<Paper> = LazyLock::new(|| {
    Paper::parse(include_str!("../../../papers/002-cow-optimization-study-2024.toml"))
});
pub(crate) static CCOW: LazyLock<Paper> =
    LazyLock::new(|| Paper::parse(include_str!("../../../papers/003-ccow-2022.toml")));
/// The replay of table 28-3 on arm64.
pub(crate) static FORK_TABLE: LazyLock<Paper> =
    LazyLock::new(|| Paper::parse(include_str!("../../../papers/004-fork-vfork-table.toml")));
/// Table 28-3 of The Linux Programming Interface.
pub(crate) static TLPI: LazyLock<Paper> =
    LazyLock::new(|| Paper::parse(include_str!("../../../papers/tlpi-table-28-3.toml")));

#[derive(Debug, Deserialize)]
pub(crate) struct Paper {
    #[serde(rename = "row")]
    rows: Vec<Row>,
    quantity: BTreeMap<String, Quantity>,
    #[serde(default)]
    beside: Beside,
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    #[serde(default)]
    params: Params,
    #[serde(default)]
    values: BTreeMap<String, f64>,
    #[serde(default)]
    recomputed: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize)]
struct Quantity {
    unit: String,
    here: Option<Measured>,
}

/// How a quantity is measured here: a metric, for each of another, or as the change of it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Measured {
    pub metric: String,
    pub per: Option<String>,
    /// The params of what it is compared with that are others than the line's.
    pub against: Option<Params>,
}

/// The lines of tables, by the tables' ids, and the params of those that name none.
#[derive(Debug, Default, Deserialize)]
struct Beside {
    params: Params,
    #[serde(flatten)]
    tables: BTreeMap<String, Vec<Line>>,
}

/// A line of a table that has published figures beside those measured here.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    pub what: String,
    row: Option<String>,
    pub figure: String,
    /// Of what it is measured here.
    #[serde(default, rename = "at")]
    pub params: Params,
    /// Why there can be no figure here.
    pub never: Option<String>,
    /// Where the figure stands, and how ours differs.
    #[serde(default)]
    pub how: String,
    /// Of the figures: `ns`, `per_s`, `fraction`, or `change`.
    #[serde(skip)]
    pub unit: String,
    /// As printed, or as the document's own figures give it.
    #[serde(skip)]
    pub there: Option<f64>,
    /// How it is measured here, if that is a metric's figure.
    #[serde(skip)]
    pub here: Option<Measured>,
}

impl Line {
    pub fn there(&self, missing: &str) -> Cell {
        match self.there {
            Some(value) if self.unit == "change" => {
                Cell::Number { value, text: cells::signed(value) }
            }
            there => cells::number(there, &self.unit, missing),
        }
    }
}

impl Paper {
    fn parse(text: &str) -> Paper {
        let mut paper: Paper = toml::from_str(text).expect("papers/*.toml are parsed by a test");
        let mut tables = std::mem::take(&mut paper.beside.tables);
        tables.values_mut().flatten().for_each(|line| paper.complete(line));
        paper.beside.tables = tables;
        paper
    }

    fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// What a line says, with what its row and its quantity do.
    fn complete(&self, line: &mut Line) {
        let row = line.row.as_ref().and_then(|id| self.row(id));
        let of_row = row.map(|row| row.params.clone()).unwrap_or_default();
        let all = [&self.beside.params, &of_row, &line.params];
        line.params = all.into_iter().flat_map(Params::clone).collect();
        let Quantity { unit, here } = &self.quantity[&line.figure];
        let (unit, factor) = match unit.as_str() {
            "ms" => ("ns", 1e6),
            "ratio" => ("fraction", 1.0),
            unit => (unit, 1.0),
        };
        let printed = |row: &Row| {
            let of = |figures: &BTreeMap<String, f64>| figures.get(&line.figure).copied();
            of(&row.values).or_else(|| of(&row.recomputed))
        };
        line.there = row.and_then(printed).map(|value| value * factor);
        (line.unit, line.here) = (unit.to_owned(), here.clone());
    }

    pub(crate) fn value(&self, id: &str, quantity: &str) -> Option<f64> {
        self.row(id)?.values.get(quantity).copied()
    }

    /// What the document's own formula and figures give, where that differs from the print.
    pub(crate) fn recomputed(&self, id: &str, quantity: &str) -> Option<f64> {
        let row = self.row(id)?;
        row.recomputed.get(quantity).or_else(|| row.values.get(quantity)).copied()
    }

    pub(crate) fn lines(&self, table: &str) -> &[Line] {
        self.beside.tables.get(table).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use cowlab_schema::cow_faults;

    use super::*;

    #[test]
    fn every_line_has_its_row_and_its_metrics() {
        for paper in [&*COW_STUDY, &*CCOW] {
            for line in paper.beside.tables.values().flatten() {
                assert!(line.row.iter().all(|id| paper.row(id).is_some()), "{line:?}");
                let here = line.here.iter().flat_map(|of| [Some(&of.metric), of.per.as_ref()]);
                let known = |name: &String| cow_faults::BENCH.metric(name).is_some();
                assert!(here.flatten().all(known), "{line:?}");
            }
        }
    }

    #[test]
    fn every_file_is_read() {
        assert_eq!(SMITH.value("3b2.frac-0.5", "slope_s_per_byte"), Some(7.670e-4));
        assert_eq!(SMITH.recomputed("hp.frac-0.1", "service_rate_pages_per_s"), Some(827.0));
        assert_eq!(SMITH.recomputed("hp.frac-0.1", "intercept_s"), Some(12.7));
        assert_eq!(COW_STUDY.value("fault.mean", "fault_ns"), Some(6782.0));
        assert_eq!(CCOW.value("table1.ccow:80", "unnecessary_ratio"), Some(0.249));
        assert_eq!(FORK_TABLE.value("touched.fork.1782579", "rate_per_s"), Some(3368.0));
        assert_eq!(TLPI.value("fork.11.70", "elapsed_s"), Some(126.93));
        assert_eq!(TLPI.value("nothing", "elapsed_s"), None);
    }
}
