// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs tests inside a guest: many in one boot, each with its own output, status and part of the
//! kernel's log.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::boot::{Guest, boot, quote};
use crate::console::{self, Complaint};
use crate::ktap::Outcome;
use crate::outcome::{Left, TestResult, judge};
use crate::qemu::Machine;
use crate::watch::{Interrupted, Watch};

/// One test: a program that exits with 0, 4 (skipped) or anything else, and may print KTAP.
#[derive(Debug, Clone)]
pub struct Test {
    /// Its name; a file's name as well.
    pub name: String,
    /// The program and its arguments, as the guest sees them.
    pub command: Vec<OsString>,
    /// Where it is run; the guest's folder if not given.
    pub folder: Option<PathBuf>,
    pub limit_s: u64,
}

/// Tests under the same circumstances.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Shell that is run before; if it fails, none of the tests is run, and each has failed.
    pub setup: String,
    pub tests: Vec<Test>,
}

/// How long the guest may take beside its tests.
const BOOT_LIMIT_S: u64 = 180;

/// Run `batches` in one boot of `machine`. Outputs and the log are kept in `folder`. `done` is told of each test that
/// has ended.
pub fn run(
    batches: &[Batch],
    machine: Machine<'_>,
    folder: &Path,
    done: &(dyn Fn(&str) + Sync),
    watch: &Watch<'_>,
) -> Result<Vec<TestResult>> {
    let results = folder.join("results");
    let cannot = || format!("cannot write to {}", folder.display());
    if results.exists() {
        fs::remove_dir_all(&results).with_context(cannot)?;
    }
    fs::create_dir_all(&results).with_context(cannot)?;
    let folder = folder.canonicalize().with_context(cannot)?;
    let driver = folder.join("driver");
    fs::write(&driver, script(&folder, batches)).with_context(cannot)?;
    let limits = batches.iter().flat_map(|batch| &batch.tests).map(|test| test.limit_s + 15);
    let command = [OsString::from("/bin/sh"), driver.into_os_string()];
    let guest = Guest {
        machine,
        time_limit: Duration::from_secs(limits.sum::<u64>() + BOOT_LIMIT_S),
        folder: &folder,
        command: Some(&command),
        input: None,
        output: &mut Lines { done, rest: Vec::new() },
        messages: &mut io::stderr(),
    };
    let died = match boot(guest, watch) {
        Ok(_) => None,
        // Not a test's fault.
        Err(error) if error.is::<Interrupted>() || !results.join("begun").exists() => {
            return Err(error);
        }
        Err(error) => Some(format!("{error:#}")),
    };
    let log = fs::read(folder.join("console.log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log).into_owned();
    let mut all = collect(batches, &folder, &log, died.as_deref());
    // What the log says outside of any test is nobody's, and yet wrong.
    let others = outside(&log);
    if !others.is_empty() && died.is_none() {
        all.push(TestResult {
            name: "the guest's log".to_owned(),
            outcome: Outcome::Fail,
            reason: Some(others[0].text.clone()),
            cases: Vec::new(),
            complaints: others,
            output: Some("console.log".to_owned()),
        });
    }
    Ok(all)
}

/// Compile the C file `source` to `program`, which runs in the guest.
pub fn compile(source: &Path, program: &Path) -> Result<()> {
    let output = Command::new("gcc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-o"])
        .arg(program)
        .arg(source)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run gcc: {}", crate::tools::HELP))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} does not compile:\n{}", source.display(), said.trim());
    }
    Ok(())
}

fn key(batch: usize, test: usize) -> String {
    format!("{batch}.{test}")
}

/// What the guest runs: each test with its output, status and marks in the log.
fn script(folder: &Path, batches: &[Batch]) -> Vec<u8> {
    let mut text = b"test_one() {\n\
        key=$1 limit=$2 folder=$3 label=$4\n\
        shift 4\n\
        echo \"<3>cowlab: begin $key\" >/dev/kmsg\n\
        (cd \"$folder\" && exec timeout -k 10 \"$limit\" \"$@\") >results/$key.out 2>&1 </dev/null\n\
        echo $? >results/$key.status\n\
        echo \"<3>cowlab: end $key\" >/dev/kmsg\n\
        echo \"$label\"\n}\n"
        .to_vec();
    // Names of files are bytes, not text.
    let quoted = |word: &std::ffi::OsStr| {
        let mut text = Vec::new();
        quote(word, &mut text);
        text
    };
    text.extend_from_slice(b"cd ");
    text.extend(quoted(folder.as_os_str()));
    text.extend_from_slice(b" || exit 1\n: >results/begun\n");
    for (number, batch) in batches.iter().enumerate() {
        // Not as the condition itself, where -e has no effect.
        let setup = &batch.setup;
        let setup = format!("(set -e\n{setup}\n) >results/{number}.setup 2>&1\n");
        text.extend_from_slice(setup.as_bytes());
        text.extend_from_slice(b"if [ $? = 0 ]; then\n");
        for (at, test) in batch.tests.iter().enumerate() {
            text.extend(format!("test_one {} {} ", key(number, at), test.limit_s).as_bytes());
            text.extend(quoted(test.folder.as_deref().unwrap_or(folder).as_os_str()));
            text.push(b' ');
            text.extend(quoted(test.name.as_ref()));
            for word in &test.command {
                text.push(b' ');
                text.extend(quoted(word));
            }
            text.push(b'\n');
        }
        // An `if` must hold something.
        text.extend_from_slice(b":\nfi\n");
    }
    text.extend_from_slice(b"exit 0\n");
    text
}

fn collect(batches: &[Batch], folder: &Path, log: &str, died: Option<&str>) -> Vec<TestResult> {
    let results = folder.join("results");
    let mut all = Vec::new();
    let mut told = false;
    for (number, batch) in batches.iter().enumerate() {
        let setup = fs::read_to_string(results.join(format!("{number}.setup")));
        for (at, test) in batch.tests.iter().enumerate() {
            let key = key(number, at);
            let output = format!("results/{key}.out");
            let printed = fs::read(folder.join(&output)).ok();
            let printed = printed.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let status = fs::read_to_string(results.join(format!("{key}.status"))).ok();
            let status = status.and_then(|text| text.trim().parse().ok());
            let complaints = within(log, &key);
            let (outcome, reason, cases) = match (status, &printed) {
                (Some(status), Some(printed)) => {
                    let left = Left { status, printed, complaints: &complaints };
                    let (outcome, reason, cases) = judge(&left);
                    match unmarked(log, &key) {
                        // What the log says of it is not known to be nothing.
                        Some(lost) if outcome != Outcome::Fail => {
                            (Outcome::Fail, Some(lost), cases)
                        }
                        _ => (outcome, reason, cases),
                    }
                }
                (_, Some(_)) => {
                    told = true;
                    let how = died.unwrap_or("the guest ended");
                    (Outcome::Fail, Some(format!("the guest died in it: {how}")), Vec::new())
                }
                (_, None) => {
                    let why = match (&setup, died) {
                        (_, Some(how)) if !told => format!("not run: {how}"),
                        (_, Some(_)) => "not run: the guest had died".to_owned(),
                        (Ok(said), None) => format!("not run: its setup failed: {}", said.trim()),
                        (Err(_), None) => "not run".to_owned(),
                    };
                    told |= died.is_some();
                    (Outcome::Fail, Some(why), Vec::new())
                }
            };
            all.push(TestResult {
                name: test.name.clone(),
                outcome,
                reason,
                cases,
                complaints,
                output: printed.is_some().then_some(output),
            });
        }
    }
    all
}

/// Where in the log, from 0, a test's part of it begins (`begin`) or ends (`end`).
fn mark(log: &str, which: &str, key: &str) -> Option<usize> {
    let mark = format!("cowlab: {which} {key}");
    log.lines().position(|line| line.trim_end().ends_with(&mark))
}

/// What is wrong with the log of a test that ended: a lost mark may have gone with complaints.
fn unmarked(log: &str, key: &str) -> Option<String> {
    let lost = ["begin", "end"].into_iter().find(|which| mark(log, which, key).is_none())?;
    Some(format!("the guest's log lacks the mark of its {lost}: nobody knows what it said of it"))
}

/// Complaints between a test's marks; lines are counted from the whole log's beginning.
fn within(log: &str, key: &str) -> Vec<Complaint> {
    let Some(first) = mark(log, "begin", key) else { return Vec::new() };
    let last = mark(log, "end", key).unwrap_or(usize::MAX);
    let mut found = console::complaints(log);
    found.retain(|complaint| complaint.line > first && complaint.line <= last);
    found
}

/// Complaints that are within no test's marks.
fn outside(log: &str) -> Vec<Complaint> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in log.lines() {
        if line.contains("cowlab: begin ") {
            inside = true;
        }
        lines.push(inside);
        if line.contains("cowlab: end ") {
            inside = false;
        }
    }
    let mut found = console::complaints(log);
    found.retain(|complaint| !lines[complaint.line - 1]);
    found
}

struct Lines<'a> {
    done: &'a (dyn Fn(&str) + Sync),
    rest: Vec<u8>,
}

impl io::Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            (self.done)(String::from_utf8_lossy(&line).trim_end());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str, shell: &str) -> Test {
        let command = ["sh", "-c", shell].map(OsString::from).to_vec();
        Test { name: name.to_owned(), command, folder: None, limit_s: 5 }
    }

    /// Run the guest's script here, with another file for /dev/kmsg.
    fn run_here(batches: &[Batch], cut: Option<&str>) -> Vec<TestResult> {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("results")).unwrap();
        let text = String::from_utf8(script(folder.path(), batches)).unwrap();
        let log = folder.path().join("log");
        let text = text.replace(">/dev/kmsg", &format!(">>{}", log.display()));
        let status = Command::new("sh").arg("-c").arg(text).stdout(Stdio::null()).status();
        assert!(status.unwrap().success());
        if let Some(key) = cut {
            fs::remove_file(folder.path().join(format!("results/{key}.status"))).unwrap();
        }
        let log = fs::read_to_string(log).unwrap_or_default();
        collect(batches, folder.path(), &log, cut.map(|_| "the guest panicked"))
    }

    fn short(results: &[TestResult]) -> Vec<(&str, Outcome, &str)> {
        results
            .iter()
            .map(|result| {
                let reason = result.reason.as_deref().unwrap_or("");
                (result.name.as_str(), result.outcome, reason)
            })
            .collect()
    }

    #[test]
    fn each_test_has_its_own_result() {
        let batch = |setup: &str| Batch {
            setup: setup.to_owned(),
            tests: vec![test("passes", "echo 1..1; echo ok 1 a"), test("skips", "echo no; exit 4")],
        };
        let results = run_here(&[batch("true"), batch("echo no such policy; false; true")], None);
        assert_eq!(
            short(&results),
            [
                ("passes", Outcome::Pass, ""),
                ("skips", Outcome::Skip, "no"),
                ("passes", Outcome::Fail, "not run: its setup failed: no such policy"),
                ("skips", Outcome::Fail, "not run: its setup failed: no such policy"),
            ]
        );
        assert_eq!(results[0].cases.len(), 1);
    }

    #[test]
    fn a_test_that_hangs_or_that_the_guest_dies_in_has_failed() {
        let mut hangs = test("hangs", "sleep 60");
        hangs.limit_s = 1;
        let batch = Batch { setup: String::new(), tests: vec![hangs, test("x", "")] };
        let results = run_here(std::slice::from_ref(&batch), None);
        assert_eq!(results[0].reason.as_deref(), Some("ran longer than its limit"));
        assert_eq!(results[1].outcome, Outcome::Pass);
        let results = run_here(&[batch], Some("0.1"));
        let reason = results[1].reason.as_deref();
        assert_eq!(reason, Some("the guest died in it: the guest panicked"));
    }

    #[test]
    fn a_test_without_its_marks_in_the_log_has_failed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("results")).unwrap();
        fs::write(folder.path().join("results/0.0.out"), "1..1\nok 1 a\n").unwrap();
        fs::write(folder.path().join("results/0.0.status"), "0\n").unwrap();
        let batch = Batch { setup: String::new(), tests: vec![test("x", "")] };
        let whole = "cowlab: begin 0.0\ncowlab: end 0.0\n";
        let of = |log: &str| collect(std::slice::from_ref(&batch), folder.path(), log, None);
        assert_eq!(of(whole)[0].outcome, Outcome::Pass);
        for (log, lost) in [("cowlab: begin 0.0\n", "its end"), ("cowlab: end 0.0\n", "its begin")]
        {
            let results = of(log);
            assert_eq!(results[0].outcome, Outcome::Fail);
            assert!(results[0].reason.as_deref().unwrap().contains(lost), "{results:?}");
        }
    }

    #[test]
    fn a_complaint_belongs_to_the_test_that_ran() {
        let log = "WARNING: at boot\ncowlab: begin 0.1\nBUG: KASAN: x\r\ncowlab: end 0.1\n\
                   cowlab: begin 0.10\nWARNING: later\ncowlab: end 0.10\n";
        let texts = |found: Vec<Complaint>| -> Vec<String> {
            found.into_iter().map(|complaint| complaint.text).collect()
        };
        assert_eq!(texts(within(log, "0.1")), ["BUG: KASAN: x"]);
        assert_eq!(texts(within(log, "0.10")), ["WARNING: later"]);
        assert!(within(log, "0.2").is_empty());
        assert_eq!(texts(outside(log)), ["WARNING: at boot"]);
    }
}
