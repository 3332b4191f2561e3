// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The odd moments of a program's life.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use cowlab_recorder::{Clock, Options, Session, WhenFull};

use crate::programs::{Check, Counters, Source, is_long, options, program, run, run_with};

/// Two threads, a drain at work: what was emitted is stored or counted, in each mode.
#[test]
fn stored_and_not_stored_make_what_was_emitted() {
    let each: u64 = if is_long() { 50_000_000 } else { 500_000 };
    let text = each.to_string();
    for when_full in [WhenFull::Drop, WhenFull::Overwrite, WhenFull::Wait] {
        let run = run(when_full, "threads", &[&text, "2"]);
        run.assert_good();
        let returned_ok = run.counts[0] + run.counts[1];
        let refused = run.counts[100] + run.counts[101];
        assert_eq!(returned_ok + refused, 2 * each);
        let (stored, dropped, overwritten) = (
            run.check.total(),
            run.sum(|total| total.dropped) + run.no_buffer,
            run.sum(|total| total.overwritten),
        );
        eprintln!("{when_full:?}: stored {stored}, dropped {dropped}, overwritten {overwritten}");
        assert_eq!(stored + dropped + overwritten, 2 * each, "{when_full:?}");
        assert_eq!(dropped, refused, "{when_full:?}");
        match when_full {
            WhenFull::Drop => assert_eq!(overwritten, 0),
            WhenFull::Overwrite => assert!(dropped == 0 && overwritten > 0),
            WhenFull::Wait => run.assert_nothing_missing(),
        }
    }
}

/// SIGKILL at a random moment: every event whose casrecord returned is there.
#[test]
fn what_a_killed_program_recorded_is_there() {
    for round in 0..200 {
        let delay = Duration::from_micros(500 + round * 97 % 20_000);
        let began = Instant::now();
        let run = run_with(options(WhenFull::Wait), "killed", &["2"], Check::default(), |child| {
            if began.elapsed() > delay {
                let _ = child.kill();
            }
        });
        assert_eq!(run.status.signal(), Some(9));
        run.assert_nothing_missing();
        for source in [0u16, 1] {
            let returned = run.counts[usize::from(source) * 8];
            let found = run.check.of(source);
            // One more may have been published when the kill came before it was counted.
            assert!(
                found == returned || found == returned + 1,
                "round {round}: {found} events of {source} where {returned} returned"
            );
        }
    }
}

/// Forks of forks, vforks, forks of threads and by bare system call.
#[test]
fn each_process_has_its_own_events() {
    // Threads come one after the other, and each counts from 3.
    let check = Check { unordered: true, ..Check::default() };
    let run = run_with(options(WhenFull::Wait), "forks", &["1000"], check, |_| {});
    assert!(run.status.success());
    run.assert_nothing_missing();
    let processes = run.counts[0] as usize;
    assert!(processes > 1000);
    for &pid in &run.counts[1..=processes] {
        let of_pid = |source: &&Source| u64::from(source.1) == pid && source.2 == 0;
        assert!(run.check.seen.keys().any(|of| of_pid(&of)), "pid {pid} has no events");
    }
    for ((process, pid, source), (count, _)) in &run.check.seen {
        let of = &run.check.processes[process];
        assert_eq!(of.pid, *pid);
        if *source == 0 {
            assert_eq!(*count, if of.parent_process == 0 { 6 } else { 3 }, "process {process}");
        }
    }
    assert_eq!(run.check.processes.len(), processes);
    // 0, 1 and 2 of each process, 3, 4 and 5 of the first, 3 to 8 of each thread.
    let (processes, threads) = (processes as u64, 1000 / 4);
    assert_eq!(run.check.total(), 3 * processes + 3 + 6 * threads);
    assert_eq!(run.check.sum, 3 * processes + 12 + 33 * threads);
    // Children of the threads have the first process as their parent, nested ones their own.
    let first = run.check.processes.iter().find(|(_, of)| of.parent_process == 0).unwrap();
    let nested = run
        .check
        .processes
        .values()
        .filter(|of| of.parent_process != 0 && of.parent_process != *first.0);
    assert_eq!(nested.count(), 2 * 125);
}

#[test]
fn signal_handlers_record_whatever_they_interrupt() {
    let events = if is_long() { "100000000" } else { "5000000" };
    let check = Check { unordered: true, ..Check::default() };
    let run = run_with(options(WhenFull::Wait), "signals", &[events], check, |_| {});
    assert!(run.status.success());
    run.assert_nothing_missing();
    let mut sum = 0;
    for source in [0u16, 1, 2] {
        let count = run.counts[usize::from(source)];
        assert_eq!(run.check.of(source), count, "source {source}");
        sum += count * count.saturating_sub(1) / 2;
    }
    assert_eq!(run.check.sum, sum);
    // Some interrupted the recording itself, and went to a buffer of their own.
    assert!(run.totals.len() > 1);
    assert!(run.check.of(1) > 0 && run.check.of(2) > 0);
}

#[test]
fn odd_moments_of_a_life() {
    for what in ["exit", "abort", "exec", "closed", "limits", "thread-exit"] {
        let check = Check { unordered: true, ..Check::default() };
        let run = run_with(options(WhenFull::Wait), "moments", &[what], check, |_| {});
        if what == "abort" {
            assert_eq!(run.status.signal(), Some(6), "{what}");
        } else {
            assert!(run.status.success(), "{what}: {}", run.status);
        }
        run.assert_good();
        assert_eq!(run.check.total(), run.counts[0], "{what}");
        assert_eq!(run.no_buffer, 0, "{what}");
        assert_eq!(run.check.processes.len(), if what == "exec" { 2 } else { 1 }, "{what}");
    }
}

/// The clock that is used where the cycle counter cannot be trusted.
#[test]
fn the_monotonic_clock_serves_as_well() {
    let options = Options { clock: Some(Clock::Monotonic), ..options(WhenFull::Wait) };
    let run = run_with(options, "threads", &["20000", "2"], Check::default(), |_| {});
    run.assert_nothing_missing();
    assert_eq!(run.check.total(), 40_000);
}

/// More threads than buffers: the program goes on, and what is missing is counted.
#[test]
fn too_few_buffers_are_counted() {
    let options = Options { buffers: 1, ..options(WhenFull::Drop) };
    let run = run_with(options, "threads", &["2000000", "4"], Check::default(), |_| {});
    run.assert_good();
    assert!(run.no_buffer > 0);
    let dropped = run.sum(|total| total.dropped) + run.no_buffer;
    assert_eq!(run.check.total() + dropped, 8_000_000);
}

/// A recorder that was killed leaves programs that wait for it: they go on.
#[test]
fn a_program_outlives_its_recorder() {
    let session = Session::create(options(WhenFull::Wait)).unwrap();
    let shared = Counters::new();
    session.turn(true).unwrap();
    // Nobody drains: the buffers are full after some thousand events.
    let mut child = Command::new(program("threads"))
        .arg(shared.0.path())
        .args(["20000", "2"])
        .env("CASPER_SESSION", session.path())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let status = child.wait().unwrap();
    assert!(status.success());
    assert!(began.elapsed() < Duration::from_secs(60));
    let counts = shared.read();
    assert_eq!(counts[0] + counts[1] + counts[100] + counts[101], 40_000);
    assert!(counts[100] + counts[101] > 0);
}
