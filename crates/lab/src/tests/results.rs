// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a test's output says about each single thing that it tried.

use std::collections::HashMap;

use serde::Serialize;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// As it has to, or as upstream expects it to fail.
    Pass,
    /// It was not tried.
    Skip,
    /// Otherwise.
    Fail,
}

impl Outcome {
    /// Its name in the lists.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Pass => "pass",
            Outcome::Skip => "skip",
            Outcome::Fail => "fail",
        }
    }
}

/// One single result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Single {
    /// What was tried: the same in each run.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, where the test says so.
    pub reason: String,
}

/// The name of the result that a program's exit status is.
pub const WHOLE: &str = "the whole";

/// Everything that `output` and the exit status tell. Not all of upstream's tests print TAP: some
/// print a line for each thing that ends with OK or done, some only exit.
pub fn singles(output: &str, status: u8, limit_s: u64) -> Vec<Single> {
    let mut found: Vec<Single> = Vec::new();
    let mut about = String::new();
    let mut skipped = String::new();
    let mut seen: HashMap<String, u32> = HashMap::new();
    for line in output.lines() {
        let line = without_colour(line);
        let line = line.trim();
        if let Some(text) = line.strip_prefix("# [RUN]").or_else(|| line.strip_prefix("Run test:")) {
            about = text.trim().to_owned();
        }
        if let Some((_, reason)) = line.split_once("# SKIP") {
            skipped = reason.trim().to_owned();
        }
        let Some((name, outcome, reason)) = tap(line).or_else(|| spoken(line)) else { continue };
        let mut name = if about.is_empty() { name } else { format!("{name} [{about}]") };
        let times = seen.entry(name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            name = format!("{name} ({times})");
        }
        found.push(Single { name, outcome, reason });
    }
    let (outcome, reason) = match status {
        0 => (Outcome::Pass, String::new()),
        // kselftest's, and the project's own.
        4 | 77 if skipped.is_empty() => {
            (Outcome::Skip, output.lines().last().unwrap_or("").trim().to_owned())
        }
        4 | 77 => (Outcome::Skip, skipped),
        124 | 137 => (Outcome::Fail, format!("killed after {limit_s} s")),
        signal @ 129..=192 => (Outcome::Fail, format!("killed by signal {}", signal - 128)),
        _ => (Outcome::Fail, format!("exit status {status}")),
    };
    found.push(Single { name: WHOLE.to_owned(), outcome, reason });
    found
}

/// `ok 12 what # SKIP why`
fn tap(line: &str) -> Option<(String, Outcome, String)> {
    let (good, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    number.parse::<u32>().ok()?;
    let (what, directive) = rest.split_once('#').unwrap_or((rest, ""));
    let directive = directive.trim();
    let name = format!("{number} {}", what.trim()).trim_end().to_owned();
    // The number alone names what was skipped: many tests say what it is only when they run it.
    match (good, directive.strip_prefix("SKIP")) {
        (true, Some(reason)) => Some((number_of(&name), Outcome::Skip, reason.trim().to_owned())),
        (true, None) => Some((number_of(&name), Outcome::Pass, String::new())),
        (false, _) => {
            let reason = format!("{} {directive}", what.trim());
            Some((number_of(&name), Outcome::Fail, reason.trim().to_owned()))
        }
    }
}

/// Descriptions hold outcomes ("No leak" and "Leak"), so that only the number stays the same.
fn number_of(name: &str) -> String {
    name.split(' ').next().unwrap_or(name).to_owned()
}

/// `Testing what... done`, `What.... OK`
fn spoken(line: &str) -> Option<(String, Outcome, String)> {
    let (what, said) = line.rsplit_once("...")?;
    let said = said.trim();
    let name = what.trim_end_matches('.').trim().to_owned();
    let first = said.split([' ', '[']).next().unwrap_or("");
    match first {
        "OK" | "done" => Some((name, Outcome::Pass, String::new())),
        "Fail" | "failed" => Some((name, Outcome::Fail, said.to_owned())),
        "Skip" | "skipped" => Some((name, Outcome::Skip, said.to_owned())),
        _ => None,
    }
}

/// A line without the escape sequences of a terminal.
fn without_colour(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut parts = line.split('\x1b');
    text.push_str(parts.next().unwrap_or(""));
    for part in parts {
        text.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &str, status: u8) -> Vec<(String, Outcome, String)> {
        singles(output, status, 60).into_iter().map(|s| (s.name, s.outcome, s.reason)).collect()
    }

    fn one(name: &str, outcome: Outcome, reason: &str) -> (String, Outcome, String) {
        (name.to_owned(), outcome, reason.to_owned())
    }

    #[test]
    fn tap_is_read_by_numbers_and_what_was_run() {
        let output = "TAP version 13\n1..4\n# [RUN] Basic COW ... with swapped out page\n\
                      ok 1 No leak from parent into child\nnot ok 2 Leak from child into parent\n\
                      ok 3 # SKIP need more free huge pages\nok 4 # XFAIL Leak from parent\n\
                      # Totals: pass:1 fail:1 xfail:1 xpass:0 skip:1 error:0\n";
        let about = "[Basic COW ... with swapped out page]";
        assert_eq!(
            of(output, 1),
            [
                one(&format!("1 {about}"), Outcome::Pass, ""),
                one(&format!("2 {about}"), Outcome::Fail, "Leak from child into parent"),
                one(&format!("3 {about}"), Outcome::Skip, "need more free huge pages"),
                one(&format!("4 {about}"), Outcome::Pass, ""),
                one(WHOLE, Outcome::Fail, "exit status 1"),
            ]
        );
    }

    #[test]
    fn what_is_spoken_is_read_too() {
        let output = "Testing wp-fork on anon... done\nTesting move on anon... skipped [reason: x]\n\
                      Testing zeropage on shmem... failed [reason: y]\n\
                      Run test: collapse_full (khugepaged:anon)\n\
                      Collapse PTE table.... \x1b[32mOK\x1b[0m\nCollapse PTE table.... \x1b[31mFail\x1b[0m\n";
        let about = "[collapse_full (khugepaged:anon)]";
        assert_eq!(
            of(output, 0),
            [
                one("Testing wp-fork on anon", Outcome::Pass, ""),
                one("Testing move on anon", Outcome::Skip, "skipped [reason: x]"),
                one("Testing zeropage on shmem", Outcome::Fail, "failed [reason: y]"),
                one(&format!("Collapse PTE table {about}"), Outcome::Pass, ""),
                one(&format!("Collapse PTE table {about} (2)"), Outcome::Fail, "Fail"),
                one(WHOLE, Outcome::Pass, ""),
            ]
        );
    }

    #[test]
    fn the_exit_status_is_a_result() {
        let last = |output, status| of(output, status).pop().unwrap();
        assert_eq!(last("", 124), one(WHOLE, Outcome::Fail, "killed after 60 s"));
        assert_eq!(last("", 139), one(WHOLE, Outcome::Fail, "killed by signal 11"));
        assert_eq!(last("1..0 # SKIP no zram\n", 4), one(WHOLE, Outcome::Skip, "no zram"));
        assert_eq!(last("no debugfs\n", 77), one(WHOLE, Outcome::Skip, "no debugfs"));
    }
}
