// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Some of upstream's tests print no KTAP, but a line for each thing that ends with how it went.

use crate::ktap::{Case, Outcome};

/// What khugepaged says of memory that has become huge before it asked for that.
const SURPRISED: &str = "Unexpected huge page";

/// The cases that such an output tells of.
pub fn cases(output: &str) -> Vec<Case> {
    let mut about = String::new();
    let mut cases = Vec::new();
    for line in output.lines() {
        let line = without_colour(line);
        if let Some(text) = line.strip_prefix("Run test:") {
            about = format!("{}: ", text.trim());
        }
        // What a child of khugepaged's ends with, without a word of how it went.
        if line.trim() == SURPRISED {
            let (name, outcome) = (format!("{about}{SURPRISED}"), Outcome::Fail);
            cases.push(Case { name, outcome, note: None });
        }
        if let Some((name, outcome, said)) = read(line.trim()) {
            let note = (outcome != Outcome::Pass).then_some(said);
            cases.push(Case { name: format!("{about}{name}"), outcome, note });
        }
    }
    cases
}

/// `Testing what... done`, `What.... OK`
fn read(line: &str) -> Option<(String, Outcome, String)> {
    let (what, said) = line.rsplit_once("...")?;
    let said = said.trim();
    let outcome = match said.split([' ', '[']).next().unwrap_or("") {
        "OK" | "done" => Outcome::Pass,
        "Fail" | "failed" => Outcome::Fail,
        "Skip" | "skipped" => Outcome::Skip,
        _ => return None,
    };
    Some((what.trim_end_matches('.').trim().to_owned(), outcome, said.to_owned()))
}

/// A line without the escape sequences of a terminal.
fn without_colour(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let mut text = parts.next().unwrap_or("").to_owned();
    for part in parts {
        text.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uffds_and_khugepageds_lines_are_cases() {
        let output = "Testing wp-fork on anon... done\nTesting move on anon... skipped [reason: x]\n\
                      Testing zeropage on shmem... failed [reason: y]\n\
                      Userfaults unit tests: pass=1, skip=1, fail=1 (total=3)\n\
                      Run test: collapse_full (khugepaged:anon)\n\
                      Collapse PTE table.... \x1b[32mOK\x1b[0m\nCollapse it.... \x1b[31mFail\x1b[0m\n\
                      Unexpected huge page\n";
        let found: Vec<_> = cases(output)
            .into_iter()
            .map(|case| (case.name, case.outcome, case.note.unwrap_or_default()))
            .collect();
        let case = |name: &str, outcome, note: &str| (name.to_owned(), outcome, note.to_owned());
        let about = "collapse_full (khugepaged:anon): ";
        assert_eq!(
            found,
            [
                case("Testing wp-fork on anon", Outcome::Pass, ""),
                case("Testing move on anon", Outcome::Skip, "skipped [reason: x]"),
                case("Testing zeropage on shmem", Outcome::Fail, "failed [reason: y]"),
                case(&format!("{about}Collapse PTE table"), Outcome::Pass, ""),
                case(&format!("{about}Collapse it"), Outcome::Fail, "Fail"),
                case(&format!("{about}Unexpected huge page"), Outcome::Fail, ""),
            ]
        );
    }
}
