// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process that lies in its session's memory: the recorder writes no more than was recorded, closes
//! the session with one line, and keeps what was good; other programs go on.

use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use cowlab_casper::record::{
    CASPER_BUFFER_CLAIMED, CASPER_BUFFER_FREE, CASPER_BUFFER_HEADER_BYTES, CASPER_OVER,
    CASPER_PAUSED, CASPER_RECORDING, casper_buffer, casper_session, casper_subbuf,
};
use cowlab_casper::walk::append;
use cowlab_casper::write::DataChunk;
use cowlab_machine::SharedMemory;
use cowlab_recorder::{Clock, Drain, Options, Recording, Request, Session, Sink, Target, WhenFull};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use zerocopy::{FromZeros, IntoBytes};

use crate::programs::{Counters, options, program, start};

/// What came out of a drain.
#[derive(Default)]
struct Out {
    bytes: usize,
    events: u32,
}

impl Sink for Out {
    fn data(&mut self, of: &DataChunk, payload: &[u8]) {
        self.bytes += payload.len();
        self.events += of.events;
    }
}

/// A session, and the memory as a program of it sees it.
struct Program {
    session: Session,
    memory: SharedMemory,
}

impl Program {
    fn new(when_full: WhenFull) -> Program {
        let options = Options { clock: Some(Clock::Monotonic), ..options(when_full) };
        let session = Session::create(options).unwrap();
        session.turn(true).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(session.path()).unwrap();
        let memory = SharedMemory::map(&file, file.metadata().unwrap().len() as usize).unwrap();
        Program { session, memory }
    }

    fn word(&self, index: u32, field: usize, value: u32) {
        self.memory.u32(self.session.buffer_offset(index) + field).store(value, SeqCst);
    }

    fn double_word(&self, index: u32, field: usize, value: u64) {
        self.memory.u64(self.session.buffer_offset(index) + field).store(value, SeqCst);
    }

    fn ring(&self, index: u32) -> usize {
        self.session.buffer_offset(index) + CASPER_BUFFER_HEADER_BYTES as usize
    }

    /// Claim a buffer and publish some events in it. Returns the position after them.
    fn record(&self, index: u32, events: usize) -> u64 {
        let mut first = casper_subbuf::new_zeroed();
        first.base_ticks = 1;
        let mut bytes = first.as_bytes().to_vec();
        (0..events).for_each(|_| append(&mut bytes, 1, &7u64.to_ne_bytes()));
        self.memory.write(self.ring(index), &bytes);
        self.word(index, offset_of!(casper_buffer, pid), std::process::id());
        self.double_word(index, offset_of!(casper_buffer, head), bytes.len() as u64);
        self.word(index, offset_of!(casper_buffer, state), CASPER_BUFFER_CLAIMED);
        self.word(index, offset_of!(casper_buffer, stream), 1);
        bytes.len() as u64
    }
}

/// What a program writes, and what the line says that the session is closed with.
type Lie = (fn(&Program, u64), &'static str);

const LIES: [Lie; 10] = [
    (|of, _| of.double_word(0, offset_of!(casper_buffer, head), 1 << 62), "its position went"),
    (|of, at| of.double_word(0, offset_of!(casper_buffer, head), at - 8), "its position went"),
    (|of, at| of.double_word(0, offset_of!(casper_buffer, head), at + 1), "its position went"),
    (|of, at| of.double_word(0, offset_of!(casper_buffer, head), at + (1 << 18) + 8), "went from"),
    (|of, _| of.word(0, offset_of!(casper_buffer, state), CASPER_BUFFER_FREE), "given away"),
    (|of, _| of.double_word(0, offset_of!(casper_buffer, dropped), 4), "dropped events went back"),
    (|of, _| of.memory.u32(offset_of!(casper_session, on)).store(2, SeqCst), "turned"),
    (
        |of, _| of.memory.u64(offset_of!(casper_session, meta_end)).store(1 << 40, SeqCst),
        "metadata",
    ),
    (|of, _| of.memory.u32(of.session.metadata().0).store(12, SeqCst), "metadata at offset 0"),
    (
        |of, at| {
            of.memory.u64(of.ring(0) + at as usize).store(0xffff, SeqCst);
            of.double_word(0, offset_of!(casper_buffer, head), at + 64);
        },
        "comes no record",
    ),
];

#[test]
fn a_lie_closes_the_session_and_what_was_good_is_kept() {
    for (lie, line) in LIES {
        let program = Program::new(WhenFull::Drop);
        let (mut drain, mut out) = (Drain::default(), Out::default());
        let end = program.record(0, 10);
        program.double_word(0, offset_of!(casper_buffer, dropped), 5);
        drain.round(&program.session, &mut out, false);
        assert_eq!((out.events, drain.breach()), (10, None));
        // Another's events, which are there when the first lies.
        program.record(1, 20);
        lie(&program, end);
        drain.round(&program.session, &mut out, false);
        let breach = drain.breach().unwrap_or_default();
        assert!(breach.contains(line), "'{breach}' does not say '{line}'");
        assert_eq!(out.events, 30, "{line}");
        let on = program.memory.u32(offset_of!(casper_session, on)).load(SeqCst);
        assert_eq!(on, 2, "programs leave: {line}");
        program.record(2, 5);
        drain.round(&program.session, &mut out, true);
        assert_eq!((out.events, drain.totals().len()), (30, 2), "{line}");
        assert_eq!(drain.totals().iter().map(|total| total.stored).sum::<u64>(), 30);
    }
}

/// A closed session that is turned on again: nobody drains it, so nobody may wait for that.
#[test]
fn a_closed_session_stays_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut recording = Recording::start(&path, false, options(WhenFull::Wait), "", None).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(recording.session.path()).unwrap();
    let memory = SharedMemory::map(&file, size_of::<casper_session>()).unwrap();
    let on = memory.u32(offset_of!(casper_session, on));
    let beats = memory.u64(offset_of!(casper_session, heartbeat));
    on.store(CASPER_PAUSED, SeqCst);
    recording.pump();
    assert!(recording.is_closed());
    let before = beats.load(SeqCst);
    on.store(CASPER_RECORDING, SeqCst);
    recording.pump();
    assert_eq!((on.load(SeqCst), beats.load(SeqCst)), (CASPER_OVER, before));
}

/// In a flight recorder positions may go far, but not faster than events can.
#[test]
fn a_flight_recorder_reads_one_ring_whatever_its_position() {
    let program = Program::new(WhenFull::Overwrite);
    let (mut drain, mut out) = (Drain::default(), Out::default());
    program.record(0, 10);
    program.double_word(0, offset_of!(casper_buffer, head), 1 << 62);
    drain.round(&program.session, &mut out, true);
    assert!(out.bytes <= 1 << 18, "{} bytes of a ring of 256 KiB", out.bytes);
    let program = Program::new(WhenFull::Overwrite);
    let mut drain = Drain::default();
    program.record(0, 10);
    let first_event = program.ring(0) + offset_of!(casper_subbuf, first_event);
    program.memory.u64(first_event).store(u64::MAX, SeqCst);
    drain.round(&program.session, &mut out, true);
    assert!(drain.breach().is_some_and(|line| line.contains("events in 0 bytes")));
}

/// What the recorder says to programs is not what it goes by itself.
#[test]
fn the_recorders_own_words_are_not_read_back() {
    let program = Program::new(WhenFull::Drop);
    let (mut drain, mut out) = (Drain::default(), Out::default());
    program.record(0, 10);
    let header = &program.memory;
    header.u32(offset_of!(casper_session, buffers_ready)).store(u32::MAX, SeqCst);
    header.u64(offset_of!(casper_session, meta_ready)).store(u64::MAX, SeqCst);
    drain.round(&program.session, &mut out, false);
    drain.round(&program.session, &mut out, true);
    assert_eq!((out.events, drain.breach()), (10, None));
    assert_eq!(program.session.metadata().1, 2 << 20, "no more memory than was needed");
}

#[test]
fn nobody_can_cut_the_memory_short() {
    let program = Program::new(WhenFull::Drop);
    let file = OpenOptions::new().read(true).write(true).open(program.session.path()).unwrap();
    assert!(file.set_len(0).is_err(), "the recorder's next look would end it");
    assert!(file.set_len(1 << 40).is_err());
}

/// A copy of a session's header, to be made wrong.
fn copy_of_header(session: &Session) -> (File, SharedMemory) {
    let original = OpenOptions::new().read(true).write(true).open(session.path()).unwrap();
    let bytes = original.metadata().unwrap().len();
    let file = File::from(memfd_create("copy", MemfdFlags::CLOEXEC).unwrap());
    ftruncate(&file, bytes).unwrap();
    let memory = SharedMemory::map(&file, bytes as usize).unwrap();
    let mut header = vec![0; size_of::<casper_session>()];
    session.memory().read(0, &mut header);
    memory.write(0, &header);
    (file, memory)
}

fn outlives(file: &File, what: &str) {
    let shared = Counters::new();
    let status = Command::new(program("threads"))
        .arg(shared.0.path())
        .args(["100", "1"])
        .env("CASPER_SESSION", format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
        .status()
        .unwrap();
    assert!(status.success(), "{what}: {status}");
}

/// libcasper: a session whose layout cannot be is not entered, and costs the program nothing.
#[test]
fn a_program_outlives_a_layout_that_lies() {
    let session = Session::create(options(WhenFull::Drop)).unwrap();
    session.turn(true).unwrap();
    let fields = [
        offset_of!(casper_session, session_bytes),
        offset_of!(casper_session, meta_offset),
        offset_of!(casper_session, meta_bytes),
        offset_of!(casper_session, buffers_offset),
        offset_of!(casper_session, buffer_stride),
        offset_of!(casper_session, clock),
        offset_of!(casper_session, buffer_bytes),
    ];
    let values = [0, 1, 4096, 1 << 31, 1 << 40, 1 << 63, u64::MAX, -4096i64 as u64];
    for field in fields {
        for value in values {
            let (file, memory) = copy_of_header(&session);
            memory.u64(field).store(value, SeqCst);
            // With a length that makes their sum right again.
            if field == offset_of!(casper_session, meta_offset) {
                memory.u64(offset_of!(casper_session, meta_bytes)).store(4096, SeqCst);
            }
            outlives(&file, &format!("{value:#x} at {field}"));
        }
    }
}

/// The same where the words change while they are looked at.
#[test]
fn a_program_outlives_a_layout_that_changes() {
    let session = Session::create(options(WhenFull::Drop)).unwrap();
    session.turn(true).unwrap();
    let (file, memory) = copy_of_header(&session);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                for field in [
                    offset_of!(casper_session, meta_offset),
                    offset_of!(casper_session, meta_bytes),
                    offset_of!(casper_session, buffers_offset),
                    offset_of!(casper_session, buffer_stride),
                    offset_of!(casper_session, clock),
                ] {
                    let word = memory.u64(field);
                    let right = word.swap(1 << 40, SeqCst);
                    std::hint::spin_loop();
                    word.store(right, SeqCst);
                }
            }
        });
        for run in 0..300 {
            outlives(&file, &format!("run {run}"));
        }
        over.store(true, SeqCst);
    });
}

/// A signal handler's alternate stack has little room beside what the kernel puts there.
#[test]
fn a_first_event_in_a_handler_needs_little_stack() {
    let session = Session::create(options(WhenFull::Drop)).unwrap();
    session.turn(true).unwrap();
    for bytes in ["1536", "2048", "4096"] {
        let shared = Counters::new();
        let mut child = start("handler", &session, &shared, &[bytes]);
        let (mut drain, mut out) = (Drain::default(), Out::default());
        let status = loop {
            drain.round(&session, &mut out, false);
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => session.sleep(Duration::from_millis(1)),
            }
        };
        assert!(status.success(), "{bytes} bytes: {status}");
        assert_eq!(shared.read()[0], 1);
    }
}

/// The same where that event enters the session that the gate asks for.
#[test]
fn entering_in_a_handler_needs_4_kib_of_stack() {
    let session = Session::create(options(WhenFull::Drop)).unwrap();
    session.turn(true).unwrap();
    let shared = Counters::new();
    let words = SharedMemory::map(shared.0.as_file(), 4096).unwrap();
    let mut child = Command::new(program("handler"))
        .arg(shared.0.path())
        .args(["4096", "gate"])
        .env_remove("CASPER_SESSION")
        .spawn()
        .unwrap();
    let (mut drain, mut out) = (Drain::default(), Out::default());
    let mut request = None;
    while out.events == 0 {
        assert_eq!(child.try_wait().unwrap(), None, "it did not outlive its entering");
        if request.is_none() && Target::find(child.id()).is_ok() {
            request = Some(Request::make(child.id(), &session.path()).unwrap());
        }
        drain.round(&session, &mut out, false);
        session.sleep(Duration::from_millis(1));
    }
    words.u64(80).store(1, SeqCst);
    assert!(child.wait().unwrap().success());
}

/// It would have no counter to stamp its events with.
#[test]
fn libcasper_is_not_built_for_32_bits() {
    let root = Path::new("../../libcasper");
    let mut compiler = Command::new("cc");
    compiler.args(["-m32", "-fsyntax-only", "-x", "c"]);
    let built = compiler.arg(root.join("src/internal.h")).output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(!built.status.success() && said.contains("64-bit programs only"), "{said}");
}
