// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorder that stands still, stopped or before a disk that does not answer, for longer than
//! libcasper waits for one: the account is exact all the same.

use std::process::Command;
use std::time::{Duration, Instant};

use cowlab_casper::record::casper_total;
use cowlab_recorder::{Drain, Session, WhenFull, counters};
use rustix::process::geteuid;

use crate::programs::{Check, Counters, options, program};

/// Record a program of some 4 s, whatever the machine, while the recorder stands still for longer than
/// LEAVE_LIMIT_NS. `emitted`: its events.
fn stall(when_full: WhenFull, name: &str, arguments: &[&str], emitted: u64) {
    let what = format!("{name} {arguments:?}, {when_full:?}");
    let session = Session::create(options(when_full)).unwrap();
    let shared = Counters::new();
    session.turn(true).unwrap();
    let mut child = Command::new(program(name))
        .arg(shared.0.path())
        .args(arguments)
        .env("CASPER_SESSION", session.path())
        .spawn()
        .unwrap();
    let (mut drain, mut check) = (Drain::default(), Check::default());
    let began = Instant::now();
    let mut stood = false;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        session.beat();
        if drain.round(&session, &mut check, false) < session.subbuf_bytes {
            session.sleep(Duration::from_millis(2));
        }
        if !stood && began.elapsed() > Duration::from_millis(200) {
            stood = true;
            std::thread::sleep(Duration::from_millis(2500));
        }
    };
    drain.round(&session, &mut check, true);
    assert!(status.success(), "{what}: {status}");
    assert!(check.wrong.is_empty(), "{what}: {:?}", &check.wrong[..1]);
    let counts = shared.read();
    let sum = |of: fn(&casper_total) -> u64| drain.totals().iter().map(of).sum::<u64>();
    let dropped = sum(|total| total.dropped) + counters(&session).no_buffer_events;
    let (stored, overwritten) = (check.total(), sum(|total| total.overwritten));
    eprintln!("{what}: stored {stored}, dropped {dropped}, overwritten {overwritten}");
    assert_eq!(dropped, counts[100] + counts[101], "{what}: refused, and counted");
    assert_eq!(stored + dropped + overwritten, emitted, "{what}");
    assert!(!counters(&session).abandoned, "{what}: a recorder that lives was left");
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
