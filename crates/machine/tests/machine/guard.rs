// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The setting of a huge-page size comes back, whatever ends the program that changed it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use cowlab_machine::{GuardError, Root, thp};

use crate::wait_until;

const ROOT: &str = "COWLAB_TEST_GUARD_ROOT";
const KIB64: u64 = 64 << 10;
const SETTING: &str = "sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";

fn tree(setting: &str) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let file = tree.path().join(SETTING);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, setting).unwrap();
    let folder = tree.path().join("sys/kernel/mm/transparent_hugepage");
    fs::write(folder.join("hpage_pmd_size"), "2097152\n").unwrap();
    fs::write(folder.join("enabled"), "always madvise [never]\n").unwrap();
    tree
}

fn setting(tree: &Path) -> String {
    fs::read_to_string(tree.join(SETTING)).unwrap().trim().to_owned()
}

#[test]
fn dropping_and_restoring_put_the_old_word_back() {
    let tree = tree("always [inherit] madvise never\n");
    let root = Root::new(tree.path());
    let guard = thp::allow(&root, KIB64).unwrap();
    assert_eq!(setting(tree.path()), "madvise");
    assert!(matches!(thp::allow(&root, KIB64), Err(GuardError::Busy { .. })));
    drop(guard);
    assert_eq!(setting(tree.path()), "inherit");
    for guard in thp::allow(&root, KIB64).unwrap() {
        guard.restore().unwrap();
    }
    assert_eq!(setting(tree.path()), "inherit");
}

#[test]
fn a_usable_setting_is_left_alone() {
    let tree = tree("[always] inherit madvise never\n");
    let root = Root::new(tree.path());
    let guards = [thp::allow(&root, KIB64).unwrap(), thp::allow(&root, KIB64).unwrap()];
    drop(guards);
    assert_eq!(setting(tree.path()), "[always] inherit madvise never");
}

#[test]
fn larger_sizes_are_switched_off_meanwhile() {
    let tree = tree("always inherit madvise [never]\n");
    let larger = tree.path().join(SETTING.replace("64", "2048"));
    fs::create_dir_all(larger.parent().unwrap()).unwrap();
    fs::write(&larger, "always [inherit] madvise never\n").unwrap();
    let guards = thp::allow(&Root::new(tree.path()), KIB64).unwrap();
    assert_eq!(setting(tree.path()), "madvise");
    assert_eq!(fs::read_to_string(&larger).unwrap().trim(), "never");
    drop(guards);
    assert_eq!(setting(tree.path()), "never");
    assert_eq!(fs::read_to_string(&larger).unwrap().trim(), "inherit");
}

#[test]
fn a_kernel_with_one_size_has_one_setting() {
    let tree = tree("never\n");
    let root = Root::new(tree.path());
    let file = tree.path().join("sys/kernel/mm/transparent_hugepage/enabled");
    let guard = thp::allow(&root, 2 << 20).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "madvise\n");
    drop(guard);
    assert_eq!(fs::read_to_string(&file).unwrap(), "never\n");
}

#[test]
fn unknown_sizes_and_texts_change_nothing() {
    let tree = tree("something else\n");
    let root = Root::new(tree.path());
    assert!(matches!(thp::allow(&root, 12345), Err(GuardError::NoSuchSize { .. })));
    assert!(matches!(thp::allow(&root, KIB64), Err(GuardError::Unexpected { .. })));
    assert_eq!(setting(tree.path()), "something else");
}

/// Not a test by itself: the program that the next test starts and kills.
#[test]
fn child_that_is_killed() {
    let Ok(tree) = std::env::var(ROOT) else { return };
    let _guard = thp::allow(&Root::new(tree), KIB64).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn sigkill_does_not_leave_the_setting_changed() {
    let tree = tree("always inherit madvise [never]\n");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "guard::child_that_is_killed"])
        .env(ROOT, tree.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the child to change the setting", || setting(tree.path()) == "madvise");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the guardian to put it back", || setting(tree.path()) == "never");
}
