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

/// Three forks, of which parent and child together copied a quarter.
fn forks(writer: Writer, unknown_pages: f64) -> Run {
    let mut run = run();
    let mut params = Params::new();
    names::PROGRAM.put(&mut params, "server");
    names::SPAN.put(&mut params, Between::ForkToExit);
    names::WRITER.put(&mut params, writer);
    names::METHOD.put(&mut params, Method::Faults);
    names::MAPPING.put(&mut params, Mapping::All);
    let figures = [
        (names::SPANS, 3.0),
        (names::START_PAGES, 3072.0),
        (names::COW_PAGES, 768.0),
        (names::COW_FRACTION, 0.25),
        (names::UNKNOWN_PAGES, unknown_pages),
    ];
    run.info.environments[0].page_size_bytes = 4096;
    run.samples = figures.map(|(metric, value)| Sample::of(metric, params.clone(), value)).to_vec();
    run
}

#[test]
fn the_answer_is_what_a_fork_shares_and_what_was_copied() {
    let told = answer(&forks(Writer::Either, 0.0)).unwrap();
    assert_eq!(
        told,
        "A fork of server shares 4.00 MiB with its child, on average over 3 forks; 1.00 MiB of that \
         (25.0%) was copied before the child ended."
    );
    // One side's copies, or pages that nobody could judge, are not all.
    for part in [forks(Writer::Child, 0.0), forks(Writer::Either, 1.0)] {
        assert!(answer(&part).unwrap().contains("; at least 1.00 MiB"), "{part:?}");
    }
    let section = screen(&forks(Writer::Either, 0.0)).unwrap();
    assert!(matches!(&section.blocks[..], [Block::Table(table)] if table.rows.len() == 1));
}

#[test]
fn a_run_of_something_else_has_none() {
    let mut other = run();
    other.samples.clear();
    assert!(section(&other).is_none());
}
