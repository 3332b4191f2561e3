// SPDX-License-Identifier: Apache-2.0 OR MIT

use cowlab_store::{Environment, Params, Run, RunInfo, Sample};

use super::*;
use crate::document::Cell;

fn sample(policy: &str, metric: &str, more: &[(&str, &str)], value: f64) -> Sample {
    let mut params: Params = [
        ("program", "redis"),
        ("policy", policy),
        ("size_bytes", "1073741824"),
        ("load", "0.5"),
        ("interval_s", "60"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    params.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    Sample::new(BENCH, params, metric, value)
}

fn run() -> Run {
    let mut samples = Vec::new();
    for (policy, fork) in [("tended", 4e6), ("untended", 24e6)] {
        for number in ["1", "2", "3"] {
            samples.push(sample(policy, "fork_ns", &[("snapshot", number)], fork));
            let of = [("snapshot", number), ("part", "outside"), ("quantile", "p99")];
            samples.push(sample(policy, "latency_ns", &of, 9e9));
        }
        samples.push(sample(policy, "late_ns", &[("quantile", "p99.9")], 3e5));
        let whole = [("part", "outside"), ("quantile", "p99")];
        samples.push(sample(policy, "latency_ns", &whole, 1e5));
        for quantile in ["p99", "max"].into_iter().filter(|_| policy == "tended") {
            let meanwhile = [("part", "tending"), ("quantile", quantile)];
            samples.push(sample(policy, "latency_ns", &meanwhile, 2e5));
        }
        samples.push(sample(
            policy,
            "rss_bytes",
            &[],
            if policy == "tended" { 102.0 } else { 100.0 },
        ));
    }
    let info = RunInfo::begin("bench-tend", 1, Environment::default());
    Run { info, samples }
}

#[test]
fn policies_stand_beside_untended() {
    let document = document(&run()).unwrap();
    let table = |id: &str| document.tables().find(|table| table.id == id).unwrap();
    let stops = table("tend-stops-table-0");
    assert_eq!(stops.rows.len(), 2);
    let Cell::Text(first) = &stops.rows[0][0] else { panic!("no policy") };
    assert_eq!(first, "untended");
    let value = |cell: &Cell| match cell {
        Cell::Number { value, .. } => *value,
        other => panic!("{other:?}"),
    };
    assert_eq!(value(&stops.rows[1][3]), 6.0);
    assert!(matches!(stops.rows[0][3], Cell::Missing(_)));
    // The rows of single snapshots are not those of the whole phase.
    let latency = table("tend-latency-table-0");
    assert_eq!(value(&latency.rows[0][3]), 1e5);
    // Of an untended server no update came while its regions were collapsed: against those between snapshots.
    let meanwhile: Vec<_> = latency
        .rows
        .iter()
        .filter(|row| matches!(&row[1], Cell::Text(part) if part.contains("collapsed")))
        .collect();
    assert_eq!(meanwhile.len(), 1);
    assert_eq!((value(&meanwhile[0][3]), value(&meanwhile[0][4])), (2e5, 1.0));
    assert!((value(&table("tend-memory-0").rows[1][2]) - 0.02).abs() < 1e-9);
    assert!(matches!(table("tend-memory-0").rows[1][3], Cell::Missing(_)));
    assert_eq!(value(&table("tend-load-0").rows[1][6]), 3e5);
    assert!(matches!(table("tend-work-0").rows[0][2], Cell::Missing(_)));
    let plot = document.plots().find(|plot| plot.id == "tend-stops-0").unwrap();
    assert_eq!(plot.series.len(), 2);
}

#[test]
fn another_run_has_no_such_section() {
    let mut other = run();
    other.samples.iter_mut().for_each(|sample| sample.bench = "redis".into());
    assert!(section(&other).is_none());
    assert_eq!(crate::of_bench(&run()).map(|document| document.title), Some(TITLE.into()));
}
