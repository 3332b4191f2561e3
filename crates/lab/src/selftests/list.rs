// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel/selftests.toml`: what is run, and what was reviewed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What the names of upstream's selftests begin with, to tell them from the project's own.
pub const PREFIX: &str = "mm/";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    pub guest: Guest,
    pub build: Build,
    /// The tests, in the order in which they run.
    #[serde(rename = "test")]
    pub tests: Vec<Test>,
    /// Upstream's tests that are not run, and why: for people.
    pub left_out: Vec<IgnoredAny>,
    /// Complaints in a guest's log that were reviewed.
    #[serde(default)]
    pub log: Vec<Reviewed>,
}

/// The guest that tests run in.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    pub cpus: u32,
    pub memory_mib: u64,
    /// More for the kernel's command line.
    pub kernel_arguments: Vec<String>,
    /// Huge pages that are reserved before each test.
    pub hugetlb_pages: u32,
    /// Size of the compressed swap device.
    pub swap_mib: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// More flags for the compiler, by program.
    #[serde(default)]
    pub flags: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// How it is called: in the file without the prefix.
    pub name: String,
    pub command: String,
    pub limit_s: u64,
    /// Whether it is part of the quick choice.
    #[serde(default)]
    pub quick: bool,
    /// Whether it runs for the time that --stress-s gives, and only if that is given.
    #[serde(default)]
    pub stress: bool,
    /// Where alone it is run.
    pub only: Option<Only>,
    /// The release of Linux whose selftests have it; without one, each has.
    pub release: Option<String>,
    #[serde(default)]
    pub skips: Vec<Reviewed>,
    /// Failures of the plain kernel that were reviewed.
    #[serde(default)]
    pub known: Vec<Reviewed>,
    /// Failures that the plain kernel alone may have.
    #[serde(default)]
    pub plain_fails: Vec<Reviewed>,
    /// Cases that no other run has: figures in their names, or what a policy is meant to change.
    /// They are listed, and neither judged nor compared.
    #[serde(default)]
    pub varies: Vec<Reviewed>,
}

/// Which kernels a test is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Only {
    /// Kernels with research's steps, once: it sets the policies itself.
    Patched,
    Upstream,
}

impl Test {
    /// Whether the selftests of that version of Linux have it.
    pub fn is_of(&self, version: &str) -> bool {
        let of = |release: &String| version.strip_prefix(release.as_str());
        let rest = self.release.as_ref().map_or(Some(""), of);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// A text of a result, and why it may be there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reviewed {
    pub text: String,
    pub reason: String,
}

impl List {
    /// Read the list in `path`.
    pub fn read(path: &Path) -> Result<List> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        List::parse(&text).with_context(|| format!("{} is not a list of tests", path.display()))
    }

    pub fn parse(text: &str) -> Result<List> {
        let mut list: List = toml::from_str(text)?;
        let mut names = BTreeSet::new();
        for test in &list.tests {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            if test.name.is_empty() || !test.name.chars().all(is_plain) {
                bail!("the test's name '{}' is no file name", test.name);
            }
            if !names.insert(&test.name) {
                bail!("two tests are called {}", test.name);
            }
            let reviewed = test
                .skips
                .iter()
                .chain(&test.known)
                .chain(&test.plain_fails)
                .chain(&test.varies)
                .chain(&list.log);
            if let Some(empty) =
                reviewed.into_iter().find(|r| r.text.is_empty() || r.reason.is_empty())
            {
                bail!("{}: '{}' is accepted for no reason, or everywhere", test.name, empty.text);
            }
        }
        for test in &mut list.tests {
            test.name.insert_str(0, PREFIX);
        }
        Ok(list)
    }

    /// The test of exactly that name, or else those with it in their names: with `quick`, the quick ones, and stressors
    /// only if they are given a time.
    pub fn choose(&self, filter: &str, quick: bool, stress_s: u64) -> Vec<&Test> {
        if let Some(test) = self.tests.iter().find(|test| test.name == filter) {
            return vec![test];
        }
        let is_chosen = |test: &&Test| {
            let runs = if test.stress { stress_s > 0 } else { !quick || test.quick };
            test.name.contains(filter) && runs
        };
        self.tests.iter().filter(is_chosen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "left_out = []\n[build]\n[guest]\ncpus = 3\nmemory_mib = 4096\n\
                        kernel_arguments = []\nhugetlb_pages = 1\nswap_mib = 1\n";

    fn parse(tests: &str) -> Result<List> {
        List::parse(&format!("{HEAD}{tests}"))
    }

    #[test]
    fn the_repositorys_list_is_one() {
        let list = List::read(Path::new("../../kernel/selftests.toml")).unwrap();
        for named in [
            "cow",
            "uffd-unit-tests",
            "madv_populate",
            "soft-dirty",
            "khugepaged",
            "mremap_test",
            "migration",
            "ksm_functional_tests",
            "mkdirty",
            "cow_precopy",
        ] {
            assert_eq!(list.choose(&format!("mm/{named}"), false, 0).len(), 1, "{named}");
        }
        let quick = list.choose(PREFIX, true, 0).len();
        assert!(quick > 5 && quick < list.tests.len() / 2);
    }

    #[test]
    fn what_no_guest_could_run_is_refused() {
        let test = |name| format!("[[test]]\nname = '{name}'\ncommand = 'true'\nlimit_s = 1\n");
        assert!(parse(&test("a")).is_ok());
        let twice = parse(&format!("{}{}", test("a"), test("a"))).unwrap_err().to_string();
        assert_eq!(twice, "two tests are called a");
        assert!(parse(&test("a/b")).unwrap_err().to_string().contains("no file name"));
        let of = |release: &str| {
            let list = parse(&format!("{}release = '{release}'\n", test("a"))).unwrap();
            ["6.12.117", "6.1.9", "6.12", "7.3.4"].map(|version| list.tests[0].is_of(version))
        };
        assert_eq!(of("6.12"), [true, false, true, false]);
        assert_eq!(of("6.1"), [false, true, false, false]);
        let everywhere = format!("{}skips = [{{ text = '', reason = 'x' }}]\n", test("a"));
        assert!(parse(&everywhere).unwrap_err().to_string().contains("everywhere"));
        assert!(parse(&test("a")).unwrap().choose("b", false, 0).is_empty());
    }
}
