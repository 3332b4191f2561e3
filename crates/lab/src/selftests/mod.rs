// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Upstream's selftests of mm and the project's own (`kernel/selftests`): which run on a kernel, and how.

pub mod programs;

pub use programs::programs;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cowlab_machine::Policy;
use cowlab_machine::policy::settings as machine_settings;

use crate::testing::{self, Batch};

/// What the names of selftests begin with, to tell them from the project's own.
const PREFIX: &str = "mm/";

/// The selftest migration wants two threads beside its own.
pub const GUEST_CPUS: u32 = 3;
pub const GUEST_BYTES: u64 = 4096 << 20;
/// Two nodes for migration, `ksm_tests -N` and our own.
pub const KERNEL_ARGUMENT: &str = "numa=fake=2";

/// How many pages a process copies before a guess takes one more; 0: none.
const PRECOPY_RAMP: &str = "proc/sys/vm/cow_precopy_ramp";

const RUN_TEST: &[u8] = include_bytes!("../../guest/run-test.sh");

/// A line of `kernel/selftests`, which says what its columns are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    pub name: String,
    limit_s: u64,
    marks: Vec<String>,
    command: String,
}

/// Read the list in `path`.
pub fn read(path: &Path) -> Result<Vec<Test>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is not a list of tests", path.display()))
}

fn parse(text: &str) -> Result<Vec<Test>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let test = |line: &str| -> Option<Test> {
        let mut words = line.splitn(4, ' ');
        Some(Test {
            name: format!("{PREFIX}{}", words.next()?),
            limit_s: words.next()?.parse().ok()?,
            marks: words
                .next()?
                .split(',')
                .filter(|mark| *mark != "-")
                .map(str::to_owned)
                .collect(),
            command: words.next()?.to_owned(),
        })
    };
    let parsed = |line| test(line).with_context(|| format!("NAME LIMIT_S WHERE COMMAND: {line}"));
    lines.map(parsed).collect()
}

/// The test of exactly that name, or else those with it in their names: with `quick`, the quick ones, and stressors
/// only if they are given a time.
pub fn choose(list: &[Test], filter: &str, quick: bool, stress_s: u64) -> Vec<Test> {
    if let Some(test) = list.iter().find(|test| test.name == filter) {
        return vec![test.clone()];
    }
    let is_chosen = |test: &&Test| {
        let runs = if test.is("stress") { stress_s > 0 } else { !quick || test.is("quick") };
        test.name.contains(filter) && runs
    };
    list.iter().filter(is_chosen).cloned().collect()
}

impl Test {
    fn is(&self, mark: &str) -> bool {
        self.marks.iter().any(|own| own == mark)
    }

    /// Whether the selftests of that version of Linux have it.
    pub fn is_of(&self, version: &str) -> bool {
        let is_release = |mark: &&String| mark.starts_with(|c: char| c.is_ascii_digit());
        let of = |mark: &String| version == mark || version.starts_with(&format!("{mark}."));
        self.marks.iter().find(is_release).is_none_or(of)
    }
}

/// What the selftests are run with.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub programs: &'a Path,
    /// The guest's folder, on the host.
    pub folder: &'a Path,
    /// This cowlab, for tests that are benches of its own.
    pub cowlab: &'a Path,
    /// Whether the kernel has upstream's steps.
    pub upstream: bool,
    /// Whether it has policies.
    pub patched: bool,
    /// The policy that was asked for; without one, tests that set policies themselves run as well.
    pub policy: Option<Policy>,
    pub stress_s: u64,
}

/// The policy's settings as the guest's script takes them: FILE=VALUE. Whatever the policy, the
/// first guess of a process takes all the pages that it may, or short tests would test little.
fn settings(policy: Policy) -> String {
    let word = |(file, value): (&str, u32)| format!("/{file}={value}");
    let settings = machine_settings(policy).into_iter().chain([(PRECOPY_RAMP, 0)]);
    settings.map(word).collect::<Vec<_>>().join(" ")
}

pub fn batch(tests: &[Test], order: &Order<'_>) -> Result<Batch> {
    fs::create_dir_all(order.folder)?;
    let script = order.folder.join("run-test");
    fs::write(&script, RUN_TEST).with_context(|| format!("cannot write {}", script.display()))?;
    let policy = order.policy.unwrap_or(Policy::Off);
    let settings = if order.patched { settings(policy) } else { String::new() };
    let mut begin = vec![OsString::from("env")];
    for (name, value) in [
        ("PROGRAMS=", order.programs.as_os_str()),
        ("COWLAB=", order.cowlab.as_os_str()),
        ("STRESS_S=", order.stress_s.to_string().as_ref()),
        ("SETTINGS=", settings.as_ref()),
    ] {
        let mut word = OsString::from(name);
        word.push(value);
        begin.push(word);
    }
    begin.extend(["bash".into(), script.into_os_string()]);
    let setup: Vec<String> =
        begin.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let runs = |test: &&Test| {
        let has = if test.is("patched") { order.patched } else { order.upstream };
        !(test.is("patched") || test.is("upstream")) || (has && order.policy.is_none())
    };
    let test = |test: &Test| {
        let mut command = begin.clone();
        command.extend(["run".into(), OsString::from(&test.command)]);
        let stress_s = if test.is("stress") { order.stress_s } else { 0 };
        let limit_s = test.limit_s + stress_s;
        testing::Test { name: test.name.clone(), command, folder: None, limit_s }
    };
    Ok(Batch {
        setup: format!("{} prepare", setup.join(" ")),
        tests: tests.iter().filter(runs).map(test).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = "'SETTINGS=/proc/sys/vm/cow_defer=0 /proc/sys/vm/cow_precopy_pages=16 \
                            /proc/sys/vm/cow_precopy=1 /proc/sys/vm/cow_precopy_ramp=0'";

    #[test]
    fn tests_that_set_policies_run_without_one() {
        let tests = parse("a 5 - sh -c 'exit 3'\nb 5 quick,patched b\nc 5 upstream c\n").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let order = Order {
            programs: Path::new("/p"),
            folder: folder.path(),
            cowlab: Path::new("/c"),
            upstream: true,
            patched: true,
            policy: None,
            stress_s: 0,
        };
        let names = |order: &Order<'_>| -> Vec<String> {
            batch(&tests, order).unwrap().tests.into_iter().map(|test| test.name).collect()
        };
        assert_eq!(names(&order), ["mm/a", "mm/b", "mm/c"]);
        assert_eq!(names(&Order { patched: false, ..order }), ["mm/a", "mm/c"]);
        assert_eq!(names(&Order { patched: false, upstream: false, ..order }), ["mm/a"]);
        let next = Order { policy: Some("next:16".parse().unwrap()), ..order };
        let under = batch(&tests, &next).unwrap();
        assert_eq!(under.tests.len(), 1);
        assert!(under.setup.contains(SETTINGS), "{}", under.setup);
        assert_eq!(under.tests[0].command.last().unwrap(), "sh -c 'exit 3'");
        let plain = batch(&tests, &Order { patched: false, ..order }).unwrap();
        assert!(plain.setup.contains("'SETTINGS='"), "{}", plain.setup);
    }

    #[test]
    fn the_repositorys_list_is_one() {
        let list = read(Path::new("../../kernel/selftests")).unwrap();
        let names: std::collections::BTreeSet<&str> =
            list.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names.len(), list.len(), "a name stands twice");
        for named in ["cow", "uffd-unit-tests", "khugepaged", "migration", "cow_precopy"] {
            assert_eq!(choose(&list, &format!("mm/{named}"), false, 0).len(), 1, "{named}");
        }
        let quick = choose(&list, PREFIX, true, 0).len();
        assert!(quick > 5 && quick < list.len() / 2);
        assert!(choose(&list, "mm/stress", false, 0).is_empty());
        assert_eq!(choose(&list, "mm/stress", false, 9).len(), 3);
    }

    #[test]
    fn a_release_is_a_whole_number() {
        for bad in ["a", "a x - b", "a 1 -"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let of = |mark: &str| {
            let list = parse(&format!("a 1 {mark} b\n")).unwrap();
            ["6.12.117", "6.1.9", "6.12", "7.3.4"].map(|version| list[0].is_of(version))
        };
        assert_eq!(of("quick,6.12"), [true, false, true, false]);
        assert_eq!(of("6.1"), [false, true, false, false]);
        assert_eq!(of("-"), [true; 4]);
    }
}
