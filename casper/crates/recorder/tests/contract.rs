// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libcasper's contract, by programs in `libcasper/tests` whose events prove themselves: at the odd
//! moments of a program's life each event is stored once, whole, under the right process, or
//! counted as not stored.
//!
//! `COWLAB_TEST_LONG=1` runs the sizes that take minutes (`make test-long`).

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::Result;
use cowlab_casper::record::{
    CASPER_META_PROCESS, CASPER_SWITCH, casper_meta_process, casper_switch, casper_total, is_note,
};
use cowlab_casper::walk::records;
use cowlab_casper::write::DataChunk;
use cowlab_recorder::{Clock, Drain, Options, Owner, Session, Sink, WhenFull, counters};
use zerocopy::FromBytes;

const PROOF: u16 = 0x100;

fn is_long() -> bool {
    std::env::var_os("COWLAB_TEST_LONG").is_some()
}

/// Compile the library and the programs once.
fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libcasper");
        let built = Command::new("make")
            .arg("-s")
            .arg("-C")
            .arg(&root)
            .arg(format!("BUILD={}", folder.path().display()))
            .env_remove("MAKEFLAGS")
            .status()
            .unwrap();
        assert!(built.success());
        for name in ["threads", "killed", "forks", "signals", "moments"] {
            let status = Command::new("cc")
                .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
                .arg(root.join("include"))
                .arg(root.join(format!("tests/{name}.c")))
                .arg("-o")
                .arg(folder.path().join(name))
                .arg("-L")
                .arg(folder.path())
                .arg(format!("-Wl,-rpath,{}", folder.path().display()))
                .arg("-lcasper")
                .status()
                .unwrap();
            assert!(status.success(), "{name}.c");
        }
        folder
    });
    folder.path().join(name)
}

/// Counters shared with a program.
struct Counters(tempfile::NamedTempFile);

impl Counters {
    fn new() -> Counters {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        Counters(file)
    }

    fn read(&self) -> Vec<u64> {
        let mut bytes = Vec::new();
        File::open(self.0.path()).unwrap().read_to_end(&mut bytes).unwrap();
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    }
}

/// A source of events: process number, pid and source, as the events say.
type Source = (u32, u32, u16);

/// Checks each event as it comes.
#[derive(Default)]
struct Check {
    /// Events and the number expected next, by source.
    seen: HashMap<Source, (u64, u64)>,
    /// Events that came in order but with numbers missing before them.
    gaps: u64,
    /// pid, parent's number and origin of each process.
    processes: HashMap<u32, casper_meta_process>,
    /// What should not be.
    wrong: Vec<String>,
    /// A source's numbers need not come in order, since it has several streams.
    unordered: bool,
    /// Sum of all numbers: with their count it shows that none came twice.
    sum: u64,
}

impl Check {
    fn event(&mut self, process: u32, pid: u32, bytes: &[u8]) {
        if bytes.len() < 24 || u16::from_ne_bytes([bytes[0], bytes[1]]) != PROOF {
            return self.wrong.push(format!("foreign event {bytes:?}"));
        }
        let source = u16::from_ne_bytes([bytes[2], bytes[3]]);
        let said = u32::from_ne_bytes(bytes[4..8].try_into().unwrap());
        let number = u64::from_ne_bytes(bytes[8..16].try_into().unwrap());
        let check = u64::from_ne_bytes(bytes[16..24].try_into().unwrap());
        let sum =
            u64::from(source).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(said));
        let expected = (sum ^ number).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let tail = &bytes[24..];
        if check != expected
            || tail.len() as u64 != number % 65
            || tail.iter().any(|&byte| u64::from(byte) != number & 0xff)
        {
            self.wrong.push(format!("torn event {source} {number}: {bytes:?}"));
        }
        if said != pid {
            self.wrong.push(format!("event {number} of pid {said} stands under pid {pid}"));
        }
        let (count, next) = self.seen.entry((process, pid, source)).or_insert((0, number));
        if number < *next && !self.unordered {
            self.wrong.push(format!("event {number} of {source} after {}", *next - 1));
        }
        if !self.unordered {
            self.gaps += number.saturating_sub(*next);
        }
        self.sum += number;
        (*count, *next) = (*count + 1, number + 1);
    }

    fn total(&self) -> u64 {
        self.seen.values().map(|(count, _)| count).sum()
    }

    /// Events of one source over all processes.
    fn of(&self, source: u16) -> u64 {
        self.seen.iter().filter(|(of, _)| of.2 == source).map(|(_, (count, _))| count).sum()
    }
}

impl Sink for Check {
    fn data(&mut self, of: &DataChunk, payload: &[u8]) -> Result<()> {
        let (mut process, mut pid) = (of.process, of.pid);
        for raw in records(payload, of.base_ticks) {
            if u32::from(raw.event_type()) == CASPER_SWITCH {
                let to: casper_switch = raw.read().unwrap();
                (process, pid) = (to.process, to.pid);
            } else if !is_note(raw.event_type()) {
                self.event(process, pid, raw.bytes);
            }
        }
        Ok(())
    }

    fn meta(&mut self, entries: &[u8]) -> Result<()> {
        for entry in cowlab_casper::meta::entries(entries) {
            if u32::from(entry.head.kind) == CASPER_META_PROCESS {
                let (body, _) = casper_meta_process::read_from_prefix(entry.content).unwrap();
                if self.processes.insert(entry.head.process, body).is_some() {
                    self.wrong.push(format!("process {} began twice", entry.head.process));
                }
            }
        }
        Ok(())
    }

    fn thread(&mut self, _: u32, _: &Owner) -> Result<()> {
        Ok(())
    }
}

/// A recorded program.
struct Run {
    check: Check,
    totals: Vec<casper_total>,
    no_buffer: u64,
    counts: Vec<u64>,
    status: ExitStatus,
}

impl Run {
    fn sum(&self, of: fn(&casper_total) -> u64) -> u64 {
        self.totals.iter().map(of).sum()
    }

    fn assert_good(&self) {
        assert!(self.check.wrong.is_empty(), "{:?}", &self.check.wrong[..1]);
        assert_eq!(self.check.total(), self.sum(|total| total.stored));
    }

    fn assert_nothing_missing(&self) {
        self.assert_good();
        assert_eq!(self.sum(|total| total.dropped), 0);
        assert_eq!((self.no_buffer, self.check.gaps), (0, 0));
    }
}

fn options(when_full: WhenFull) -> Options {
    Options { when_full, buffer_bytes: 1 << 18, buffers: 256, ..Options::default() }
}

/// Run a program and drain it. `until`: ends it before it ends by itself.
fn run_with(
    options: Options,
    name: &str,
    arguments: &[&str],
    check: Check,
    mut until: impl FnMut(&mut Child),
) -> Run {
    let session = Session::create(options).unwrap();
    let shared = Counters::new();
    let mut run = Run {
        check,
        totals: Vec::new(),
        no_buffer: 0,
        counts: Vec::new(),
        status: ExitStatus::default(),
    };
    session.turn(true).unwrap();
    let mut child = Command::new(program(name))
        .arg(shared.0.path())
        .args(arguments)
        .env("CASPER_SESSION", session.path())
        .spawn()
        .unwrap();
    let mut drain = Drain::default();
    let began = Instant::now();
    loop {
        session.beat();
        until(&mut child);
        if let Some(status) = child.try_wait().unwrap() {
            run.status = status;
            break;
        }
        let bytes = drain.round(&session, &mut run.check, false).unwrap();
        if bytes < session.subbuf_bytes {
            session.sleep(Duration::from_millis(2));
        }
        assert!(began.elapsed() < Duration::from_secs(300), "{name} {arguments:?} hangs");
    }
    drain.round(&session, &mut run.check, true).unwrap();
    run.totals = drain.totals().to_vec();
    run.no_buffer = counters(&session).no_buffer_events;
    run.counts = shared.read();
    run
}

fn run(when_full: WhenFull, name: &str, arguments: &[&str]) -> Run {
    let run = run_with(options(when_full), name, arguments, Check::default(), |_| {});
    assert!(run.status.success(), "{name} {arguments:?}: {}", run.status);
    run
}

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
