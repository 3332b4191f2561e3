// SPDX-License-Identifier: Apache-2.0 OR MIT

use cowlab_schema::{Cell as _, Metric, Policy};
use cowlab_store::{RunInfo, Sample};

use super::*;
use crate::document::{Cell, Table};

fn sample(policy: Policy, snapshots: Snapshots, metric: Metric, value: f64) -> Sample {
    let mut params = names::Store { policy, ..names::Store::default() }.params();
    names::SNAPSHOTS_KIND.put(&mut params, snapshots);
    names::LOAD.put(&mut params, CLOSED);
    Sample::of(metric, params, value)
}

fn tables(samples: Vec<Sample>) -> Vec<Table> {
    let run = Run { info: RunInfo::begin("bench-redis", 1, Default::default()), samples };
    let table = |block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    };
    section(&run).unwrap().blocks.into_iter().filter_map(table).collect()
}

fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Number { value, .. } | Cell::Estimate { value, .. } => *value,
        _ => panic!("{cell:?}"),
    }
}

#[test]
fn table_1_is_computed_as_the_document_does() {
    let (off, next) = (Policy::Off, Policy::Next(16));
    let ccow = Policy::CoverageOf(80, 0, Policy::REGION_KB);
    let save = Snapshots::Save;
    let round = [
        sample(off, Snapshots::None, names::THROUGHPUT_PER_S, 100.0),
        sample(off, save, names::THROUGHPUT_PER_S, 80.0),
        sample(ccow, save, names::THROUGHPUT_PER_S, 90.0),
        sample(next, save, names::THROUGHPUT_PER_S, 84.0),
        sample(off, save, names::PSS_SUM_BYTES, 1000.0),
        sample(ccow, save, names::PSS_SUM_BYTES, 1067.0),
        sample(ccow, save, names::COW_FAULTS, 731.0),
        sample(ccow, save, names::PRECOPY_PAGES, 269.0),
    ];
    let rounds = (0..2).flat_map(|rep| round.clone().map(|one| Sample { rep, ..one }));
    let tables = tables(rounds.collect());
    let [throughput, latency, _, published] = &tables[..] else { panic!("{tables:?}") };
    let names: Vec<&str> = throughput.rows.iter().map(|row| row[0].display()).collect();
    assert_eq!(names, ["CoW", "CCoW-80", "`next:16`"]);
    assert!((number(&throughput.rows[1][3]) - 0.125).abs() < 1e-9);
    assert!((number(&throughput.rows[1][4]) - 0.5).abs() < 1e-9);
    assert!((number(&throughput.rows[2][4]) - 0.2).abs() < 1e-9);
    assert_eq!(latency.rows.len(), 3);
    let columns: Vec<&str> = published.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(columns[1..4], ["Document 003", "CCoW-80 here", "`next:16`"]);
    for (row, there, here) in [(0, 0.05, 0.125), (1, 0.269, 0.269), (2, 0.067, 0.067)] {
        assert!((number(&published.rows[row][1]) - there).abs() < 1e-9);
        assert!((number(&published.rows[row][2]) - here).abs() < 1e-9);
    }
    assert!((number(&published.rows[3][2]) - 0.249).abs() < 1e-3);
    assert!(matches!(published.rows[4][1], Cell::Missing(_)));
}

#[test]
fn another_benchmark_has_no_section() {
    let run = Run { info: RunInfo::begin("x", 1, Default::default()), samples: Vec::new() };
    assert!(section(&run).is_none());
}
