// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with results: a pass of the plain kernel that is gone, a failure that it has not,
//! a skip or a failure that nobody reviewed, a complaint in the guest's log.

use serde::Serialize;

use super::list::{List, Reviewed};
use crate::ktap::Outcome;
use crate::outcome::{TestResult, compare};

/// What [`Problem::on`] is for the kernel without the series.
const PLAIN: &str = "plain";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub on: String,
    pub what: String,
}

/// Everything that is wrong with the results of one policy; `plain` are the plain kernel's, where
/// that was run.
pub fn review(
    list: &List,
    on: &str,
    results: &[TestResult],
    plain: Option<&[TestResult]>,
) -> Vec<Problem> {
    let steady = |results: &[TestResult]| -> Vec<TestResult> {
        results.iter().map(|result| without_varying(list, result)).collect()
    };
    let results = steady(results);
    let mut found: Vec<String> =
        results.iter().flat_map(|result| of_one(list, on, result)).collect();
    if let Some(plain) = plain.map(steady) {
        // Tests that only one of them runs have nothing to be compared with.
        let shared = |these: &[TestResult], others: &[TestResult]| -> Vec<TestResult> {
            let known = |one: &&TestResult| others.iter().any(|other| other.name == one.name);
            these.iter().filter(known).cloned().collect()
        };
        let (plain, comparable) = (shared(&plain, &results), shared(&results, &plain));
        let name = |outcome: Option<Outcome>| outcome.map_or("not there", Outcome::name);
        found.extend(compare(&plain, &comparable).into_iter().map(|difference| {
            let (was, is) = (name(difference.before), name(difference.after));
            format!("{}: {is}, but {was} on the plain kernel", difference.name)
        }));
    }
    found.into_iter().map(|what| Problem { on: on.to_owned(), what }).collect()
}

/// The result without the cases that may differ from run to run; a failure of these alone is none,
/// but a crash, a timeout or missing results beside them are.
fn without_varying(list: &List, result: &TestResult) -> TestResult {
    let test = list.tests.iter().find(|test| test.name == result.name);
    let varies = test.map_or(&[][..], |test| &test.varies);
    let mut steady = result.clone();
    steady.cases.retain(|case| reviewed(varies, &case.name).is_none());
    let fails = |result: &TestResult| result.cases.iter().any(|case| case.outcome == Outcome::Fail);
    let forgivable = result.outcome == Outcome::Fail && result.broken.is_none();
    if forgivable && fails(result) && !fails(&steady) {
        steady.outcome = Outcome::Pass;
    }
    steady
}

fn of_one(list: &List, on: &str, result: &TestResult) -> Vec<String> {
    let mut found = Vec::new();
    for complaint in &result.complaints {
        if reviewed(&list.log, &complaint.text).is_none() {
            found.push(format!("{}: the kernel's log: {}", result.name, complaint.text));
        }
    }
    let test = list.tests.iter().find(|test| test.name == result.name);
    let skips = test.map_or(&[][..], |test| &test.skips);
    let mut known = test.map_or(Vec::new(), |test| test.known.clone());
    if on == PLAIN {
        known.extend(test.map_or(Vec::new(), |test| test.plain_fails.clone()));
    }
    let mut judge = |case: &str, outcome: Outcome, why: &str| {
        let (accepted, how) = match outcome {
            Outcome::Pass => return,
            // The project's own tests say why.
            Outcome::Skip if test.is_none() => return,
            Outcome::Skip => (skips, "skipped"),
            Outcome::Fail => (&known[..], "failed"),
        };
        if reviewed(accepted, &format!("{case}: {why}")).is_none() {
            let name = [result.name.as_str(), case].join(": ");
            let name = name.trim_end_matches(": ");
            let nobody = if test.is_some() { ", and nobody reviewed why" } else { "" };
            found.push(format!("{name}: {how}{nobody}: {why}"));
        }
    };
    for case in &result.cases {
        judge(&case.name, case.outcome, case.note.as_deref().unwrap_or(""));
    }
    // Its cases and the log have been judged: what is left is the program itself.
    let explained = |outcome| result.cases.iter().any(|case| case.outcome == outcome);
    if let Some(broken) = &result.broken {
        // No case explains it.
        judge("", Outcome::Fail, broken);
    } else if !explained(result.outcome) && result.complaints.is_empty() {
        judge("", result.outcome, result.reason.as_deref().unwrap_or(""));
    }
    found
}

/// The entry that accepts `text`.
pub fn reviewed<'a>(all: &'a [Reviewed], text: &str) -> Option<&'a Reviewed> {
    all.iter().find(|one| text.contains(&one.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console;
    use crate::outcome::{Left, broken, judge};

    fn list() -> List {
        List::parse(
            "left_out = []\n[build]\n[guest]\ncpus = 3\nmemory_mib = 4096\nkernel_arguments = []\n\
             hugetlb_pages = 1\nswap_mib = 1\n[[log]]\ntext = 'WARNING: harmless'\nreason = 'x'\n\
             [[test]]\nname = 'cow'\ncommand = ''\nlimit_s = 1\n\
             skips = [{ text = 'huge pages', reason = 'x' }]\nknown = [{ text = 'y2038', reason = 'x' }]\n\
             varies = [{ text = 'extra pages', reason = 'x' }]\n\
             plain_fails = [{ text = 'lost', reason = 'x' }]\n",
        )
        .unwrap()
    }

    fn results(status: i32, printed: &str, log: &str) -> Vec<TestResult> {
        let complaints = console::complaints(log);
        let left = Left { status, printed, complaints: &complaints };
        let ((outcome, reason, cases), broken) = (judge(&left), broken(&left));
        vec![TestResult {
            batch: String::new(),
            name: "mm/cow".to_owned(),
            outcome,
            reason,
            broken,
            cases,
            complaints,
            output: None,
        }]
    }

    fn problems(printed: &str, plain: Option<&str>, log: &str) -> Vec<String> {
        let plain = plain.map(|printed| results(0, printed, ""));
        let found = review(&list(), "next", &results(0, printed, log), plain.as_deref());
        found.into_iter().map(|problem| problem.what).collect()
    }

    #[test]
    fn equal_and_reviewed_results_are_right() {
        let printed = "ok 1 a\nok 2 # SKIP need more free huge pages\nnot ok 3 y2038\n";
        assert_eq!(problems(printed, Some(printed), "all is well\nWARNING: harmless\n"), [""; 0]);
        assert_eq!(problems(printed, None, ""), [""; 0]);
    }

    #[test]
    fn what_only_the_plain_kernel_may_fail_fails_the_others() {
        let failed = results(0, "not ok 1 lost pages\n", "");
        assert_eq!(review(&list(), "plain", &failed, None), []);
        assert_eq!(review(&list(), "off", &failed, Some(&failed)).len(), 1);
    }

    #[test]
    fn cases_that_vary_are_not_judged() {
        let plain = "ok 1 extra pages 49\nok 2 a\n";
        assert_eq!(problems("not ok 1 extra pages 7\nok 2 a\n", Some(plain), ""), [""; 0]);
        let worse = problems("not ok 1 extra pages 7\nnot ok 2 a\n", Some(plain), "");
        assert!(worse.iter().any(|what| what.contains("mm/cow: a: fail")), "{worse:?}");
    }

    #[test]
    fn nothing_else_that_is_wrong_is_forgiven_with_a_case_that_varies() {
        let varying = "1..1\nnot ok 1 extra pages 7\n";
        let found = |status, printed| -> Vec<String> {
            let found = review(&list(), "next", &results(status, printed, ""), None);
            found.into_iter().map(|problem| problem.what).collect()
        };
        // As kselftests end where a case failed.
        assert_eq!(found(1, varying), [""; 0]);
        let limit = ["mm/cow: failed, and nobody reviewed why: ran longer than its limit"];
        assert_eq!(found(124, varying), limit);
        assert!(found(139, varying)[0].contains("exit status 139"), "{:?}", found(139, varying));
        let missing = found(1, "1..2\nnot ok 1 extra pages 7\n");
        assert!(missing[0].contains("1 of 2 planned results are missing"), "{missing:?}");
        // Nor with one that is known.
        assert_eq!(found(124, "1..1\nnot ok 1 y2038\n"), limit);
    }

    #[test]
    fn a_difference_from_the_plain_kernel_is_found() {
        assert_eq!(
            problems("ok 1 # SKIP need more free huge pages\n", Some("ok 1 a\n"), ""),
            [
                "mm/cow: skip, but pass on the plain kernel",
                "mm/cow: a: not there, but pass on the plain kernel"
            ]
        );
        let lost = problems("ok 1 a\n", Some("ok 1 a\nok 2 b\n"), "");
        assert_eq!(lost, ["mm/cow: b: not there, but pass on the plain kernel"]);
    }

    #[test]
    fn what_nobody_reviewed_is_found_on_any_kernel() {
        let skipped = problems("ok 1 # SKIP no swap\nok 2 b\n", None, "");
        assert_eq!(skipped, ["mm/cow: skipped, and nobody reviewed why: no swap"]);
        let failed = ["mm/cow: a: failed, and nobody reviewed why: "];
        assert_eq!(problems("not ok 1 a\n", None, ""), failed);
        assert_eq!(problems("not ok 1 a\n", Some("not ok 1 a\n"), ""), failed);
        let crashed = review(&list(), "off", &results(139, "ok 1 a\n", ""), None);
        assert_eq!(
            crashed[0].what,
            "mm/cow: failed, and nobody reviewed why: exit status 139: ok 1 a"
        );
        let log = problems("ok 1 a\n", None, "x\nBUG: Bad page state in process cow\n");
        assert_eq!(log, ["mm/cow: the kernel's log: BUG: Bad page state in process cow"]);
    }
}
