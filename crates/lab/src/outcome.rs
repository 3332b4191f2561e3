// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a test program ended.

use serde::Serialize;

use crate::console::Complaint;
use crate::ktap::{self, Case, Outcome, Report};

/// kselftest's exit status for "could not be run".
const SKIPPED: i32 = 4;

/// What timeout(1) ends with.
const TIMED_OUT: [i32; 2] = [124, 137];

/// The first exit status that a shell gives for a signal.
const SIGNALLED: i32 = 128;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestResult {
    pub name: String,
    pub outcome: Outcome,
    /// Why, where it did not pass.
    pub reason: Option<String>,
    /// Its cases, where it prints KTAP.
    pub cases: Vec<Case>,
    /// What the guest's log says about the time of the test.
    pub complaints: Vec<Complaint>,
    /// The file with all that it printed.
    pub output: Option<String>,
}

/// What a test that was run left behind.
#[derive(Debug)]
pub struct Left<'a> {
    pub status: i32,
    pub printed: &'a str,
    /// What the log says about its time.
    pub complaints: &'a [Complaint],
}

/// How a test ended: by its status, its cases and the kernel's log, of which the worst counts.
pub fn judge(left: &Left<'_>) -> (Outcome, Option<String>, Vec<Case>) {
    let report = ktap::parse(left.printed);
    let failed: Vec<&str> = report
        .cases
        .iter()
        .filter(|case| case.outcome == Outcome::Fail)
        .map(|case| case.name.as_str())
        .collect();
    let why = if let Some(complaint) = left.complaints.first() {
        Some(format!("the kernel's log: {}", complaint.text))
    } else if let Some(broken) = broken(left, &report) {
        Some(broken)
    } else if let [first, ..] = failed[..] {
        Some(format!("{} of {} cases failed: {first}", failed.len(), report.cases.len()))
    } else if ![0, SKIPPED].contains(&left.status) {
        Some(with_status(left))
    } else {
        None
    };
    if why.is_some() {
        return (Outcome::Fail, why, report.cases);
    }
    let all_skipped =
        !report.cases.is_empty() && report.cases.iter().all(|case| case.outcome == Outcome::Skip);
    if left.status == SKIPPED || report.skipped.is_some() || all_skipped {
        let case = report.cases.iter().find_map(|case| case.note.clone());
        let why = report.skipped.filter(|why| !why.is_empty()).or(case);
        return (Outcome::Skip, why.or(Some(last_line(left.printed))), report.cases);
    }
    (Outcome::Pass, None, report.cases)
}

/// What is wrong whatever the cases say: a failed one gives an exit status below these.
fn broken(left: &Left<'_>, report: &Report) -> Option<String> {
    if TIMED_OUT.contains(&left.status) {
        return Some("ran longer than its limit".to_owned());
    }
    let crashed = (left.status >= SIGNALLED).then(|| with_status(left));
    crashed.or_else(|| report.problems.first().cloned())
}

fn with_status(left: &Left<'_>) -> String {
    format!("exit status {}: {}", left.status, last_line(left.printed))
}

fn last_line(text: &str) -> String {
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or("it printed nothing".to_owned(), |line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(status: i32, printed: &str) -> (Outcome, Option<String>) {
        let (outcome, why, _) = judge(&Left { status, printed, complaints: &[] });
        (outcome, why)
    }

    #[test]
    fn the_worst_of_status_cases_and_log_counts() {
        assert_eq!(left(0, "1..1\nok 1 a\n"), (Outcome::Pass, None));
        assert_eq!(left(0, ""), (Outcome::Pass, None));
        let (outcome, why) = left(0, "1..2\nok 1 a\nnot ok 2 b\n");
        assert_eq!((outcome, why.as_deref()), (Outcome::Fail, Some("1 of 2 cases failed: b")));
        let (outcome, why) = left(139, "1..1\nok 1 a\n");
        assert_eq!((outcome, why.as_deref()), (Outcome::Fail, Some("exit status 139: ok 1 a")));
        assert_eq!(left(0, "1..2\nok 1 a\n").0, Outcome::Fail);
        // A failed case hides nothing worse.
        let (_, why) = left(1, "1..2\nnot ok 1 a\n");
        assert_eq!(why.as_deref(), Some("1 of 2 planned results are missing"));
        let (_, why) = left(134, "1..1\nnot ok 1 a\n");
        assert_eq!(why.as_deref(), Some("exit status 134: not ok 1 a"));
        assert_eq!(left(124, "").1.as_deref(), Some("ran longer than its limit"));
        let complaint = Complaint { kind: "WARNING", line: 1, text: "WARNING: mm".into() };
        let ended = Left { status: 0, printed: "1..1\nok 1 a\n", complaints: &[complaint] };
        assert_eq!(judge(&ended).0, Outcome::Fail);
        assert_eq!(judge(&ended).1.as_deref(), Some("the kernel's log: WARNING: mm"));
    }

    #[test]
    fn a_skip_has_its_reason_and_is_no_pass() {
        assert_eq!(left(4, "needs root\n"), (Outcome::Skip, Some("needs root".into())));
        assert_eq!(left(0, "1..0 # SKIP no KSM\n"), (Outcome::Skip, Some("no KSM".into())));
        let all = "1..2\nok 1 a # SKIP no pages\nok 2 b # SKIP\n";
        assert_eq!(left(0, all), (Outcome::Skip, Some("no pages".into())));
        assert_eq!(left(0, "1..2\nok 1 a # SKIP no pages\nok 2 b\n").0, Outcome::Pass);
        assert_eq!(left(4, "1..1\nnot ok 1 a\n").0, Outcome::Fail);
    }
}
