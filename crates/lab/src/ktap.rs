// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tests print: KTAP and TAP 13, as kselftests and KUnit write them
//! (Documentation/dev-tools/ktap.rst).

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It passed, or failed as it is known to.
    Pass,
    Fail,
    /// It could not be run.
    Skip,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Fail => "fail",
            Outcome::Skip => "skip",
        }
    }
}

/// One result line that has no results below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Its description, behind those of the tests that it is a part of: `suite/case`.
    pub name: String,
    pub outcome: Outcome,
    /// What the line says about it: the reason of a skip.
    pub note: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The cases, in their order.
    pub cases: Vec<Case>,
    /// What the output itself shows to be wrong: cases that are missing, "Bail out!".
    pub problems: Vec<String>,
    /// Why all of it was skipped (`1..0 # SKIP reason`).
    pub skipped: Option<String>,
}

#[derive(Default)]
struct Level {
    indent: usize,
    planned: Option<usize>,
    seen: usize,
    /// Where the cases begin that belong to its next result line.
    first: usize,
}

/// Read the output of a test. Lines that are no KTAP are diagnostics, and ignored.
pub fn parse(text: &str) -> Report {
    let mut report = Report::default();
    let mut levels: Vec<Level> = vec![Level::default()];
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        let Some(parsed) = read(content) else { continue };
        // A subtest is indented. What returns to an outer level is the result of what was inside.
        let mut inner_first = None;
        while levels.len() > 1 && levels.last().is_some_and(|level| level.indent > indent) {
            let level = levels.pop().expect("there is one");
            check_plan(&level, &mut report.problems);
            inner_first = Some(level.first);
        }
        if levels.last().is_some_and(|level| level.indent < indent) {
            levels.push(Level { indent, first: report.cases.len(), ..Level::default() });
        }
        let level = levels.last_mut().expect("there is one");
        match parsed {
            Line::Plan(count, note) => {
                level.planned = Some(count);
                if count == 0 && level.indent == 0 {
                    report.skipped = Some(note.unwrap_or_default());
                }
            }
            Line::BailOut(why) => report.problems.push(format!("bailed out: {why}")),
            Line::Result(case) => {
                level.seen += 1;
                let inner = inner_first.filter(|first| *first < report.cases.len());
                match inner {
                    Some(first) => add_summary(&mut report, first, case),
                    None => report.cases.push(case),
                }
            }
        }
    }
    for level in levels.iter().rev() {
        check_plan(level, &mut report.problems);
    }
    report
}

/// The result of a test whose cases are those from `first`: they get its name before theirs.
fn add_summary(report: &mut Report, first: usize, summary: Case) {
    let cases = &mut report.cases[first..];
    let any_failed = cases.iter().any(|case| case.outcome == Outcome::Fail);
    for case in cases {
        case.name = format!("{}/{}", summary.name, case.name);
    }
    // It failed by itself, as when its process crashed.
    if summary.outcome == Outcome::Fail && !any_failed {
        report.cases.push(summary);
    }
}

fn check_plan(level: &Level, problems: &mut Vec<String>) {
    if let Some(planned) = level.planned.filter(|planned| *planned > level.seen) {
        problems.push(format!("{} of {planned} planned results are missing", planned - level.seen));
    }
}

enum Line {
    Plan(usize, Option<String>),
    Result(Case),
    BailOut(String),
}

fn read(line: &str) -> Option<Line> {
    if let Some(rest) = line.strip_prefix("1..") {
        let (count, note) = rest.split_once('#').map_or((rest, None), |(c, n)| (c, Some(n)));
        let note = note.map(|note| after_word(note.trim(), "SKIP").to_owned());
        return Some(Line::Plan(count.trim().parse().ok()?, note));
    }
    if let Some(why) = line.strip_prefix("Bail out!") {
        return Some(Line::BailOut(why.trim().to_owned()));
    }
    let (ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    // "ok" alone is a result; "okay" is not.
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest.trim_start();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return None;
    }
    let rest = rest[digits..].trim_start();
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = split_directive(rest);
    let upper = directive.map(str::to_ascii_uppercase).unwrap_or_default();
    let outcome = if upper.starts_with("SKIP") {
        Outcome::Skip
    } else if ok || upper.starts_with("TODO") || upper.starts_with("XFAIL") {
        Outcome::Pass
    } else {
        Outcome::Fail
    };
    let note = directive.map(|note| after_word(note, "SKIP").to_owned());
    Some(Line::Result(Case {
        name: name.trim().to_owned(),
        outcome,
        note: note.filter(|note| !note.is_empty()),
    }))
}

/// The text after the last " # ", which escapes itself in a description by a backslash.
fn split_directive(text: &str) -> (&str, Option<&str>) {
    if let Some(directive) = text.strip_prefix("# ") {
        return ("", Some(directive.trim()));
    }
    const KNOWN: [&str; 5] = ["SKIP", "TODO", "XFAIL", "TIMEOUT", "ERROR"];
    for (at, _) in text.match_indices(" # ") {
        let directive = text[at + 3..].trim();
        let upper = directive.to_ascii_uppercase();
        if KNOWN.iter().any(|known| upper.starts_with(known)) {
            return (&text[..at], Some(directive));
        }
    }
    (text, None)
}

fn after_word<'a>(text: &'a str, word: &str) -> &'a str {
    match text.get(..word.len()) {
        Some(start) if start.eq_ignore_ascii_case(word) => text[word.len()..].trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(text: &str) -> Vec<(String, Outcome, Option<String>)> {
        let report = parse(text);
        report.cases.into_iter().map(|case| (case.name, case.outcome, case.note)).collect()
    }

    #[test]
    fn a_kselftest() {
        let text = "TAP version 13\n1..4\n# [INFO] a note\nok 1 No leak from parent into child\n\
                    not ok 2 vmsplice() # of a page\nok 3 huge pages # SKIP no huge pages\n\
                    not ok 4 - known # XFAIL since 6.1\n# Totals: pass:1 fail:1\nokay then\n";
        let expected = [
            ("No leak from parent into child", Outcome::Pass, None),
            ("vmsplice() # of a page", Outcome::Fail, None),
            ("huge pages", Outcome::Skip, Some("no huge pages")),
            ("known", Outcome::Pass, Some("XFAIL since 6.1")),
        ]
        .map(|(name, outcome, note)| (name.to_owned(), outcome, note.map(str::to_owned)));
        assert_eq!(cases(text), expected);
        assert!(parse(text).problems.is_empty());
    }

    #[test]
    fn kunit_nests() {
        let text = "KTAP version 1\n1..2\n    KTAP version 1\n    # Subtest: cow\n    1..2\n    \
                    ok 1 first\n    not ok 2 second\nnot ok 1 cow\n    KTAP version 1\n    1..1\n\
                    \x20       KTAP version 1\n        1..2\n        ok 1 a\n        ok 2 b\n    \
                    ok 1 params\nok 2 other\n";
        let names: Vec<String> = cases(text).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["cow/first", "cow/second", "other/params/a", "other/params/b"]);
        assert!(parse(text).problems.is_empty(), "{:?}", parse(text).problems);
    }

    #[test]
    fn a_test_that_fails_as_a_whole_counts() {
        let text = "1..1\n    1..1\n    ok 1 inner\nnot ok 1 outer # exit=139\n";
        let found = cases(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].0.as_str(), found[1].1), ("outer # exit=139", Outcome::Fail));
    }

    #[test]
    fn what_is_missing_is_a_problem() {
        assert_eq!(parse("1..3\nok 1 a\n").problems, ["2 of 3 planned results are missing"]);
        assert_eq!(
            parse("1..1\nBail out! no memory\n").problems,
            ["bailed out: no memory", "1 of 1 planned results are missing"]
        );
        let inner = parse("1..1\n  1..2\n  ok 1 a\nok 1 outer\n");
        assert_eq!(inner.problems, ["1 of 2 planned results are missing"]);
    }

    #[test]
    fn all_of_it_may_be_skipped() {
        let report = parse("TAP version 13\n1..0 # SKIP no KSM here\n");
        assert_eq!(report.skipped.as_deref(), Some("no KSM here"));
        assert!(report.cases.is_empty() && report.problems.is_empty());
    }
}
