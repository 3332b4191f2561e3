// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs of before are read, and come to the same figures to the last digit: those of `old_runs/`,
//! whose tables and summaries the program wrote that measured them (2026-11-24).

use std::fs;
use std::path::PathBuf;

use cowlab_analysis::application;
use cowlab_analysis::figures::figures;
use cowlab_analysis::study::Study;
use cowlab_model::cost::predict;
use cowlab_report::figures::table;
use cowlab_report::{csv, footprint, of_bench, study};
use cowlab_store::Run;
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/old_runs").join(name)
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

/// Methods of the fork table that the program of before measured and did not show.
fn was_not_shown(table: &str, line: &str) -> bool {
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
            assert_eq!(numbers(now), numbers(before), "{place}");
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
    assert_same("summary", &read_back(&figures), &json("snapshot", "summary.json"));
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
    assert_eq!(price.elapsed_ns.high, 10096531.394248068);
    assert_eq!(price.fork_ns.value, 1919650.9205635479);
    assert_eq!(price.extra_bytes, 3351992);
}
