// SPDX-License-Identifier: Apache-2.0 OR MIT

use cowlab_schema::snapshot::{self as names, Forked, Snapshot};
use cowlab_schema::{Cell as _, Metric, Policy, VARIANT};
use cowlab_store::Sample;
use names::THROUGHPUT_PER_S;

use super::*;
use crate::document::{Cell, Table};
use crate::testing::{self, names, number, run};

const OFF: Policy = Policy::Off;
const CCOW: Policy = Policy::CoverageOf(80, Policy::REGION_KB);

fn sample(policy: Policy, forks: Forked, metric: Metric, value: f64) -> Sample {
    let cell = Snapshot { policy, forks, size_bytes: 1 << 20, ..Snapshot::default() };
    Sample::of(metric, cell.params(), value)
}

/// Table 1's own row, with plain copy-on-write and the reference beside it.
fn table_1() -> Vec<Sample> {
    let round = [
        sample(OFF, Forked::No, THROUGHPUT_PER_S, 100.0),
        sample(OFF, Forked::Yes, THROUGHPUT_PER_S, 60.0),
        sample(CCOW, Forked::Yes, THROUGHPUT_PER_S, 80.0),
        sample(OFF, Forked::Yes, names::PSS_SUM_BYTES, 1000.0),
        sample(CCOW, Forked::Yes, names::PSS_SUM_BYTES, 1067.0),
        sample(CCOW, Forked::Yes, names::COW_FAULTS, 731.0),
        sample(CCOW, Forked::Yes, names::PRECOPY_PAGES, 269.0),
        sample(CCOW, Forked::Yes, names::PRECOPY_WRITTEN, 250.0),
        sample(CCOW, Forked::Yes, names::PRECOPY_WASTED, 19.0),
    ];
    (0..2).flat_map(|rep| round.clone().map(|one| Sample { rep, ..one })).collect()
}

fn tables(samples: Vec<Sample>) -> Vec<Table> {
    testing::tables(section(&run("bench-snapshot", samples)).unwrap())
}

#[test]
fn what_is_won_back_is_a_part_of_what_was_lost() {
    let tables = tables(table_1());
    let [table, _, memory, _] = &tables[..] else { panic!("{tables:?}") };
    assert_eq!(names(table), ["no forks", "CoW", "CCoW-80"]);
    let row = &table.rows[2];
    assert!((number(&row[2]) - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!(number(&row[3]), 0.05);
    assert!((number(&row[4]) - 0.5).abs() < 1e-9);
    let row = &memory.rows[1];
    assert!((number(&row[4]) - 0.269).abs() < 1e-9);
    assert!((number(&row[5]) - 0.249).abs() < 1e-3);
    assert!((number(&row[6]) - 19.0 / 269.0).abs() < 1e-9);
}

#[test]
fn what_huge_pages_lose_is_against_huge_pages_without_forks() {
    let huge = |rep: u32, forks: Forked, value: f64| {
        let mut one = sample(OFF, forks, THROUGHPUT_PER_S, value);
        names::PAGE_SIZE_BYTES.put(&mut one.params, 2 << 20);
        Sample { rep, ..one }
    };
    let mut samples = table_1();
    for rep in 0..2 {
        samples.extend([huge(rep, Forked::No, 140.0), huge(rep, Forked::Yes, 110.0)]);
    }
    let tables = tables(samples);
    let table = &tables[0];
    assert_eq!(
        names(table),
        ["no forks", "no forks, 2 MiB pages", "CoW", "CoW, 2 MiB pages", "CCoW-80"]
    );
    // Of 40 it loses 30, though it is faster than base pages are without forks.
    assert!((number(&table.rows[3][4]) - 0.25).abs() < 1e-9);
}

#[test]
fn the_documents_rows_stand_beside_the_same_and_beside_the_fastest() {
    let mut samples = table_1();
    samples.push(sample(Policy::Next(16), Forked::Yes, THROUGHPUT_PER_S, 90.0));
    samples.push(sample(OFF, Forked::Yes, names::PREFERRED_FIFTH_WRITES, 70.0));
    samples.push(sample(OFF, Forked::Yes, names::WRITES_MADE, 100.0));
    let tables = tables(samples);
    let published = tables.last().unwrap();
    let row = |what: &str| {
        let found = published.rows.iter().find(|row| row[0].display() == what);
        found.unwrap_or_else(|| panic!("no {what} in {:?}", names(published)))
    };
    let throughput = row("throughput, CCoW-80");
    assert_eq!(throughput[1].display(), "+5.0%");
    assert_eq!(throughput[2].display(), "+33.3%");
    assert_eq!((throughput[3].display(), throughput[4].display()), ("+50.0%", "`next:16`"));
    // The table's own arithmetic: 6.7% over 26.9%.
    let waste = row("unnecessary, estimated");
    assert!((number(&waste[1]) - 0.249).abs() < 1e-9);
    assert!((number(&waste[2]) - 0.249).abs() < 1e-3);
    assert!(matches!(waste[3], Cell::Missing(_)), "next:16 was not counted");
    assert!((number(&row("memory, thresholds of 70 to 95%, at most")[2]) - 0.067).abs() < 1e-9);
    assert_eq!(number(&row("writes to the most frequent fifth of the blocks")[2]), 0.7);
    // α 1.1 was not measured.
    let rate = row("writes right after a fork, CCoW-80");
    assert_eq!(number(&rate[1]), 1.7e6);
    let Cell::Missing(why) = &rate[2] else { panic!("{rate:?}") };
    assert!(why.contains("`ccow:80` was not measured at α 1.1"), "{why}");
}

#[test]
fn kernels_are_told_apart() {
    let with = |variant: &str, value| {
        let mut one = sample(OFF, Forked::Yes, THROUGHPUT_PER_S, value);
        VARIANT.put(&mut one.params, variant);
        one
    };
    let tables = tables(vec![with("plain", 50.0), with("patched", 60.0)]);
    assert_eq!(names(&tables[0]), ["no forks", "CoW (plain)", "CoW (patched)"]);
    assert_eq!([&tables[0].rows[1][1], &tables[0].rows[2][1]].map(number), [50.0, 60.0]);
}

#[test]
fn another_benchmark_has_no_section() {
    assert!(section(&run("x", Vec::new())).is_none());
}
