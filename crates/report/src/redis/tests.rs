// SPDX-License-Identifier: Apache-2.0 OR MIT

use cowlab_schema::{Cell as _, Metric, Policy};
use cowlab_store::Sample;

use super::*;
use crate::document::Cell;
use crate::testing::{self, number, run};

fn sample(policy: Policy, snapshots: Snapshots, metric: Metric, value: f64) -> Sample {
    let mut params = names::Store { policy, ..names::Store::default() }.params();
    names::SNAPSHOTS_KIND.put(&mut params, snapshots);
    names::LOAD.put(&mut params, CLOSED);
    Sample::of(metric, params, value)
}

#[test]
fn table_1_is_computed_as_the_document_does() {
    let (off, next) = (Policy::Off, Policy::Next(16));
    let ccow = Policy::CoverageOf(80, Policy::REGION_KB);
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
    let tables = testing::tables(section(&run("bench-redis", rounds.collect())).unwrap());
    let [throughput, latency, _, published] = &tables[..] else { panic!("{tables:?}") };
    assert_eq!(testing::names(throughput), ["CoW", "CCoW-80", "`next:16`"]);
    assert!((number(&throughput.rows[1][3]) - 0.125).abs() < 1e-9);
    assert!((number(&throughput.rows[1][4]) - 0.5).abs() < 1e-9);
    assert!((number(&throughput.rows[2][4]) - 0.2).abs() < 1e-9);
    assert_eq!(latency.rows.len(), 3);
    let columns: Vec<&str> = published.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(columns[1..4], ["CCoW (2022)", "CCoW-80 here", "`next:16`"]);
    for (row, there, here) in [(0, 0.05, 0.125), (1, 0.269, 0.269), (2, 0.067, 0.067)] {
        assert!((number(&published.rows[row][1]) - there).abs() < 1e-9);
        assert!((number(&published.rows[row][2]) - here).abs() < 1e-9);
    }
    assert!((number(&published.rows[3][2]) - 0.249).abs() < 1e-3);
    assert!(matches!(published.rows[4][1], Cell::Missing(_)));
}

#[test]
fn another_benchmark_has_no_section() {
    assert!(section(&run("x", Vec::new())).is_none());
}
