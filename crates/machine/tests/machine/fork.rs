// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts of saved processes, and what a fork of them would meet.

use cowlab_machine::cgroup::{MemoryBound, TaskBound};
use cowlab_machine::verdict::{Finding, Level, Replication, Verdict, fork_of};
use cowlab_machine::{Facts, ProcessError, ProcessFacts, Root};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn root() -> Root {
    Root::new("tests/fixtures/bare-v2")
}

fn saved() -> (Facts, ProcessFacts) {
    (Facts::probe(&root()), ProcessFacts::probe(&root(), 1234).unwrap())
}

/// Whether a finding of that level is printed with all of these.
fn has(verdict: &Verdict, level: Level, parts: &[&str]) -> bool {
    let mut findings = verdict.findings.iter().filter(|one| one.level() == level);
    findings.any(|one| parts.iter().all(|part| format!("{one:?}").contains(part)))
}

fn of(facts: &Facts, process: &ProcessFacts) -> Verdict {
    fork_of(facts, process, None, None)
}

#[test]
fn a_process_with_a_dontfork_mapping() {
    let (facts, process) = saved();
    assert_eq!((process.name.as_str(), process.uid, process.threads), ("redis", 999, 5));
    assert_eq!(process.anonymous_bytes, GIB);
    assert_eq!(process.not_inherited_bytes, 512 * MIB);
    assert_eq!((process.wiped_bytes, process.huge_bytes), (MIB, Some(512 * MIB)));
    assert_eq!((process.accounted_bytes, process.largest_accounted_bytes), (1025 * MIB, GIB));
    assert_eq!(process.private_dirty_bytes, Some(1537 * MIB));
    assert_eq!((process.locked_bytes, process.processes_limit()), (Some(16 * MIB), Some(100)));
    assert_eq!(process.user_tasks, Some(5));
    assert_eq!(process.cgroup, facts.cgroup);
    let verdict = of(&facts, &process);
    assert_eq!((verdict.level, verdict.private_bytes), (Level::Ok, GIB));
    assert_eq!(verdict.page_table_bytes, 513 * 4096);
    assert_eq!(verdict.worst_case_bytes, GIB + 513 * 4096);
    let left_out = Finding::LeftOut { not_inherited_bytes: 512 * MIB, wiped_bytes: MIB };
    assert!(verdict.findings.contains(&left_out));
    assert!(has(&verdict, Level::Ok, &["Entries", "entries: 131328"]));
}

#[test]
fn what_makes_fork_fail_or_dangerous() {
    type Change = fn(&mut Facts, &mut ProcessFacts);
    let bound = |limit_bytes| MemoryBound {
        file: "/g/memory.max".into(),
        limit_bytes,
        ..Default::default()
    };
    let cases: [(Change, Level, &[&str]); 14] = [
        (|f, _| f.overcommit.memory = Some(1), Level::Ok, &["AlwaysPromised"]),
        (|_, p| p.largest_accounted_bytes = 1 << 50, Level::WillFail, &["LargestMapping"]),
        (|_, p| p.accounted_bytes = 1 << 50, Level::Ok, &["LargestMapping"]),
        (
            |f, p| (f.overcommit.memory, p.accounted_bytes) = (Some(2), 60 * GIB),
            Level::WillFail,
            &["Commit"],
        ),
        (|f, _| f.overcommit.memory = Some(2), Level::Ok, &["Commit"]),
        (|f, _| f.overcommit.memory = None, Level::Warning, &["PromiseUnknown"]),
        (|_, p| p.user_tasks = Some(100), Level::WillFail, &["Reached", "RLIMIT_NPROC of uid 999"]),
        (
            |f, _| f.tasks.threads = Some(127_000),
            Level::WillFail,
            &["Reached", "kernel.threads-max"],
        ),
        (|f, _| f.tasks.pid_max = Some(412), Level::WillFail, &["Reached", "kernel.pid_max"]),
        (
            |_, p| p.anonymous_bytes = 60 * GIB,
            Level::Warning,
            &["Copies", "swap_bytes: 8589934592"],
        ),
        (|_, p| p.anonymous_bytes = 90 * GIB, Level::Warning, &["Copies"]),
        (
            |f, p| {
                (p.anonymous_bytes, p.locked_bytes) =
                    (60 * GIB, f.memory.as_ref().unwrap().available_bytes.map(|b| b + 1))
            },
            Level::Warning,
            &["Copies", "locked_bytes"],
        ),
        (
            |_, p| p.anonymous_bytes = 8 * GIB,
            Level::Warning,
            &["Cgroup", "memory.high", "is_hard: false"],
        ),
        (
            |_, p| p.hugetlb_bytes = Some(6 * MIB),
            Level::Warning,
            &["Hugetlb", "free_bytes: 4194304"],
        ),
    ];
    for (change, level, parts) in cases {
        let (mut facts, mut process) = saved();
        change(&mut facts, &mut process);
        let verdict = of(&facts, &process);
        assert!(has(&verdict, level, parts), "{parts:?}: {:#?}", verdict.findings);
        assert_eq!(verdict.findings[0].level(), verdict.level);
        assert!(verdict.promise().is_some());
    }
    // What was mapped without a promise stands beside what counts, and is no part of it.
    let (facts, mut process) = saved();
    process.unpromised_bytes = 64 * GIB;
    assert!(has(
        &of(&facts, &process),
        Level::Ok,
        &["largest_bytes: 1073741824", "unpromised_bytes: 68719476736"]
    ));
    process.cgroup.memory_max = vec![bound(GIB)];
    process.cgroup.tasks =
        vec![TaskBound { file: "/g/pids.max".into(), limit: 9, current: Some(9), refused: None }];
    let verdict = of(&facts, &process);
    assert!(has(&verdict, Level::Warning, &["Cgroup", "/g/memory.max", "is_hard: true"]));
    assert!(has(&verdict, Level::WillFail, &["Reached", "/g/pids.max", "now: 9", "limit: 9"]));
    process.credentials.capabilities = u64::MAX;
    assert_eq!(process.processes_limit(), None);
}

#[test]
fn expected_copies_are_held_against_the_least_room() {
    let (mut facts, mut process) = saved();
    let expecting =
        |facts: &Facts, process: &ProcessFacts, bytes| fork_of(facts, process, Some(bytes), None);
    // A group that holds less than all, and more than is expected. Version 1 and version 2 alike:
    // the file alone differs.
    for file in ["/g/memory.max", "/g/memory.limit_in_bytes"] {
        let bound = MemoryBound {
            file: file.into(),
            limit_bytes: GIB,
            usage_bytes: Some(GIB / 2),
            ..Default::default()
        };
        process.cgroup.memory_max = vec![bound];
        let fits = expecting(&facts, &process, 100 * MIB);
        assert!(has(&fits, Level::Ok, &["Expected", "copied_bytes: 104857600", file]));
        assert_eq!(fits.room.as_ref().unwrap().free_bytes, 512 * MIB);
        assert_eq!(fits.expected_bytes, Some(100 * MIB + fits.page_table_bytes));
        assert_eq!((fits.level, fits.is_certain), (Level::Warning, true));
        let not = expecting(&facts, &process, 600 * MIB);
        assert!(has(&not, Level::Warning, &["Expected", file]));
    }
    // More than all of it cannot be copied.
    let capped = expecting(&facts, &process, 1 << 50);
    assert_eq!(capped.expected_bytes, Some(capped.worst_case_bytes));
    // Swap counts as room for copies of the machine, where no group is tighter.
    process.cgroup.memory_max.clear();
    process.anonymous_bytes = 60 * GIB;
    let swap = expecting(&facts, &process, 59 * GIB);
    assert!(has(&swap, Level::Ok, &["Expected", "swap_bytes: 8589934592"]));
    facts.memory = None;
    facts.overcommit.memory = Some(1);
    let unknown = of(&facts, &process);
    assert_eq!((unknown.room, unknown.is_certain), (None, false));
}

#[test]
fn a_full_synchronisation_needs_its_buffers_too() {
    let (facts, mut process) = saved();
    process.cgroup.memory_max =
        vec![MemoryBound { file: "/g/memory.max".into(), limit_bytes: GIB, ..Default::default() }];
    let of = |replicas, limit, diskless| Replication {
        last_cow_bytes: Some(100 * MIB),
        replicas: Some(replicas),
        replica_buffer_bytes: Some(limit),
        diskless: Some(diskless),
        ..Replication::default()
    };
    let judged = |of: &Replication| fork_of(&facts, &process, Some(100 * MIB), Some(of));
    let one = judged(&of(0, 256 * MIB, false));
    assert!(has(&one, Level::Ok, &["FullSync", "replicas: 1", "buffer_bytes: 268435456"]));
    let four = judged(&of(4, 256 * MIB, true));
    assert!(has(&four, Level::Warning, &["FullSync", "diskless: Some(true)"]));
    let endless = judged(&of(1, 0, true));
    assert!(has(&endless, Level::Warning, &["FullSync", "buffer_bytes: 0"]));
    // A server that does not say has no such finding.
    let silent = judged(&Replication::default());
    assert!(
        !has(&silent, Level::Ok, &["FullSync"]) && !has(&silent, Level::Warning, &["FullSync"])
    );
}

#[test]
fn errors_say_what_happened() {
    let error = |pid| ProcessFacts::probe(&root(), pid).unwrap_err();
    assert!(matches!(error(99), ProcessError::NoSuchProcess { pid: 99 }));
    assert!(matches!(error(50), ProcessError::NoMemory { pid: 50, .. }));
    assert!(matches!(error(60), ProcessError::Vanished { pid: 60 }));
    assert!(matches!(error(80), ProcessError::Unsupported { .. }));
    let cut = error(70).to_string();
    assert!(cut.contains("proc/70/smaps: cut short"), "{cut}");
}
