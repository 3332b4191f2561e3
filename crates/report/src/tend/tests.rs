// SPDX-License-Identifier: Apache-2.0 OR MIT

use cowlab_schema::Cell as _;
use cowlab_store::{Params, Sample};

use super::*;
use crate::document::Cell;
use crate::testing::{self, number};

fn params(policy: Policy) -> Params {
    names::Tended { policy, size_bytes: 1 << 30, ..names::Tended::default() }.params()
}

fn latency(policy: Policy, part: Part, quantile: Quantile, value: f64) -> Sample {
    let mut params = params(policy);
    names::PART.put(&mut params, part);
    names::QUANTILE.put(&mut params, quantile);
    Sample::of(names::LATENCY_NS, params, value)
}

fn run() -> Run {
    let mut samples = Vec::new();
    for (policy, fork, rss) in [(Policy::Tended, 4e6, 102.0), (UNTENDED, 24e6, 100.0)] {
        for number in 1..=3 {
            let fork = Sample::of(names::FORK_NS, params(policy), fork);
            let latency = latency(policy, Part::Outside, Quantile::P99, 9e9);
            for mut sample in [fork, latency] {
                names::SNAPSHOT.put(&mut sample.params, number);
                samples.push(sample);
            }
        }
        let mut late = Sample::of(names::LATE_NS, params(policy), 3e5);
        names::QUANTILE.put(&mut late.params, Quantile::P99_9);
        samples.extend([late, latency(policy, Part::Outside, Quantile::P99, 1e5)]);
        if policy == Policy::Tended {
            for quantile in [Quantile::P99, Quantile::Max] {
                samples.push(latency(policy, Part::Tending, quantile, 2e5));
            }
        }
        samples.push(Sample::of(names::RSS_BYTES, params(policy), rss));
    }
    testing::run("bench-tend", samples)
}

#[test]
fn policies_stand_beside_untended() {
    let document = document(&run()).unwrap();
    let table = |id: &str| document.tables().find(|table| table.id == id).unwrap();
    let stops = table("tend-stops-table-0");
    assert_eq!(stops.rows.len(), 2);
    assert_eq!(stops.rows[0][0].display(), "untended");
    assert_eq!(number(&stops.rows[1][3]), 6.0);
    assert!(matches!(stops.rows[0][3], Cell::Missing(_)));
    // The rows of single snapshots are not those of the whole phase.
    let latency = table("tend-latency-table-0");
    assert_eq!(number(&latency.rows[0][3]), 1e5);
    // Of an untended server no update came while its regions were collapsed: against those between snapshots.
    let meanwhile: Vec<_> = latency
        .rows
        .iter()
        .filter(|row| matches!(&row[1], Cell::Text(part) if part.contains("collapsed")))
        .collect();
    assert_eq!(meanwhile.len(), 1);
    assert_eq!((number(&meanwhile[0][3]), number(&meanwhile[0][4])), (2e5, 1.0));
    assert!((number(&table("tend-memory-0").rows[1][2]) - 0.02).abs() < 1e-9);
    assert!(matches!(table("tend-memory-0").rows[1][3], Cell::Missing(_)));
    assert_eq!(number(&table("tend-load-0").rows[1][6]), 3e5);
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
