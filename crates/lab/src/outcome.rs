// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a test program ended, and whether a second run of the tests is as good as the first.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// Under which circumstances: `next:16`.
    pub batch: String,
    pub name: String,
    pub outcome: Outcome,
    /// Why, where it did not pass.
    pub reason: Option<String>,
    /// What is wrong with it beside failed cases: a limit, a crash, missing results, a dead guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
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
    } else if let Some(broken) = broken_by(left, &report) {
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

/// What is wrong whatever the cases say: of failed ones a test tells by an exit status below these.
pub fn broken(left: &Left<'_>) -> Option<String> {
    broken_by(left, &ktap::parse(left.printed))
}

fn broken_by(left: &Left<'_>, report: &Report) -> Option<String> {
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

/// A result that is worse in the second run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The test, with its case if it is one's.
    pub name: String,
    /// How it ended first; `None` where it was not there.
    pub before: Option<Outcome>,
    pub after: Option<Outcome>,
}

/// What passed before and does not now, and what fails now and did not fail before.
pub fn compare(before: &[TestResult], after: &[TestResult]) -> Vec<Difference> {
    let (before, after) = (flat(before), flat(after));
    let names = before.keys().chain(after.keys()).collect::<std::collections::BTreeSet<_>>();
    let is_worse = |name: &&&(String, usize)| {
        let (was, is) = (before.get(name), after.get(name));
        let lost = was == Some(&Outcome::Pass) && is != Some(&Outcome::Pass);
        lost || (is == Some(&Outcome::Fail) && was != Some(&Outcome::Fail))
    };
    let differs = |key: &(String, usize)| Difference {
        name: key.0.clone(),
        before: before.get(key).copied(),
        after: after.get(key).copied(),
    };
    names.iter().filter(is_worse).map(|name| differs(name)).collect()
}

/// Every test and case. Cases of one name are told apart by their order.
fn flat(results: &[TestResult]) -> BTreeMap<(String, usize), Outcome> {
    let mut all = BTreeMap::new();
    let mut add = |name: String, outcome| {
        let number = (0..).find(|number| !all.contains_key(&(name.clone(), *number)));
        all.insert((name, number.unwrap_or(0)), outcome);
    };
    for result in results {
        add(result.name.clone(), result.outcome);
        for case in &result.cases {
            add(format!("{}: {}", result.name, case.name), case.outcome);
        }
    }
    all
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

    fn result(name: &str, outcome: Outcome, cases: &[(&str, Outcome)]) -> TestResult {
        let case = |(name, outcome): &(&str, Outcome)| Case {
            name: (*name).to_owned(),
            outcome: *outcome,
            note: None,
        };
        TestResult {
            batch: String::new(),
            name: name.to_owned(),
            outcome,
            reason: None,
            broken: None,
            cases: cases.iter().map(case).collect(),
            complaints: Vec::new(),
            output: None,
        }
    }

    #[test]
    fn lost_passes_and_new_failures_are_found() {
        use Outcome::{Fail, Pass, Skip};
        let before = [
            result("cow", Pass, &[("a", Pass), ("a", Pass), ("b", Skip), ("c", Pass), ("d", Fail)]),
            result("uffd", Pass, &[]),
        ];
        let after = [
            result("cow", Fail, &[("a", Pass), ("a", Fail), ("b", Pass), ("d", Fail), ("e", Fail)]),
            result("uffd", Skip, &[]),
        ];
        assert!(compare(&before, &before).is_empty());
        let found = compare(&before, &after);
        let names: Vec<&str> = found.iter().map(|worse| worse.name.as_str()).collect();
        assert_eq!(names, ["cow", "cow: a", "cow: c", "cow: e", "uffd"]);
        assert_eq!((found[2].before, found[2].after), (Some(Pass), None));
    }
}
