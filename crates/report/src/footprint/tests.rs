// SPDX-License-Identifier: Apache-2.0 OR MIT
use cowlab_store::{Params, Run, RunInfo, Sample};

use super::*;

fn sample(params: &[(&str, &str)], metric: &str, unit: &str, value: f64) -> Sample {
    let params: Params =
        params.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Sample { unit: unit.into(), ..Sample::new(BENCH, params, metric, value) }
}

fn run() -> Run {
    let of = |mapping, region: Option<&'static str>| {
        let mut params = vec![
            ("program", "server"),
            ("span", "fork-to-exit"),
            ("writer", "parent"),
            ("method", "exclusive"),
            ("mapping", mapping),
        ];
        params.extend(region.map(|region| ("region", region)));
        params
    };
    let mut samples = Vec::new();
    for mapping in ["all", "heap"] {
        for (metric, value) in [("pages_mapped", 1000.0), ("pages_written", 250.0)] {
            samples.push(sample(&of(mapping, None), metric, "pages", value));
        }
        samples.push(sample(&of(mapping, None), "write_fraction", "fraction", 0.25));
    }
    samples.push(sample(&of("all", None), "remote_whole_bytes", "bytes", 4_096_000.0));
    for (region, share) in [("0", 0.5), ("1", 0.0)] {
        samples.push(sample(&of("heap", Some(region)), "write_fraction", "fraction", share));
    }
    samples.push(sample(
        &[("policy", "next:1"), ("writer", "parent")],
        "first_writes",
        "pages",
        9.0,
    ));
    Run { info: RunInfo::begin("footprint", 1, Default::default()), samples }
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
    assert!(matches!(&plot.series[0], crate::Series::Heatmap { z, .. } if z[0] == [0.5, 0.0]));
}

#[test]
fn a_run_of_something_else_has_none() {
    let mut other = run();
    other.samples.clear();
    assert!(section(&other).is_none());
}
