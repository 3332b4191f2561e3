// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench trace`: what an event and a call cost, beside the floor and beside one thread.

use std::collections::BTreeMap;

use cowlab_analysis::figures::{Key, grouped};
use cowlab_model::Estimate;
use cowlab_model::stats::estimate;
use cowlab_store::{Params, Sample};

use crate::cells::MISSING;
use crate::document::{Cell, Table};
use crate::rows::Rows;

/// What the table shows, in this order; the rest is raw material.
const METRICS: [(&str, &str); 6] = [
    ("event_ns", "an event"),
    ("event_off_ns", "an event, nobody records"),
    ("call_leaf_ns", "a leaf call"),
    ("call_nested_ns", "a nested call"),
    ("call_leaf_off_ns", "a leaf call, nobody records"),
    ("call_nested_off_ns", "a nested call, nobody records"),
];

/// A figure of each round, and those that it is compared with.
struct Row<'a> {
    what: &'static str,
    key: &'a Key,
    rounds: BTreeMap<u32, f64>,
    floor: Option<BTreeMap<u32, f64>>,
    one_thread: Option<BTreeMap<u32, f64>>,
}

/// The figures in `samples`, with their ratios: medians of what was measured in the same round.
pub fn table(samples: &[Sample]) -> Table {
    let groups = grouped(samples);
    let rounds_of = |key: &Key| Some(groups.get(key)?.by_round(key.metric.as_str()));
    let mut rows = Vec::new();
    for (metric, what) in METRICS {
        for key in groups.keys().filter(|key| key.metric == metric) {
            let mut alone = key.clone();
            alone.params.insert("threads".to_owned(), "1".to_owned());
            rows.push(Row {
                what,
                key,
                rounds: rounds_of(key).unwrap_or_default(),
                floor: floor_of(key, groups.keys()).and_then(rounds_of),
                one_thread: (alone != *key).then(|| rounds_of(&alone)).flatten(),
            });
        }
    }
    let param = |name: &'static str| {
        move |row: &Row| row.key.params.get(name).cloned().unwrap_or_else(|| "–".to_owned())
    };
    let own = |row: &Row| estimate(&row.rounds.values().copied().collect::<Vec<_>>());
    let caption = "ns an event and an instrumented call; calls without what the plain call takes";
    Rows::of("trace", caption, &rows)
        .text("what", |row| row.what)
        .text("tool", param("tool"))
        .text("variant", param("variant"))
        .text("threads", param("threads"))
        .unit("median (95% interval)", "ns", |row| match own(row) {
            Some(Estimate { value, low, high, .. }) => {
                Cell::estimate(value, low, high, &row.key.unit)
            }
            None => Cell::Missing(MISSING.to_owned()),
        })
        .figure("÷ floor", |row| {
            ratio(&row.rounds, row.floor.as_ref(), "the floor was not measured")
        })
        .figure("÷ one thread", |row| {
            let missing = "is one thread, or that was not measured";
            ratio(&row.rounds, row.one_thread.as_ref(), missing)
        })
        .count("rounds", |row| row.rounds.len() as u64)
        .table()
}

/// The floor with as many threads.
fn floor_of<'a>(key: &Key, mut keys: impl Iterator<Item = &'a Key>) -> Option<&'a Key> {
    let is = |params: &Params, name: &str, wanted: Option<&String>| params.get(name) == wanted;
    let floor = "floor".to_owned();
    keys.find(|candidate| {
        candidate.metric == "event_ns"
            && is(&candidate.params, "tool", Some(&floor))
            && is(&candidate.params, "threads", key.params.get("threads"))
    })
}

/// The median of the ratios of the rounds that have both.
fn ratio(rounds: &BTreeMap<u32, f64>, to: Option<&BTreeMap<u32, f64>>, why_not: &str) -> Cell {
    let ratios: Vec<f64> = rounds
        .iter()
        .filter_map(|(round, value)| Some(value / to?.get(round).filter(|to| **to > 0.0)?))
        .collect();
    match estimate(&ratios) {
        Some(Estimate { value, low, high, .. }) => Cell::estimate(value, low, high, ""),
        None => Cell::Missing(why_not.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(tool: &str, threads: &str, rep: u32, value: f64) -> Sample {
        let params = [("tool", tool), ("threads", threads), ("variant", "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        Sample { rep, ..Sample::new("trace", params.into(), "event_ns", value) }
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let mut samples = Vec::new();
        // The machine was half as fast in the second round; the ratio does not change.
        for (rep, slow) in [(0, 1.0), (1, 2.0), (2, 1.0)] {
            samples.push(sample("floor", "1", rep, 8.0 * slow));
            samples.push(sample("casper", "1", rep, 12.0 * slow));
            samples.push(sample("casper", "2", rep, 15.0 * slow));
        }
        let table = table(&samples);
        let find = |tool: &str, threads: &str| {
            let row = |row: &&Vec<Cell>| row[1].display() == tool && row[3].display() == threads;
            table.rows.iter().find(row).unwrap().clone()
        };
        let value = |cell: &Cell| match cell {
            Cell::Estimate { value, .. } => Some(*value),
            _ => None,
        };
        assert_eq!(value(&find("casper", "1")[5]), Some(1.5));
        assert_eq!(value(&find("casper", "2")[6]), Some(1.25));
        // There is no floor with two threads here, and one thread is not compared with itself.
        assert!(matches!(find("casper", "2")[5], Cell::Missing(_)));
        assert!(matches!(find("casper", "1")[6], Cell::Missing(_)));
    }
}
