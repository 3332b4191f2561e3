// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of before are read, and come to the same figures to the last digit: those of `old_runs/`,
//! whose tables and summaries the program wrote that measured them (2026-11-24); what it predicted of a
//! writing child's forks in a loop has changed since (2026-11-25, decision 0005). What reports no longer have is left
//! out.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use cowlab_analysis::application;
use cowlab_analysis::figures::figures;
use cowlab_analysis::samples::taken_by;
use cowlab_analysis::study::Study;
use cowlab_model::cost::predict;
use cowlab_report::figures::table;
use cowlab_report::{csv, footprint, of_bench, study};
use cowlab_schema::{Method, QUANTILE, fork_table};
use cowlab_store::{Params, Run, Sample};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    PathBuf::from("tests/old_runs").join(name)
}

fn json(run: &str, file: &str) -> Value {
    serde_json::from_slice(&fs::read(folder(run).join(file)).unwrap()).unwrap()
}

/// As it is read back: text and file by the same parser, whose last digit may be off.
fn read_back(value: impl serde::Serialize) -> Value {
    serde_json::from_str(&serde_json::to_string(&value).unwrap()).unwrap()
}

/// What a line says in figures; its words may change.
fn numbers(line: &str) -> Vec<&str> {
    line.split(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.contains(|c: char| c.is_ascii_digit()))
        .collect()
}

/// Methods of the fork table that the program of before measured and did not show, a cost that it did
/// not measure, and a figure of its check.
fn was_not_shown(table: &str, line: &str) -> bool {
    if table == "machine-profile.csv" {
        return line.contains("pte_written_among_work_ns_per_page");
    }
    if table == "model-figures.csv" {
        return line.contains("worst error");
    }
    table.starts_with("fork-table")
        && table != "fork-table-published.csv"
        && ["fork+exec", "vfork+exec"]
            .iter()
            .any(|method| line.trim_start_matches(['"', '`']).starts_with(method))
}

/// Every table of before is there, and every line of it has its figures.
fn assert_tables(run: &str, now: &[(String, String)]) {
    let mut compared = 0;
    for entry in fs::read_dir(folder(run).join("tables")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let before = fs::read_to_string(folder(run).join("tables").join(&file)).unwrap();
        let own = now.iter().find(|(name, _)| *name == file);
        let (_, own) = own.unwrap_or_else(|| panic!("{run} has no {file} any more"));
        let own: Vec<&str> = own.lines().filter(|line| !was_not_shown(&file, line)).collect();
        let before: Vec<&str> = before.lines().collect();
        assert_eq!(own.len(), before.len(), "{run}/{file}");
        for (own, before) in own.iter().zip(before) {
            assert_eq!(numbers(own), numbers(before), "{run}/{file}:\n{own}\n{before}");
        }
        compared += 1;
    }
    assert!(compared > 3, "{run}: {compared} tables");
}

/// Whatever is no sentence is the same.
fn assert_same(place: &str, now: &Value, before: &Value) {
    match (now, before) {
        (Value::Object(now), Value::Object(before)) => {
            for (key, value) in before {
                assert_same(&format!("{place}/{key}"), now.get(key).unwrap_or(&Value::Null), value);
            }
        }
        (Value::Array(now), Value::Array(before)) => {
            assert_eq!(now.len(), before.len(), "{place}");
            for (index, (now, before)) in now.iter().zip(before).enumerate() {
                assert_same(&format!("{place}/{index}"), now, before);
            }
        }
        (Value::String(now), Value::String(before)) if before.contains(' ') => {
            // A part of a fault that comes out below 0 is "too little to tell" since.
            let is_said = |number: &&str| !number.starts_with('-') || now.contains(*number);
            let before: Vec<&str> = numbers(before).into_iter().filter(is_said).collect();
            assert_eq!(numbers(now), before, "{place}");
        }
        _ => assert_eq!(now, before, "{place}"),
    }
}

#[test]
fn a_study_comes_to_the_same_figures() {
    let run = Run::read(&folder("study")).unwrap();
    let study = Study::of(&run).unwrap();
    let profile = json("study", "profile.json");
    assert_same("profile", &read_back(&study.profile), &profile["profile"]);
    assert_same("summary", &read_back(study::summary(&study)), &json("study", "summary.json"));
    assert_tables("study", &csv::tables(&study::document(&study)));
}

#[test]
fn a_store_that_takes_snapshots_comes_to_the_same_figures() {
    let run = Run::read(&folder("snapshot")).unwrap();
    let figures = figures(&run.samples);
    let mut tables = csv::tables(&of_bench(&run).unwrap());
    let all = table("snapshot", "snapshot", &figures);
    tables.push(("snapshot.csv".to_owned(), csv::table_csv(&all)));
    assert_tables("snapshot", &tables);
}

#[test]
fn a_footprint_comes_to_the_same_figures_and_is_priced_the_same() {
    let run = Run::read(&folder("footprint")).unwrap();
    assert_tables("footprint", &csv::tables(&footprint::document(&run).unwrap()));

    let (profile, subject) = application::profile_of(&run.samples, None).unwrap();
    assert!(subject.is_fork());
    assert_eq!((profile.pages, profile.written), (9399, 800));
    let study = Run::read(&folder("study")).unwrap();
    let machine = Study::of(&study).unwrap().profile;
    let page = machine.page_size_bytes;
    // What `predict --footprint` said of the two.
    let price = predict(&machine, &profile.question(page, page)).unwrap();
    assert_eq!(price.elapsed_ns.value, 5067248.754666782);
    // Wider by what copies differ between programs.
    assert_eq!(price.elapsed_ns.high, 10150504.175479652);
    assert_eq!(price.fork_ns.value, 1919650.9205635479);
    assert_eq!(price.extra_bytes, 3351992);
}

/// What is left out of a study's report: a bench, some of its parameters, and why.
type LeftOut = (&'static str, &'static [(&'static str, &'static str)], &'static str);

/// What a study measures and its report does not show.
const NOT_SHOWN: [LeftOut; 0] = [];

/// The combinations of parameters of which the report shows nothing.
fn unshown(run: &Run) -> BTreeSet<(String, Params)> {
    let study = Study::of(run).unwrap();
    let shown = taken_by(&run.samples, || {
        Study::of(run).unwrap();
        study::document(&study);
    });
    let combination = |sample: &Sample| {
        let mut params = sample.params.clone();
        params.remove(QUANTILE.name());
        (sample.bench.clone(), params)
    };
    let all = || run.samples.iter().zip(&shown);
    let of = |is_shown: bool| all().filter(move |(_, shown)| **shown == is_shown);
    let seen: BTreeSet<_> = of(true).map(|(sample, _)| combination(sample)).collect();
    of(false).map(|(sample, _)| combination(sample)).filter(|one| !seen.contains(one)).collect()
}

#[test]
fn every_combination_that_a_study_measures_is_shown_or_said_not_to_be() {
    let mut run = Run::read(&folder("study")).unwrap();
    let is_listed = |(bench, params): &(String, Params)| {
        NOT_SHOWN.iter().any(|(of, with, _)| {
            bench == of
                && with.iter().all(|(key, value)| params.get(*key).is_some_and(|v| v == value))
        })
    };
    let lost: Vec<_> = unshown(&run).into_iter().filter(|one| !is_listed(one)).collect();
    assert!(lost.is_empty(), "{} are shown nowhere: {lost:#?}", lost.len());

    // One that nothing looks for is found.
    let made = run.samples.iter().find(|s| s.bench == fork_table::BENCH.name).unwrap();
    let mut planted = made.clone();
    fork_table::METHOD.put(&mut planted.params, Method::CloneVmVfork);
    let expected = (planted.bench.clone(), planted.params.clone());
    run.samples.push(planted);
    assert!(unshown(&run).contains(&expected));
}
