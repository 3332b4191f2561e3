// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process that scribbles over all of its session's memory while it is drained.
//!
//! `COWLAB_TEST_LONG=1` makes 10,000 runs of it.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use cowlab_casper::read::Trace;
use cowlab_casper::write::DataChunk;
use cowlab_machine::SharedMemory;
use cowlab_recorder::{Clock, Drain, Options, Owner, Session, Sink, TraceFile, WhenFull};

use crate::programs::{Check, Counters, is_long, start};

const RING_BYTES: u64 = 1 << 16;
const BUFFERS: u32 = 8;
/// More than all of a session's memory that is in use; a position that was believed would be far
/// beyond.
const MOST_BYTES: u64 = 8 << 20;

/// Into a trace, with the events of one process checked on their way.
struct Tee {
    file: TraceFile,
    check: Check,
    /// 0: of none, since all may be written over.
    pid: u32,
}

impl Sink for Tee {
    fn data(&mut self, of: &DataChunk, payload: &[u8]) {
        if of.pid == self.pid {
            self.check.data(of, payload);
        }
        self.file.data(of, payload);
    }

    fn meta(&mut self, entries: &[u8]) {
        self.file.meta(entries);
    }

    fn thread(&mut self, process: u32, owner: &Owner) {
        self.file.thread(process, owner);
    }
}

/// Bytes of the trace, events of the good process in it, and whether the session was closed.
fn one(path: &Path, seed: u64, what: &str) -> (u64, u64, bool) {
    let modes = [WhenFull::Drop, WhenFull::Overwrite, WhenFull::Wait];
    let options = Options {
        when_full: modes[(seed % 3) as usize],
        buffer_bytes: RING_BYTES,
        buffers: BUFFERS,
        clock: Some(Clock::Monotonic),
        ..Options::default()
    };
    let session = Session::create(options).unwrap();
    let file = TraceFile::create(path, &session, "scribble").unwrap();
    session.turn(true).unwrap();
    let shared = Counters::new();
    let words = SharedMemory::map(shared.0.as_file(), 4096).unwrap();
    let mut good = start("threads", &session, &shared, &["20000", "1"]);
    let mut bad = start("scribble", &session, &shared, &[&seed.to_string(), what]);
    let mut tee =
        Tee { file, check: Check::default(), pid: if what == "own" { good.id() } else { 0 } };
    let mut drain = Drain::default();
    let began = Instant::now();
    loop {
        session.beat();
        drain.round(&session, &mut tee, false);
        if let Some(status) = good.try_wait().unwrap() {
            assert!(status.success(), "run {seed}: the other program ended with {status}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "run {seed} hangs");
        std::thread::sleep(Duration::from_micros(200));
    }
    words.u64(80).store(1, Relaxed);
    let status = bad.wait().unwrap();
    assert!(status.success(), "run {seed}: the scribbler ended with {status}");
    drain.round(&session, &mut tee, true);
    let Tee { file, check, .. } = tee;
    let (account, trouble) = file.finish(&session, &drain);
    assert!(trouble.is_none(), "run {seed}: {trouble:?}");
    assert!(account.bytes < MOST_BYTES, "run {seed}: {} bytes", account.bytes);
    // Whatever is in it, it can be read to its end.
    let trace = Trace::open(path).unwrap();
    let mut merge = trace.merge().unwrap();
    while let Ok(Some(_)) = merge.next() {}
    if what == "own" {
        assert!(check.wrong.is_empty(), "run {seed}: {:?}", &check.wrong[..1]);
        if session.options.when_full == WhenFull::Wait {
            assert_eq!(check.gaps, 0, "run {seed}: events of another process are missing");
        }
    }
    (account.bytes, check.total(), drain.breach().is_some())
}

#[test]
fn a_process_that_scribbles_costs_the_recording_and_nothing_else() {
    let runs = if is_long() { 10_000 } else { 200 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let (mut most, mut events, mut closed) = (0, 0, 0);
    for seed in 0..runs {
        let (bytes, good, breach) = one(&path, seed, if seed % 2 == 0 { "own" } else { "all" });
        most = most.max(bytes);
        events += good;
        closed += u64::from(breach);
        std::fs::remove_file(&path).unwrap();
    }
    eprintln!("{runs} runs: {closed} closed, {most} bytes at most, {events} events of others");
    assert!(closed > runs / 2 && events > 0);
}
