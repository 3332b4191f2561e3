// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with the results of a session: a failure that the plain kernel has not, a result
//! that it has otherwise, a skip that nobody reviewed, a complaint in the guest's log.

use std::collections::BTreeMap;

use serde::Serialize;

use super::list::{List, Reviewed, Test};
use super::results::{Outcome, Single};
use super::session::Session;

/// Something that fails the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Kernel and policy.
    pub session: String,
    /// The test; empty for the guest's log.
    pub test: String,
    /// What is wrong, for people.
    pub what: String,
}

/// Everything that is wrong with `session`; `plain` is the plain kernel's, where that was run.
pub fn judge(list: &List, session: &Session, plain: Option<&Session>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |test: &str, what: String| {
        let problem = Problem { session: session.label.clone(), test: test.to_owned(), what };
        problems.push(problem);
    };
    for done in &session.done {
        let Some(test) = list.tests.iter().find(|test| test.name == done.test) else { continue };
        let others = plain.and_then(|plain| plain.done.iter().find(|d| d.test == done.test));
        let theirs: Option<BTreeMap<&str, &Single>> =
            others.map(|done| done.singles.iter().map(|s| (s.name.as_str(), s)).collect());
        for single in &done.singles {
            let other = theirs.as_ref().map(|all| all.get(single.name.as_str()).copied());
            if let Some(what) = wrong(test, single, other) {
                add(&test.name, what);
            }
        }
        for name in theirs.iter().flat_map(|all| all.keys()) {
            if !done.singles.iter().any(|single| single.name == *name) {
                add(&test.name, format!("{name}: has no result here, but on the plain kernel"));
            }
        }
    }
    for complaint in &session.complaints {
        if reviewed(&list.log, &complaint.text).is_none() {
            add("", format!("{}, line {}: {}", complaint.kind, complaint.line, complaint.text));
        }
    }
    problems
}

/// What is wrong with one result. `other`: the plain kernel's, if that ran this test.
fn wrong(test: &Test, single: &Single, other: Option<Option<&Single>>) -> Option<String> {
    let Single { name, outcome, reason } = single;
    match (outcome, other) {
        (Outcome::Fail, None) if reviewed(&test.known, &said(single)).is_none() => {
            Some(format!("{name}: failed: {reason}"))
        }
        (_, Some(None)) => Some(format!("{name}: {}, but no result on the plain kernel", outcome.name())),
        (_, Some(Some(other))) if other.outcome != *outcome => Some(format!(
            "{name}: {} ({reason}), but {} on the plain kernel",
            outcome.name(),
            other.outcome.name()
        )),
        (Outcome::Skip, _) if reviewed(&test.skips, &said(single)).is_none() => {
            Some(format!("{name}: skipped, and nobody reviewed why: {reason}"))
        }
        (Outcome::Fail, Some(_)) if reviewed(&test.known, &said(single)).is_none() => {
            Some(format!("{name}: failed as on the plain kernel, and nobody reviewed why: {reason}"))
        }
        _ => None,
    }
}

fn said(single: &Single) -> String {
    format!("{}: {}", single.name, single.reason)
}

/// The entry that accepts `text`.
pub fn reviewed<'a>(all: &'a [Reviewed], text: &str) -> Option<&'a Reviewed> {
    all.iter().find(|one| text.contains(&one.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console;
    use crate::tests::session::Done;

    fn list() -> List {
        List::parse(
            "left_out = []\n[build]\n[guest]\ncpus = 3\nmemory_mib = 4096\nkernel_arguments = []\n\
             hugetlb_pages = 1\nswap_mib = 1\n[[log]]\ntext = 'WARNING: harmless'\nreason = 'x'\n\
             [[test]]\nname = 'cow'\ncommand = ''\nlimit_s = 1\n\
             skips = [{ text = 'huge pages', reason = 'x' }]\nknown = [{ text = 'y2038', reason = 'x' }]\n",
        )
        .unwrap()
    }

    fn session(label: &str, output: &str, log: &str) -> Session {
        let singles = crate::tests::results::singles(output, 0, 1);
        Session {
            label: label.to_owned(),
            done: vec![Done { test: "cow".to_owned(), seconds: 1.0, singles, output: String::new() }],
            complaints: console::complaints(log),
            log: String::new(),
        }
    }

    fn problems(output: &str, plain: Option<&str>, log: &str) -> Vec<String> {
        let plain = plain.map(|output| session("plain", output, ""));
        let found = judge(&list(), &session("patched", output, log), plain.as_ref());
        found.into_iter().map(|problem| problem.what).collect()
    }

    #[test]
    fn equal_and_reviewed_results_are_right() {
        let output = "ok 1 a\nok 2 # SKIP need more free huge pages\nnot ok 3 y2038\n";
        assert_eq!(problems(output, Some(output), "all is well\nWARNING: harmless\n"), [""; 0]);
        assert_eq!(problems(output, None, ""), [""; 0]);
    }

    #[test]
    fn each_difference_is_found() {
        assert_eq!(problems("not ok 1 a\n", Some("ok 1 a\n"), ""),
            ["1: fail (a), but pass on the plain kernel"]);
        assert_eq!(problems("ok 1 # SKIP need more free huge pages\n", Some("ok 1 a\n"), ""),
            ["1: skip (need more free huge pages), but pass on the plain kernel"]);
        assert_eq!(problems("ok 1 a\n", Some("ok 1 a\nok 2 b\n"), ""),
            ["2: has no result here, but on the plain kernel"]);
        assert_eq!(problems("ok 1 a\nok 2 b\n", Some("ok 1 a\n"), ""),
            ["2: pass, but no result on the plain kernel"]);
    }

    #[test]
    fn what_nobody_reviewed_is_found_on_any_kernel() {
        assert_eq!(problems("ok 1 # SKIP no swap\n", None, ""),
            ["1: skipped, and nobody reviewed why: no swap"]);
        assert_eq!(problems("not ok 1 a\n", None, ""), ["1: failed: a"]);
        assert_eq!(problems("not ok 1 a\n", Some("not ok 1 a\n"), ""),
            ["1: failed as on the plain kernel, and nobody reviewed why: a"]);
        assert_eq!(problems("ok 1 a\n", None, "x\nBUG: Bad page state in process cow\n"),
            ["bad page, line 2: BUG: Bad page state in process cow"]);
    }
}
