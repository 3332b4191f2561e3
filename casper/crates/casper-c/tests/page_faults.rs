// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The worked example, in C and in Rust: compiled, linked and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cowlab_casper::compose::{self, Payload};
use cowlab_casper::meta::FieldKind;
use cowlab_casper::record::{CASPER_CLOCK_MONOTONIC, CASPER_ORIGIN_STARTED};
use cowlab_casper::write::{DataChunk, TraceWriter, new_header};

fn trace(path: &Path) {
    let mut header = new_header();
    header.clock = CASPER_CLOCK_MONOTONIC;
    let mut writer = TraceWriter::create(path, &header).unwrap();
    let fields = [
        ("address", "", 8, 8, FieldKind::Address),
        ("ip", "", 16, 8, FieldKind::Address),
        ("pid", "", 4, 4, FieldKind::Unsigned),
    ];
    for entry in [
        compose::process(1, 100, (1, 0), CASPER_ORIGIN_STARTED, 0, "/bin/a"),
        compose::event_type(1, 9, "page-fault", 24, &fields),
        compose::module(1, (0x1000, 0x3000), 0, &[], "/bin/a"),
    ] {
        writer.meta(&entry).unwrap();
    }
    let mut payload = Payload::new(0);
    for (address, pid) in [(0x1000u64, 7), (0x2fff, 7), (0x9000, 8), (0x3000, 7), (0x1234, 7)] {
        let mut event = [0u8; 24];
        (event[0], event[4]) = (9, pid);
        event[8..16].copy_from_slice(&address.to_ne_bytes());
        payload.event(address, &event);
    }
    let of =
        DataChunk { stream: 1, process: 1, pid: 100, tid: 100, events: 5, ..DataChunk::default() };
    writer.data(&of, &payload.bytes).unwrap();
    writer.finish(&[]).unwrap();
    // handles.rs reads that one, since Miri cannot write a trace.
    let kept = "tests/page_faults.casper";
    let is_kept = std::fs::read(path).unwrap() == std::fs::read(kept).unwrap();
    assert!(is_kept, "{kept} is of another format: put what this wrote in its place");
}

/// The folder in which cargo puts what it builds from `flags`: cargo test alone builds neither the
/// static library nor another crate's example. Of the whole workspace: one package alone would have
/// other features, and with them everything compiled again.
fn built(flags: &[&str]) -> PathBuf {
    // In target/release/deps/this-test.
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--workspace", "--target-dir"])
        .arg(built.parent().unwrap())
        .args(flags);
    if built.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success());
    built.to_owned()
}

/// What a program says about the trace.
fn check(program: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.casper");
    trace(&file);
    let out = run(program, file.to_str().unwrap());
    let mut lines: Vec<String> =
        String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(
        lines,
        ["7: 4 faults, 2 on the next page", "8: 1 faults, 0 on the next page"],
        "{out:?}"
    );

    let out = run(program, "/nowhere/t.casper");
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/nowhere/t.casper"), "{out:?}");
}

fn run(program: &Path, trace: &str) -> Output {
    Command::new(program).arg(trace).output().unwrap()
}

#[test]
fn the_example_in_c_counts_faults() {
    let root = Path::new("../..");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("page_faults");
    let built = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(root.join("libcasper/include"))
        .arg(root.join("examples/page_faults.c"))
        .arg(built(&["--lib"]).join("libcasperread.a"))
        .args(["-lm", "-lpthread", "-ldl", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    check(&program);
}

#[test]
fn the_example_in_rust_counts_faults() {
    let built = built(&["--example", "page_faults"]);
    check(&built.join("examples/page_faults"));
}
