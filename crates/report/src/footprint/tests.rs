// SPDX-License-Identifier: Apache-2.0 OR MIT
use cowlab_schema::{Metric, Writer};
use cowlab_store::Sample;
use names::{Between, Mapping, Method};

use super::*;
use crate::testing;

fn run() -> Run {
    let of = |mapping, region: Option<u64>, metric: Metric, value: f64| {
        let mut params = Params::new();
        names::PROGRAM.put(&mut params, "server");
        names::SPAN.put(&mut params, Between::ForkToExit);
        names::WRITER.put(&mut params, Writer::Parent);
        names::METHOD.put(&mut params, Method::Exclusive);
        names::MAPPING.put(&mut params, mapping);
        if let Some(region) = region {
            names::REGION.put(&mut params, region);
        }
        Sample::of(metric, params, value)
    };
    let mut samples = Vec::new();
    for mapping in [Mapping::All, Mapping::Heap] {
        for (metric, value) in [
            (names::PAGES_MAPPED, 1000.0),
            (names::PAGES_WRITTEN, 250.0),
            (names::WRITE_FRACTION, 0.25),
        ] {
            samples.push(of(mapping, None, metric, value));
        }
    }
    samples.push(of(Mapping::All, None, names::REMOTE_WHOLE_BYTES, 4_096_000.0));
    for (region, share) in [(0, 0.5), (1, 0.0)] {
        samples.push(of(Mapping::Heap, Some(region), names::WRITE_FRACTION, share));
    }
    let mut policy = Params::new();
    names::POLICY.put(&mut policy, "next:1");
    names::WRITER.put(&mut policy, Writer::Parent);
    samples.push(Sample::of(names::FIRST_WRITES, policy, 9.0));
    testing::run("footprint", samples)
}

#[test]
fn every_table_has_its_row_and_the_map_its_cells() {
    let document = document(&run()).unwrap();
    let tables: Vec<&str> = document.tables().map(|table| table.id.as_str()).collect();
    assert_eq!(
        tables,
        [
            "footprint-fractions",
            "footprint-mappings",
            "footprint-remote",
            "footprint-policies",
            "footprint-cost"
        ]
    );
    let table = document.tables().next().unwrap();
    assert_eq!(table.rows[0][2].display(), "1,000");
    assert_eq!(table.rows[0][4].display(), "25.0%");
    assert!(table.missing_reasons().iter().any(|reason| reason.contains("--method snapshot")));
    let plot = document.plots().next().unwrap();
    assert_eq!(plot.series[0].z, [[0.5, 0.0]]);
}

#[test]
fn a_run_of_something_else_has_none() {
    let mut other = run();
    other.samples.clear();
    assert!(section(&other).is_none());
}
