// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy of a kernel comes back, whatever ends the program that changed it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use cowlab_machine::{Facts, GuardError, Policy, PolicyGuard, Root};

use crate::wait_until;

const ROOT: &str = "COWLAB_TEST_POLICY_ROOT";

fn tree(settings: &[(&str, &str)]) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir_all(tree.path().join("proc/sys/vm")).unwrap();
    for (name, value) in settings {
        fs::write(tree.path().join("proc/sys/vm").join(name), value).unwrap();
    }
    tree
}

fn whole() -> tempfile::TempDir {
    tree(&[
        ("cow_precopy", "0\n"),
        ("cow_precopy_pages", "4\n"),
        ("cow_threshold_pct", "70\n"),
        ("cow_region_kb", "512\n"),
        ("cow_gate_forks", "5\n"),
        ("cow_defer", "1\n"),
        ("cow_stats", "1\n"),
    ])
}

fn settings(tree: &Path) -> String {
    let value = |name: &str| fs::read_to_string(tree.join("proc/sys/vm").join(name)).unwrap();
    ["cow_precopy", "cow_precopy_pages", "cow_stats"]
        .map(|name| value(name).trim().to_owned())
        .join(" ")
}

#[test]
fn policies_are_set_in_turn_and_the_old_one_comes_back() {
    let tree = whole();
    let root = Root::new(tree.path());
    let guard = PolicyGuard::new(&root).unwrap();
    for (policy, expected) in [
        (Policy::Next(16), "1 16 0"),
        (Policy::Off, "0 16 0"),
        (Policy::Stock, "0 4 1"),
        (Policy::Next(1), "1 1 0"),
    ] {
        guard.set(policy).unwrap();
        assert_eq!(settings(tree.path()), expected);
    }
    assert!(matches!(PolicyGuard::new(&root), Err(GuardError::Busy { .. })));
    guard.set_and_count(Policy::Off).unwrap();
    assert_eq!(settings(tree.path()), "0 1 1");
    guard.set(Policy::Off).unwrap();
    drop(guard);
    assert_eq!(settings(tree.path()), "0 4 1");
}

#[test]
fn coverage_sets_its_threshold_and_all_that_goes_with_it() {
    let tree = whole();
    let value = |name: &str| {
        let text = fs::read_to_string(tree.path().join("proc/sys/vm").join(name)).unwrap();
        text.trim().to_owned()
    };
    let coverage = || {
        let names = ["precopy", "threshold_pct", "region_kb", "gate_forks"];
        names.map(|name| value(&format!("cow_{name}"))).join(" ")
    };
    let guard = PolicyGuard::new(&Root::new(tree.path())).unwrap();
    for (policy, expected) in [
        (Policy::Coverage, "3 80 2048 1"),
        (Policy::CoverageOf(0, 2048), "2 0 2048 0"),
        (Policy::CoverageOf(80, 32), "2 80 32 0"),
        (Policy::CoverageOf(95, 8192), "2 95 8192 0"),
        (Policy::Off, "0 95 8192 0"),
    ] {
        guard.set(policy).unwrap();
        assert_eq!(coverage(), expected);
    }
    drop(guard);
    assert_eq!(coverage(), "0 70 512 5");
    assert_eq!(settings(tree.path()), "0 4 1");
}

#[test]
fn page_tables_are_deferred_by_one_policy_only() {
    let tree = whole();
    let value = || fs::read_to_string(tree.path().join("proc/sys/vm/cow_defer")).unwrap();
    let guard = PolicyGuard::new(&Root::new(tree.path())).unwrap();
    for (policy, expected) in [
        (Policy::Defer, "5"),
        (Policy::Next(1), "0"),
        (Policy::Defer, "5"),
        (Policy::Coverage, "0"),
        (Policy::Defer, "5"),
        (Policy::Off, "0"),
    ] {
        guard.set(policy).unwrap();
        assert_eq!(value().trim(), expected, "{policy}");
    }
    drop(guard);
    assert_eq!(value().trim(), "1");
}

#[test]
fn a_kernel_without_the_depth_has_depth_one() {
    let tree = tree(&[("cow_precopy", "0\n")]);
    let guard = PolicyGuard::new(&Root::new(tree.path())).unwrap();
    guard.set(Policy::Next(1)).unwrap();
    assert!(!tree.path().join("proc/sys/vm/cow_precopy_pages").exists());
    drop(guard);
    assert_eq!(fs::read_to_string(tree.path().join("proc/sys/vm/cow_precopy")).unwrap(), "0\n");
}

#[test]
fn a_kernel_without_policies_is_an_error_and_its_facts_say_so() {
    let tree = tree(&[]);
    let root = Root::new(tree.path());
    assert!(matches!(PolicyGuard::new(&root), Err(GuardError::Io { .. })));
    let facts = Facts::probe(&root);
    assert_eq!(facts.cow, Default::default());
    let tree = whole();
    fs::write(tree.path().join("proc/cow_stats"), "faults: 0 total_ns: 0 max_ns: 0\n").unwrap();
    let facts = Facts::probe(&Root::new(tree.path()));
    assert_eq!((facts.cow.precopy, facts.cow.precopy_pages), (Some(0), Some(4)));
    assert!(facts.cow.counts && !facts.cow.process_counts);
}

/// Not a test by itself: the program that the next test starts and kills.
#[test]
fn child_that_is_killed() {
    let Ok(tree) = std::env::var(ROOT) else { return };
    let guard = PolicyGuard::new(&Root::new(tree)).unwrap();
    guard.set(Policy::Next(64)).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn sigkill_does_not_leave_the_policy_changed() {
    let tree = whole();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "policy::child_that_is_killed"])
        .env(ROOT, tree.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the child to change the policy", || settings(tree.path()) == "1 64 0");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the guardian to put it back", || settings(tree.path()) == "0 4 1");
}
