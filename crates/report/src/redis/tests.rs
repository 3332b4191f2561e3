// SPDX-License-Identifier: Apache-2.0 OR MIT

use cowlab_store::{RunInfo, Sample};

use super::*;
use crate::document::{Cell, Table};

fn sample(policy: &str, snapshots: &str, metric: &str, value: f64) -> Sample {
    let params = [
        ("policy", policy),
        ("snapshots", snapshots),
        ("load", CLOSED),
        ("page_size_bytes", "4096"),
        ("zipf_alpha", "1"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()));
    Sample::new(BENCH, params.into(), metric, value)
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
    let round = [
        sample("off", NONE, "throughput_per_s", 100.0),
        sample("off", SAVE, "throughput_per_s", 80.0),
        sample("ccow:80", SAVE, "throughput_per_s", 90.0),
        sample("next:16", SAVE, "throughput_per_s", 84.0),
        sample("off", SAVE, "pss_sum_bytes", 1000.0),
        sample("ccow:80", SAVE, "pss_sum_bytes", 1067.0),
        sample("ccow:80", SAVE, "cow_faults", 731.0),
        sample("ccow:80", SAVE, "precopy_pages", 269.0),
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
