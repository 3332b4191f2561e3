// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each case is compiled as it is and instrumented, with each compiler and standard that it is for,
//! warnings being errors; both print the same, and each function was counted as often as the case
//! says.
//!
//! A case begins with `// why: ...` and may have `// std: ...`, `// flags: ...`,
//! `// only: gcc`, `// calls: name=N ...`, `// left: name=part of the reason ...` lines, and
//! `// open: name=N` for functions that are left N times without an exit (longjmp, exit).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cowlab_insert::{InsertPlan, InsertSettings, Selection};

struct Case {
    name: String,
    path: PathBuf,
    source: String,
}

impl Case {
    fn says(&self, what: &str) -> Vec<String> {
        let marks = [format!("// {what}: "), format!("/* {what}: ")];
        self.source
            .lines()
            .filter_map(|line| {
                marks.iter().find_map(|mark| {
                    line.trim_start_matches('\u{feff}').strip_prefix(mark.as_str())
                })
            })
            .map(|text| text.trim().trim_end_matches("*/").trim().to_string())
            .collect()
    }

    fn words(&self, what: &str) -> Vec<String> {
        self.says(what)
            .iter()
            .flat_map(|text| text.split_whitespace())
            .map(str::to_string)
            .collect()
    }

    /// `name=N` pairs.
    fn counts(&self, what: &str) -> BTreeMap<String, u64> {
        let parse = |pair: String| {
            let (name, count) = pair.rsplit_once('=').expect("name=N");
            (name.to_string(), count.parse().expect("a number"))
        };
        self.words(what).into_iter().map(parse).collect()
    }
}

fn cases() -> Vec<Case> {
    let folder = Path::new("tests/fixtures");
    let mut cases: Vec<Case> = fs::read_dir(folder)
        .expect("the cases")
        .map(|entry| entry.expect("a case").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .map(|path| Case {
            name: path.file_name().expect("its name").to_string_lossy().into_owned(),
            source: String::from_utf8_lossy(&fs::read(&path).expect("its text")).into_owned(),
            path,
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn compile(compiler: &str, flags: &[&str], inputs: &[&Path], output: &Path) -> Result<(), String> {
    let repository = Path::new("../..");
    let mut command = Command::new(compiler);
    command.args(flags).arg("-I").arg(repository.join("libcasper/include"));
    command.args(inputs).arg("-o").arg(output);
    let done = run(&mut command);
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}\n{}", String::from_utf8_lossy(&done.stderr)))
}

/// "file:line name begins ends" lines as name to (begins, ends).
fn counted(path: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        let mut words = line.rsplitn(4, ' ');
        let ends: u64 = words.next().expect("ends").parse().expect("a number");
        let begins: u64 = words.next().expect("begins").parse().expect("a number");
        let entry: &mut (u64, u64) =
            counts.entry(words.next().expect("a name").to_string()).or_default();
        *entry = (entry.0 + begins, entry.1 + ends);
    }
    counts
}

/// Instrument `case`; what is left alone must be what it says.
fn instrument(case: &Case, copies: &Path) -> Result<(), String> {
    let settings = InsertSettings {
        paths: vec![case.path.clone()],
        output: copies.to_owned(),
        root: None,
        files: vec![],
        selection: Selection::default(),
    };
    let plan = InsertPlan::new(&settings).map_err(|error| error.to_string())?;
    plan.write().map_err(|error| error.to_string())?;
    let mut left = BTreeMap::new();
    for function in &plan.reports[0].functions {
        if let Some(reason) = &function.left_alone {
            left.insert(function.name.clone(), reason.clone());
        }
    }
    for expected in case.says("left") {
        let (name, part) = expected.split_once('=').expect("name=reason");
        match left.remove(name) {
            Some(reason) if reason.contains(part) => {}
            other => return Err(format!("{name}: expected '{part}', saw {other:?}")),
        }
    }
    if left.is_empty() { Ok(()) } else { Err(format!("left alone as well: {left:?}")) }
}

/// Compare the case with its copy, linked with the object `stub`.
fn check(case: &Case, compiler: &str, stub: &Path) -> Result<(), String> {
    let scratch = tempfile::tempdir().expect("a folder");
    let copies = scratch.path().join("copies");
    instrument(case, &copies)?;
    let copy = copies.join(&case.name);
    let standards = match case.words("std") {
        words if words.is_empty() => vec!["gnu17".to_string()],
        words => words,
    };
    let include = format!("-I{}", case.path.parent().expect("its folder").display());
    let more = case.words("flags");
    for standard in &standards {
        for level in ["-O0", "-O2"] {
            let standard = format!("-std={standard}");
            let mut flags = vec![&*standard, level, "-g", "-Wall", "-Wextra", "-Werror", &include];
            flags.extend(more.iter().map(String::as_str));
            let (plain, traced) = (scratch.path().join("plain"), scratch.path().join("traced"));
            compile(compiler, &flags, &[&case.path], &plain)?;
            compile(compiler, &flags, &[&copy, stub], &traced)?;
            let counts = scratch.path().join("counts");
            let first = run(&mut Command::new(&plain));
            let second = run(Command::new(&traced).env("STUB_COUNTS", &counts));
            if (first.status, &first.stdout) != (second.status, &second.stdout) {
                return Err(format!("{flags:?}: {first:?} became {second:?}"));
            }
            if first.stdout.is_empty() {
                return Err("it prints nothing that could be compared".into());
            }
            check_counts(case, &counted(&counts)).map_err(|why| format!("{flags:?}: {why}"))?;
        }
    }
    Ok(())
}

fn check_counts(case: &Case, counts: &BTreeMap<String, (u64, u64)>) -> Result<(), String> {
    let (calls, open) = (case.counts("calls"), case.counts("open"));
    if calls.is_empty() {
        return Err("the case says no calls".into());
    }
    for (name, &wanted) in &calls {
        let never_ended = open.get(name).copied().unwrap_or(0);
        let seen = counts.get(name).copied();
        if seen != Some((wanted, wanted - never_ended)) {
            return Err(format!(
                "{name}: expected {wanted} calls, {never_ended} without end, saw {seen:?}"
            ));
        }
    }
    let others: Vec<_> = counts.iter().filter(|(name, _)| !calls.contains_key(*name)).collect();
    if others.is_empty() { Ok(()) } else { Err(format!("not expected: {others:?}")) }
}

fn check_all(compiler: &str) {
    let cases = cases();
    assert!(cases.len() > 7, "cases are missing: {}", cases.len());
    let scratch = tempfile::tempdir().expect("a folder");
    let stub = scratch.path().join("stub.o");
    let source = Path::new("../../tests/programs/stub.c");
    compile(compiler, &["-c", "-O1"], &[source], &stub).expect("the counting stub");
    let mut failed = Vec::new();
    for case in &cases {
        assert!(!case.says("why").is_empty(), "{} has no why", case.name);
        let only = case.words("only");
        if !only.is_empty() && !only.iter().any(|of| of == compiler) {
            continue;
        }
        if let Err(why) = check(case, compiler, &stub) {
            failed.push(format!("{}: {why}", case.name));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} failed:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
}

#[test]
fn copies_behave_as_their_originals_with_gcc() {
    check_all("gcc");
}

#[test]
fn copies_behave_as_their_originals_with_clang() {
    check_all("clang");
}
