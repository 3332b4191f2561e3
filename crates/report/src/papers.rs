// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The published figures, from `papers/*.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// Smith and Maguire 1988.
pub(crate) static SMITH: LazyLock<Paper> =
    LazyLock::new(|| Paper::parse(include_str!("../../../papers/000-smith-maguire-1988.toml")));
/// Copy-on-Write Optimization Study 2024.
pub(crate) static COW_STUDY: LazyLock<Paper> = LazyLock::new(|| {
    Paper::parse(include_str!("../../../papers/002-cow-optimization-study-2024.toml"))
});
/// CCoW 2022.
pub(crate) static CCOW: LazyLock<Paper> =
    LazyLock::new(|| Paper::parse(include_str!("../../../papers/003-ccow-2022.toml")));
/// The replay of table 28-3 on arm64.
pub(crate) static FORK_TABLE: LazyLock<Paper> =
    LazyLock::new(|| Paper::parse(include_str!("../../../papers/004-fork-vfork-table.toml")));
/// Table 28-3 of The Linux Programming Interface.
pub(crate) static TLPI: LazyLock<Paper> =
    LazyLock::new(|| Paper::parse(include_str!("../../../papers/tlpi-table-28-3.toml")));

/// One document's figures.
#[derive(Debug, Deserialize)]
pub(crate) struct Paper {
    #[serde(rename = "row")]
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    #[serde(default)]
    values: BTreeMap<String, f64>,
    #[serde(default)]
    recomputed: BTreeMap<String, f64>,
}

impl Paper {
    fn parse(text: &str) -> Paper {
        toml::from_str(text).expect("papers/*.toml are parsed by a test")
    }

    fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// A figure as printed.
    pub(crate) fn value(&self, id: &str, quantity: &str) -> Option<f64> {
        self.row(id)?.values.get(quantity).copied()
    }

    /// What the document's own formula and figures give, where that differs from the print.
    pub(crate) fn recomputed(&self, id: &str, quantity: &str) -> Option<f64> {
        let row = self.row(id)?;
        row.recomputed.get(quantity).or_else(|| row.values.get(quantity)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
