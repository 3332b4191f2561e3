// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs in `libcasper/tests`, and what checks their events.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cowlab_casper::record::{
    CASPER_META_PROCESS, CASPER_SWITCH, casper_meta_process, casper_switch, casper_total, is_note,
};
use cowlab_casper::walk::records;
use cowlab_casper::write::DataChunk;
use cowlab_recorder::{Drain, Options, Session, Sink, WhenFull, counters};
use zerocopy::FromBytes;

const PROOF: u16 = 0x100;

pub fn is_long() -> bool {
    std::env::var_os("COWLAB_TEST_LONG").is_some()
}

/// Compile the library and the programs once.
pub fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new("../../libcasper");
        // What nobody can wait for in a test comes sooner. The thread sanitizer takes a fence for
        // nothing, and warns of that.
        let mut flags = "-O2 -g -Wno-tsan -DLEAVE_LIMIT_NS=1000000000".to_owned();
        let sanitizer = std::env::var("CASPER_SANITIZE").map(|kind| format!("-fsanitize={kind}"));
        flags.extend(sanitizer.iter().map(|flag| format!(" {flag}")));
        let built = Command::new("make")
            .arg("-s")
            .arg("-C")
            .arg(root)
            .arg(format!("BUILD={}", folder.path().display()))
            .arg(format!("CFLAGS={flags}"))
            .arg(format!("LDFLAGS={}", sanitizer.as_deref().unwrap_or("")))
            .env_remove("MAKEFLAGS")
            .status()
            .unwrap();
        assert!(built.success());
        for name in
            ["threads", "killed", "forks", "signals", "moments", "handler", "scribble", "elsewhere"]
        {
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
                .args(&sanitizer)
                .status()
                .unwrap();
            assert!(status.success(), "{name}.c");
        }
        folder
    });
    folder.path().join(name)
}

pub struct Counters(pub tempfile::NamedTempFile);

impl Counters {
    pub fn new() -> Counters {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        Counters(file)
    }

    pub fn read(&self) -> Vec<u64> {
        let mut bytes = Vec::new();
        File::open(self.0.path()).unwrap().read_to_end(&mut bytes).unwrap();
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    }
}

/// A source of events: process number, pid and source, as the events say.
pub type Source = (u32, u32, u16);

/// Checks each event as it comes.
#[derive(Default)]
pub struct Check {
    /// Events and the number expected next, by source.
    pub seen: HashMap<Source, (u64, u64)>,
    /// Events that came in order but with numbers missing before them.
    pub gaps: u64,
    /// pid, parent's number and origin of each process.
    pub processes: HashMap<u32, casper_meta_process>,
    /// What should not be.
    pub wrong: Vec<String>,
    /// A source's numbers need not come in order, since it has several streams.
    pub unordered: bool,
    /// Sum of all numbers: with their count it shows that none came twice.
    pub sum: u64,
}

impl Check {
    pub fn event(&mut self, process: u32, pid: u32, bytes: &[u8]) {
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

    pub fn total(&self) -> u64 {
        self.seen.values().map(|(count, _)| count).sum()
    }

    /// Events of one source over all processes.
    pub fn of(&self, source: u16) -> u64 {
        self.seen.iter().filter(|(of, _)| of.2 == source).map(|(_, (count, _))| count).sum()
    }
}

impl Sink for Check {
    fn data(&mut self, of: &DataChunk, payload: &[u8]) {
        let (mut process, mut pid) = (of.process, of.pid);
        for raw in records(payload, of.base_ticks) {
            if u32::from(raw.event_type()) == CASPER_SWITCH {
                let to: casper_switch = raw.read().unwrap();
                (process, pid) = (to.process, to.pid);
            } else if !is_note(raw.event_type()) {
                self.event(process, pid, raw.bytes);
            }
        }
    }

    fn meta(&mut self, entries: &[u8]) {
        for entry in cowlab_casper::meta::entries(entries) {
            if u32::from(entry.head.kind) == CASPER_META_PROCESS {
                let (body, _) = casper_meta_process::read_from_prefix(entry.content).unwrap();
                if self.processes.insert(entry.head.process, body).is_some() {
                    self.wrong.push(format!("process {} began twice", entry.head.process));
                }
            }
        }
    }
}

pub struct Run {
    pub check: Check,
    pub totals: Vec<casper_total>,
    pub no_buffer: u64,
    /// Whether the program took the recorder for dead.
    pub abandoned: bool,
    pub counts: Vec<u64>,
    pub status: ExitStatus,
}

impl Run {
    pub fn sum(&self, of: fn(&casper_total) -> u64) -> u64 {
        self.totals.iter().map(of).sum()
    }

    pub fn assert_good(&self) {
        assert!(self.check.wrong.is_empty(), "{:?}", &self.check.wrong[..1]);
        assert_eq!(self.check.total(), self.sum(|total| total.stored));
    }

    pub fn assert_nothing_missing(&self) {
        self.assert_good();
        assert_eq!(self.sum(|total| total.dropped), 0);
        assert_eq!((self.no_buffer, self.check.gaps), (0, 0));
    }
}

pub fn options(when_full: WhenFull) -> Options {
    Options { when_full, buffer_bytes: 1 << 18, buffers: 256, ..Options::default() }
}

pub fn start(name: &str, session: &Session, shared: &Counters, arguments: &[&str]) -> Child {
    let mut command = Command::new(program(name));
    command.arg(shared.0.path()).args(arguments).env("CASPER_SESSION", session.path());
    command.spawn().unwrap()
}

/// Run a program and drain it. `until`: ends it before it ends by itself.
pub fn run_with(
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
        abandoned: false,
        counts: Vec::new(),
        status: ExitStatus::default(),
    };
    session.turn(true).unwrap();
    let mut child = start(name, &session, &shared, arguments);
    let mut drain = Drain::default();
    let began = Instant::now();
    loop {
        session.beat();
        until(&mut child);
        if let Some(status) = child.try_wait().unwrap() {
            run.status = status;
            break;
        }
        let bytes = drain.round(&session, &mut run.check, false);
        if bytes < session.subbuf_bytes {
            session.sleep(Duration::from_millis(2));
        }
        assert!(began.elapsed() < Duration::from_secs(300), "{name} {arguments:?} hangs");
    }
    drain.round(&session, &mut run.check, true);
    run.totals = drain.totals().to_vec();
    (run.no_buffer, run.abandoned) =
        (counters(&session).no_buffer_events, counters(&session).abandoned);
    run.counts = shared.read();
    run
}

pub fn run(when_full: WhenFull, name: &str, arguments: &[&str]) -> Run {
    let run = run_with(options(when_full), name, arguments, Check::default(), |_| {});
    assert!(run.status.success(), "{name} {arguments:?}: {}", run.status);
    run
}
