// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorder that stands still, stopped or before a disk that does not answer, for longer than
//! libcasper waits for one: the account is exact all the same.

use std::time::{Duration, Instant};

use cowlab_recorder::WhenFull;
use rustix::process::geteuid;

use crate::programs::{Check, options, run_with};

/// Record a program of some 4 s, whatever the machine, while the recorder stands still for longer than
/// LEAVE_LIMIT_NS. `emitted`: its events.
fn stall(when_full: WhenFull, name: &str, arguments: &[&str], emitted: u64) {
    let what = format!("{name} {arguments:?}, {when_full:?}");
    let (mut began, mut stood) = (None, false);
    let run = run_with(options(when_full), name, arguments, Check::default(), |_| {
        let began = began.get_or_insert_with(Instant::now);
        if !stood && began.elapsed() > Duration::from_millis(200) {
            stood = true;
            std::thread::sleep(Duration::from_millis(2500));
        }
    });
    assert!(run.status.success(), "{what}: {}", run.status);
    assert!(run.check.wrong.is_empty(), "{what}: {:?}", &run.check.wrong[..1]);
    let dropped = run.sum(|total| total.dropped) + run.no_buffer;
    let (stored, overwritten) = (run.check.total(), run.sum(|total| total.overwritten));
    eprintln!("{what}: stored {stored}, dropped {dropped}, overwritten {overwritten}");
    assert_eq!(dropped, run.counts[100] + run.counts[101], "{what}: refused, and counted");
    assert_eq!(stored + dropped + overwritten, emitted, "{what}");
    assert!(!run.abandoned, "{what}: a recorder that lives was left");
}

#[test]
fn what_a_stalled_recorder_missed_is_counted() {
    for when_full in [WhenFull::Drop, WhenFull::Overwrite, WhenFull::Wait] {
        stall(when_full, "threads", &["400000", "2", "1000"], 800_000);
    }
}

/// Where /proc does not show the recorder, which takes root, it is there all the same.
#[test]
fn a_recorder_that_cannot_be_seen_is_not_left() {
    if geteuid().is_root() {
        for how in ["namespace", "user"] {
            stall(WhenFull::Drop, "elsewhere", &["400000", how], 400_001);
        }
    }
}
