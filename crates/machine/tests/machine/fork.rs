// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts of saved processes, and what a fork of them would meet.

use cowlab_machine::cgroup::{MemoryBound, TaskBound};
use cowlab_machine::verdict::{Expected, Level, Replication, Verdict, fork_expecting, fork_of};
use cowlab_machine::{Facts, ProcessError, ProcessFacts, Root};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn root() -> Root {
    Root::new("tests/fixtures/bare-v2")
}

fn saved() -> (Facts, ProcessFacts) {
    (Facts::probe(&root()), ProcessFacts::probe(&root(), 1234).unwrap())
}

fn has(verdict: &Verdict, level: Level, what: &str, why: &str) -> bool {
    let mut findings = verdict.findings.iter();
    findings.any(|one| one.level == level && one.what.contains(what) && one.why.contains(why))
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
    let verdict = fork_of(&facts, &process);
    assert_eq!((verdict.level(), verdict.private_bytes), (Level::Ok, GIB));
    assert_eq!(verdict.page_table_bytes, 513 * 4096);
    assert_eq!(verdict.worst_case_bytes, GIB + 513 * 4096);
    assert!(has(&verdict, Level::Ok, "left out", "512 MiB"));
    assert!(has(&verdict, Level::Ok, "stop at fork", "131328 page-table entries"));
}

#[test]
fn what_makes_fork_fail_or_dangerous() {
    type Change = fn(&mut Facts, &mut ProcessFacts);
    let bound = |limit_bytes| MemoryBound {
        file: "/g/memory.max".into(),
        limit_bytes,
        ..Default::default()
    };
    let cases: [(Change, Level, &str, &str); 14] = [
        (|f, _| f.overcommit.memory = Some(1), Level::Ok, "promises", "is 1"),
        (|_, p| p.largest_accounted_bytes = 1 << 50, Level::WillFail, "ENOMEM", "is 0"),
        (|_, p| p.accounted_bytes = 1 << 50, Level::Ok, "promises", "only a mapping larger"),
        (
            |f, p| (f.overcommit.memory, p.accounted_bytes) = (Some(2), 60 * GIB),
            Level::WillFail,
            "ENOMEM",
            "is 2",
        ),
        (|f, _| f.overcommit.memory = Some(2), Level::Ok, "promises", "is 2"),
        (|f, _| f.overcommit.memory = None, Level::Warning, "not known", "not readable"),
        (|_, p| p.user_tasks = Some(100), Level::WillFail, "EAGAIN", "RLIMIT_NPROC of uid 999"),
        (|f, _| f.tasks.threads = Some(127_000), Level::WillFail, "EAGAIN", "kernel.threads-max"),
        (|f, _| f.tasks.pid_max = Some(412), Level::WillFail, "EAGAIN", "kernel.pid_max"),
        (|_, p| p.anonymous_bytes = 60 * GIB, Level::Warning, "swapped out", "8.00 GiB of swap"),
        (|_, p| p.anonymous_bytes = 90 * GIB, Level::Warning, "OOM killer", "available"),
        (
            |f, p| {
                (p.anonymous_bytes, p.locked_bytes) =
                    (60 * GIB, f.memory.as_ref().unwrap().available_bytes.map(|b| b + 1))
            },
            Level::Warning,
            "OOM killer",
            "locked",
        ),
        (
            |_, p| p.anonymous_bytes = 8 * GIB,
            Level::Warning,
            "slow the control group",
            "memory.high",
        ),
        (|_, p| p.hugetlb_bytes = Some(6 * MIB), Level::Warning, "SIGBUS", "4.00 MiB free"),
    ];
    for (change, level, what, why) in cases {
        let (mut facts, mut process) = saved();
        change(&mut facts, &mut process);
        let verdict = fork_of(&facts, &process);
        assert!(has(&verdict, level, what, why), "{what}: {:#?}", verdict.findings);
        assert_eq!(verdict.findings[0].level, verdict.level());
        let helps = |level: Level, help: &str| level == Level::Ok || !help.is_empty();
        assert!(verdict.findings.iter().all(|one| helps(one.level, &one.what_to_do)));
    }
    // What was mapped without a promise is told beside what counts, and is no part of it.
    let (facts, mut process) = saved();
    process.unpromised_bytes = 64 * GIB;
    let told = "its largest has 1.00 GiB.*MAP_NORESERVE mappings (64.0 GiB) do not count";
    let why = fork_of(&facts, &process).findings.remove(0).why;
    assert!(told.split(".*").all(|part| why.contains(part)), "{why}");
    let (facts, mut process) = saved();
    process.cgroup.memory_max = vec![bound(GIB)];
    process.cgroup.tasks =
        vec![TaskBound { file: "/g/pids.max".into(), limit: 9, current: Some(9) }];
    let verdict = fork_of(&facts, &process);
    assert!(has(&verdict, Level::Warning, "OOM killer may end a process of", "/g/memory.max"));
    assert!(has(&verdict, Level::WillFail, "EAGAIN", "/g/pids.max: 9 of 9"));
    process.credentials.capabilities = u64::MAX;
    assert_eq!(process.processes_limit(), None);
}

#[test]
fn the_sentence_says_whether_the_next_fork_fails() {
    let (mut facts, mut process) = saved();
    let expecting =
        |bytes| Expected { copied_bytes: bytes, source: "the footprint of runs/x".into() };
    let said = |facts: &Facts, process: &ProcessFacts, expected: Option<&Expected>| {
        fork_expecting(facts, process, expected, None).sentence
    };
    let all = said(&facts, &process, None);
    assert!(
        all.contains("redis (1234) will not be refused, and") && all.contains("1.00 GiB"),
        "{all}"
    );
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
        let fits = fork_expecting(&facts, &process, Some(&expecting(100 * MIB)), None);
        assert!(has(&fits, Level::Ok, "the copies expected fit", "by the footprint of runs/x"));
        assert!(
            fits.sentence.contains("the copies expected fit: 102 MiB, where 512 MiB are available"),
            "{}",
            fits.sentence
        );
        assert!(fits.sentence.contains(file));
        assert_eq!(fits.expected_bytes, Some(100 * MIB + fits.page_table_bytes));
        assert_eq!(fits.level(), Level::Warning);
        let not = said(&facts, &process, Some(&expecting(600 * MIB)));
        assert!(not.contains("do not fit: 602 MiB") && not.contains("OOM"), "{not}");
        let unknown = said(&facts, &process, None);
        let may = format!(
            "may not fit: 1.00 GiB if every page is written, where 512 MiB are available (below {file})"
        );
        assert!(unknown.contains(&may), "{unknown}");
    }
    // More than all of it cannot be copied.
    let capped = fork_expecting(&facts, &process, Some(&expecting(1 << 50)), None);
    assert_eq!(capped.expected_bytes, Some(capped.worst_case_bytes));
    // Swap counts as room for copies of the machine, where no group is tighter.
    process.cgroup.memory_max.clear();
    process.anonymous_bytes = 60 * GIB;
    let swap = said(&facts, &process, Some(&expecting(59 * GIB)));
    assert!(swap.contains("8.00 GiB of swap"), "{swap}");
    (facts.overcommit.memory, process.accounted_bytes) = (Some(2), 90 * GIB);
    let fails = said(&facts, &process, None);
    assert!(
        fails.contains("will fail: fork fails with ENOMEM") && fails.ends_with("missing."),
        "{fails}"
    );
    facts.memory = None;
    facts.overcommit.memory = Some(1);
    assert!(said(&facts, &process, None).contains("is not known"));
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
    let expected = Expected { copied_bytes: 100 * MIB, source: "rdb_last_cow_size".into() };
    let judged = |of: &Replication| fork_expecting(&facts, &process, Some(&expected), Some(of));
    let one = judged(&of(0, 256 * MIB, false));
    assert!(has(&one, Level::Ok, "a full synchronisation fits", "1 replica(s) may hold 256 MiB"));
    let four = judged(&of(4, 256 * MIB, true));
    assert!(has(&four, Level::Warning, "may not fit", "slowest replica"));
    let endless = judged(&of(1, 0, true));
    assert!(has(&endless, Level::Warning, "no bound", "any amount"));
    // A server that does not say has no such finding.
    let silent = judged(&Replication::default());
    assert!(!silent.findings.iter().any(|one| one.what.contains("synchronisation")));
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
