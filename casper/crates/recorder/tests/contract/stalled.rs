// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorder that stands still, stopped or before a disk that does not answer, for longer than
//! libcasper waits for one: the account is exact all the same.

use std::process::Command;
use std::time::{Duration, Instant};

use cowlab_casper::record::casper_total;
use cowlab_recorder::{Drain, Session, WhenFull, counters};

use crate::programs::{Check, Counters, options, program};

#[test]
fn what_a_stalled_recorder_missed_is_counted() {
    for when_full in [WhenFull::Drop, WhenFull::Overwrite, WhenFull::Wait] {
        let session = Session::create(options(when_full)).unwrap();
        let shared = Counters::new();
        session.turn(true).unwrap();
        // Some 4 s, whatever the machine, and more if it has to wait.
        let mut child = Command::new(program("threads"))
            .arg(shared.0.path())
            .args(["400000", "2", "1000"])
            .env("CASPER_SESSION", session.path())
            .spawn()
            .unwrap();
        let (mut drain, mut check) = (Drain::default(), Check::default());
        let began = Instant::now();
        let mut stood = false;
        while child.try_wait().unwrap().is_none() {
            session.beat();
            if drain.round(&session, &mut check, false) < session.subbuf_bytes {
                session.sleep(Duration::from_millis(2));
            }
            if !stood && began.elapsed() > Duration::from_millis(200) {
                stood = true;
                std::thread::sleep(Duration::from_millis(2500));
            }
        }
        drain.round(&session, &mut check, true);
        assert!(check.wrong.is_empty(), "{when_full:?}: {:?}", &check.wrong[..1]);
        let counts = shared.read();
        let sum = |of: fn(&casper_total) -> u64| drain.totals().iter().map(of).sum::<u64>();
        let dropped = sum(|total| total.dropped) + counters(&session).no_buffer_events;
        let (stored, overwritten) = (check.total(), sum(|total| total.overwritten));
        eprintln!("{when_full:?}: stored {stored}, dropped {dropped}, overwritten {overwritten}");
        assert_eq!(dropped, counts[100] + counts[101], "{when_full:?}: refused, and counted");
        assert_eq!(stored + dropped + overwritten, 800_000, "{when_full:?}");
        assert!(!counters(&session).abandoned, "{when_full:?}: a recorder that lives was left");
    }
}
