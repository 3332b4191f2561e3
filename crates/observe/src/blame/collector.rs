// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes the copies in as they are told, unwinds their stacks, and names the functions at the end.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::blame::names::{Function, Names};
use crate::blame::space::{End, Place, Space, Stack, Unwinding};
use crate::bpf::{BpfError, Copied, FaultMode, Lost, Observer, ObserverSettings};
use cowlab_machine::process::{Target, children};
use cowlab_schema::Writer;
use cowlab_store::stacks::{Copy, CopyStacks, Frame};
use rustc_hash::FxHashMap;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::blame::family::Family;
use crate::blame::memory::Memory;
use crate::blame::pace::{Pace, Share};

pub const LOOK: Duration = Duration::from_millis(10);
/// How often the share that is told is set anew.
const PACE: Duration = Duration::from_millis(100);

/// Copies that are taken in at once, so that a look ends.
const LOOK_MOST: usize = 16_384;
/// Copies that are kept: some 500 MB. Where more come, those that are there are thinned out.
const KEPT_MOST: usize = 500_000;

/// Where programs and threads begin: glibc's names and musl's, and Go's.
const OUTERMOST: [&str; 7] =
    ["_start", "clone", "clone3", "__clone", "__clone3", "start_thread", "runtime.goexit"];

/// A function of code that is in no file, or in one that could not be looked up.
const UNNAMED: &str = "[unnamed code]";

pub struct Collected {
    /// The copies that were told, with their stacks.
    pub stacks: CopyStacks,
    /// All copies, told or not.
    pub copies: u64,
    /// Write faults on pages that were there and needed no copy any more.
    pub reuses: u64,
    /// Those that were forked and copied something, by their program.
    pub workers: BTreeMap<String, u64>,
    /// Whether processes that were forked meanwhile were looked at.
    pub sees_children: bool,
    /// What did not fit.
    pub lost: Lost,
    /// What telling took: of the processes' time, and of ours.
    pub telling_ns: u64,
    pub reading_ns: u64,
    pub ran_ns: u64,
    /// Why copies that the kernel makes in system calls were not seen; `None` where they were.
    pub sees_kernel: Option<String>,
    /// Interpreters that would name their functions if they were asked to.
    pub hints: Vec<String>,
}

pub struct Collector {
    observer: Observer,
    sees_kernel: Option<String>,
    family: Family,
    unwinding: Unwinding,
    memory: Memory,
    /// Where the stacks of others than processes' first ones end.
    threads: FxHashMap<u32, u64>,
    share: Share,
    pace: Pace,
    paced: Instant,
    /// Counts of processes that ended.
    ended: [u64; 3],
    ran: FxHashMap<u32, u64>,
    /// How long those ran that were there before.
    ran_before: FxHashMap<u32, u64>,
    ran_ended_ns: u64,
    /// Those that were forked and copied something, by their program.
    workers: BTreeMap<String, u64>,
    copies: Vec<Told>,
    began_ns: u64,
    /// What of this process's time went into copies that came: a rarer share spares that. Looks at which none
    /// came cost the same whatever the share is.
    told_ns: u64,
}

/// A copy with its stack, unnamed.
struct Told {
    copied: Copied,
    process: String,
    writer: Writer,
    since_fork_ns: Option<u64>,
    mapping: String,
    offset_bytes: Option<u64>,
    stack: Stack,
}

impl Collector {
    /// Attaches. An error says what is missing.
    pub fn attach(share: Share) -> Result<Collector, BpfError> {
        let settings = ObserverSettings {
            faults: FaultMode::Copies,
            kernel_faults: true,
            ..ObserverSettings::default()
        };
        // A descriptor for each file that is executed.
        let files = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
        // Where a task's registers are asks for the kernel's own types (BTF).
        let (mut observer, sees_kernel) = match Observer::attach(settings) {
            Ok(observer) => (observer, None),
            Err(error @ BpfError::NotAllowed(_)) => return Err(error),
            Err(error) => {
                let without = ObserverSettings { kernel_faults: false, ..settings };
                (Observer::attach(without)?, Some(error.to_string()))
            }
        };
        observer.tell_copies(first(share), doubling(share))?;
        Ok(Collector {
            observer,
            sees_kernel,
            family: Family::default(),
            unwinding: Unwinding::default(),
            memory: Memory::default(),
            threads: FxHashMap::default(),
            share,
            pace: Pace::default(),
            paced: Instant::now(),
            ended: [0; 3],
            ran: FxHashMap::default(),
            ran_before: FxHashMap::default(),
            ran_ended_ns: 0,
            workers: BTreeMap::new(),
            copies: Vec::new(),
            began_ns: own_cpu_ns(),
            told_ns: 0,
        })
    }

    /// Watches a process and all that descend from it, now and later.
    pub fn watch(&mut self, target: &Target) -> Result<(), BpfError> {
        let pid = target.pid() as u32;
        self.observer.watch(pid)?;
        self.ran_before.insert(pid, ran_ns(pid).unwrap_or(0));
        if let Some(start) = target.stack_start() {
            self.observer.stack_starts(pid, start);
        }
        self.family.admit(target, monotonic_ns());
        for child in children::pids(target).unwrap_or_default() {
            if let Ok(child) = Target::open(child) {
                self.watch(&child)?;
                if child.forked_by().is_some() {
                    self.family.has_forked(pid);
                }
            }
        }
        Ok(())
    }

    /// Watches all that this process starts from now on; [`Collector::leave`] ends that.
    pub fn watch_own_children(&mut self) -> Result<(), BpfError> {
        self.observer.watch(std::process::id())
    }

    pub fn leave(&mut self) {
        self.observer.forget(std::process::id());
    }

    /// Takes in what has come; every [`LOOK`] or so.
    pub fn look(&mut self) {
        let began_ns = own_cpu_ns();
        if self.take() > 0 {
            self.told_ns += own_cpu_ns().saturating_sub(began_ns);
        }
        if self.paced.elapsed() >= PACE {
            self.paced = Instant::now();
            self.set_pace(monotonic_ns());
        }
    }

    /// Takes in what waits, but not more than a look may take; how many copies there were.
    fn take(&mut self) -> usize {
        // Copies before forks and execs: those that they come after are known then.
        let came = self.observer.read_copies(LOOK_MOST);
        let now_ns = monotonic_ns();
        let mut executed = Vec::new();
        let family = &mut self.family;
        self.observer.read_events(|event| {
            family.take(&event);
            if event.what == crate::bpf::Happening::Exec {
                executed.push(event.tgid);
            }
        });
        for pid in executed {
            if let Ok(target) = Target::open(pid as i32) {
                self.observer.stack_starts(pid, target.stack_start().unwrap_or(0));
            }
        }
        let (own, count) = (std::process::id(), came.len());
        for copied in came.into_iter().filter(|copied| copied.tgid != own) {
            let told = self.told(copied, now_ns);
            self.copies.push(told);
        }
        if self.copies.len() >= KEPT_MOST {
            self.thin_out();
        }
        count
    }

    /// Keeps every second copy, which then stands for two.
    fn thin_out(&mut self) {
        let mut keeps = false;
        self.copies.retain(|_| {
            keeps = !keeps;
            keeps
        });
        for told in &mut self.copies {
            told.copied.every = told.copied.every.saturating_mul(2);
        }
    }

    fn told(&mut self, mut copied: Copied, now_ns: u64) -> Told {
        let (pid, time_ns) = (copied.tgid, copied.time_ns);
        let (process, writer, since_fork_ns) = self.family.known(pid, time_ns);
        let piece = std::mem::take(&mut copied.stack);
        let mut space = self.family.space(pid, time_ns, now_ns);
        let mut stack = self.unwind(space.as_deref(), &copied, &piece);
        let is_known = |space: &Rc<Space>| space.mapping(copied.address).is_some();
        if !space.as_ref().is_some_and(is_known) || stack.end == End::NoTables {
            // What was mapped since.
            if let Some(newer) = self.family.look_again(pid, time_ns, now_ns) {
                stack = self.unwind(Some(&newer), &copied, &piece);
                space = Some(newer);
            }
        }
        let mapping = space.as_ref().and_then(|space| space.mapping(copied.address));
        let [_, sp, _] = copied.registers;
        if copied.tid != pid
            && let Some(stack) = space.as_ref().and_then(|space| space.mapping(sp))
            && self.threads.insert(copied.tid, stack.range.end) != Some(stack.range.end)
        {
            self.observer.stack_starts(copied.tid, stack.range.end);
        }
        Told {
            process,
            writer,
            since_fork_ns,
            mapping: mapping.map_or_else(String::new, |mapping| {
                mapping.name.clone().unwrap_or_else(|| mapping.kind.name().to_owned())
            }),
            offset_bytes: mapping.map(|of| copied.address - of.range.start),
            stack,
            copied,
        }
    }

    fn unwind(&mut self, space: Option<&Space>, copied: &Copied, piece: &[u8]) -> Stack {
        let memory = &mut self.memory;
        memory.renew();
        match space {
            Some(space) if !copied.is_32_bit => {
                space.unwind(&mut self.unwinding, copied.registers, piece, |address| {
                    memory.word(copied.tgid, address)
                })
            }
            _ => Stack { places: vec![Place::Memory(copied.registers[0])], end: End::NoTables },
        }
    }

    /// Looks how long everybody ran and what telling took; sets the share by it.
    fn set_pace(&mut self, now_ns: u64) {
        for pid in self.family.pids().filter(|pid| *pid != std::process::id()) {
            if let Some(ns) = ran_ns(pid) {
                let before_ns = self.ran_before.get(&pid).unwrap_or(&0);
                self.ran.insert(pid, ns.saturating_sub(*before_ns));
            }
        }
        let own = std::process::id();
        for pid in self.family.gone(now_ns).into_iter().filter(|pid| *pid != own) {
            self.count_worker(pid);
            self.family.forget(pid);
            self.ran_before.remove(&pid);
            self.ran_ended_ns += self.ran.remove(&pid).unwrap_or(0);
            let counts = self.counts(pid);
            self.ended.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            self.observer.forget(pid);
        }
        if self.share == Share::ByCost {
            let spent_ns = self.totals()[2] + self.told_ns;
            let reached = self.observer.told_every().unwrap_or(1);
            let every = self.pace.next(self.ran_ns(), spent_ns, reached);
            // The next look tells if it fails.
            let _ = self.observer.tell_copies(every, doubling(self.share));
        }
    }

    fn count_worker(&mut self, pid: u32) {
        let program = self.family.worker(pid).map(str::to_owned);
        let [copies, ..] = self.counts(pid);
        if let Some(program) = program.filter(|_| copies > 0) {
            *self.workers.entry(program).or_default() += 1;
        }
    }

    fn ran_ns(&self) -> u64 {
        self.ran_ended_ns + self.ran.values().sum::<u64>()
    }

    fn counts(&self, pid: u32) -> [u64; 3] {
        let counts = self.observer.counts(pid).unwrap_or_default();
        [counts.copies, counts.writes_to_present, counts.telling_ns]
    }

    /// Copies, writes to present pages, and what telling took.
    fn totals(&self) -> [u64; 3] {
        let own = std::process::id();
        let pids = self.observer.watched().into_iter().filter(|pid| *pid != own);
        pids.fold(self.ended, |sum, pid| {
            let of = self.counts(pid);
            [sum[0] + of[0], sum[1] + of[1], sum[2] + of[2]]
        })
    }

    /// How many copies there were so far, and how many of them were told.
    pub fn so_far(&self) -> (u64, usize) {
        (self.totals()[0], self.copies.len())
    }

    pub fn finish(mut self) -> Collected {
        let _ = self.observer.tell_copies(0, None);
        while self.take() > 0 {}
        for pid in self.family.pids().collect::<Vec<_>>() {
            self.count_worker(pid);
        }
        let [copies, writes_to_present, telling_ns] = self.totals();
        let (lost, ran_ns) = (self.observer.lost(), self.ran_ns());
        let sees_children = self.observer.learned().tgid_offset.is_some();
        drop(self.observer);
        let reading_ns = own_cpu_ns().saturating_sub(self.began_ns);
        let made = self.family.made_code();
        let hints = self.family.hints(&made);
        let mut names = Names::default();
        let mut table = FrameTable::default();
        let mut rows = Vec::new();
        for told in &self.copies {
            let frames = told.stack.places.iter().map(|place| {
                table.of(place, || match place {
                    Place::Memory(address) => {
                        let name = made.name(told.copied.tgid, *address).unwrap_or(UNNAMED);
                        let name = name.to_owned();
                        vec![Function { name, module: String::new(), source: None }]
                    }
                    place => names.at(place),
                })
            });
            let mut frames: Vec<usize> = frames.collect();
            if let Some(main) = main_frame(&told.stack, &table, &frames) {
                frames[main] = table.renamed(frames[main], "main");
            }
            rows.push(Copy {
                time_ns: told.copied.time_ns,
                process: told.process.clone(),
                pid: told.copied.tgid,
                tid: told.copied.tid,
                writer: told.writer.to_string(),
                since_fork_ns: told.since_fork_ns,
                address: told.copied.address,
                mapping: told.mapping.clone(),
                offset_bytes: told.offset_bytes,
                syscall: told.copied.syscall.map(syscall),
                every: told.copied.every,
                is_whole: told.stack.end == End::Whole && table.is_outermost(frames.last()),
                frames,
            });
        }
        Collected {
            stacks: CopyStacks { frames: table.frames, copies: rows },
            copies,
            reuses: writes_to_present.saturating_sub(copies),
            lost,
            workers: self.workers,
            sees_children,
            telling_ns,
            reading_ns,
            ran_ns,
            sees_kernel: self.sees_kernel,
            hints,
        }
    }
}

/// Frames by place, each named once.
#[derive(Default)]
struct FrameTable {
    frames: Vec<Frame>,
    known: FxHashMap<(String, u64), usize>,
}

impl FrameTable {
    fn of(&mut self, place: &Place, name: impl FnOnce() -> Vec<Function>) -> usize {
        let key = match place {
            Place::File(image, address) => (image.path.clone(), *address),
            Place::Memory(address) => (String::new(), *address),
        };
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let functions = name();
        let module = key.0.clone();
        self.frames.push(Frame {
            module,
            address: key.1,
            functions: functions.into_iter().map(|f| (f.name, f.source)).collect(),
        });
        self.known.insert(key, self.frames.len() - 1);
        self.frames.len() - 1
    }

    /// Whether a frame is where programs and threads begin.
    fn is_outermost(&self, frame: Option<&usize>) -> bool {
        let outer = frame.and_then(|frame| self.frames[*frame].functions.last());
        outer.is_some_and(|(name, _)| OUTERMOST.contains(&name.as_str()))
    }

    /// The frame with its outer function under another name.
    fn renamed(&mut self, frame: usize, name: &str) -> usize {
        if let Some((last, _)) = self.frames[frame].functions.last_mut() {
            name.clone_into(last);
        }
        frame
    }
}

/// Where `main` is, in a stack of a program that nobody wrote symbols for: `_start` calls the C
/// library, which calls main.
fn main_frame(stack: &Stack, table: &FrameTable, frames: &[usize]) -> Option<usize> {
    if stack.end != End::Whole {
        return None;
    }
    let last = frames.len().checked_sub(1)?;
    let module = |at: usize| table.frames[frames[at]].module.as_str();
    let name = |at: usize| table.frames[frames[at]].functions.last().map(|(name, _)| name.as_str());
    let program = module(last);
    if name(last) != Some("_start") {
        return None;
    }
    // Below `_start` the library's frames, and below those main.
    let library = (0..last).rev().take_while(|at| module(*at) != program).count();
    let main = last.checked_sub(library + 1)?;
    let is_unnamed = name(main).is_some_and(|name| name.contains("+0x"));
    (library > 0 && is_unnamed).then_some(main)
}

/// A system call's name, or its number where this program does not know it.
fn syscall(number: u32) -> String {
    let name = syscalls::Sysno::new(number as usize);
    name.map_or_else(|| format!("system call {number}"), |name| name.name().to_owned())
}

fn first(share: Share) -> u32 {
    match share {
        Share::Fixed(every) => every.max(1),
        Share::ByCost => 1,
    }
}

/// By cost: within a moment each so many copies make the next ones half as likely to be told.
fn doubling(share: Share) -> Option<u32> {
    (share == Share::ByCost).then_some(64)
}

/// How long a process ran so far (proc_pid_stat(5), fields 14 and 15).
fn ran_ns(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace().skip(11);
    let ticks = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    Some(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

fn own_cpu_ns() -> u64 {
    clock_ns(rustix::time::ClockId::ThreadCPUTime)
}

fn monotonic_ns() -> u64 {
    clock_ns(rustix::time::ClockId::Monotonic)
}

fn clock_ns(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
