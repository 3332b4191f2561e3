// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes the copies in as they are told, unwinds their stacks, and names the functions at the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::blame::apart::apart;
use crate::blame::image::Image;
use crate::blame::names::{functions, unnamed};
use crate::blame::space::{End, Place, Recorded, Space, Stack, Unwinding};
use crate::bpf::{BpfError, Copied, FaultMode, Lost, Observer, ObserverSettings};
use cowlab_machine::process::{Target, children};
use cowlab_store::stacks::{Copy, CopyStacks, Frame};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::blame::family::Family;
use crate::blame::made::MadeCode;
use crate::blame::pace::{Pace, Share};
use crate::clock::{monotonic_ns, own_cpu_ns};

pub const LOOK: Duration = Duration::from_millis(10);
/// How often the share that is told is set anew.
const PACE: Duration = Duration::from_millis(100);

/// Copies that are taken in at once, so that a look ends.
const LOOK_MOST: usize = 16_384;
/// Copies that are kept. Where more come, those that are there are thinned out.
const KEPT_MOST_BYTES: usize = 48 << 20;
/// Threads whose stacks' ends are known.
const THREADS_MOST: usize = 65_536;

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
    /// What of the targets was not read, and why.
    pub left_out: Vec<String>,
}

pub struct Collector {
    observer: Observer,
    sees_kernel: Option<String>,
    family: Family,
    unwinding: Unwinding,
    /// Names that many copies have.
    texts: FxHashSet<Arc<str>>,
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
    /// Their frames are positions of places.
    copies: Vec<Copy>,
    copies_bytes: usize,
    began_ns: u64,
    /// What of this process's time went into copies that came: a rarer share spares that. Looks at which none
    /// came cost the same whatever the share is.
    told_ns: u64,
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
            texts: FxHashSet::default(),
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
            copies_bytes: 0,
            began_ns: own_cpu_ns(),
            told_ns: 0,
        })
    }

    /// Watches a process and all that descend from it, now and later.
    pub fn watch(&mut self, target: &Target) -> Result<(), BpfError> {
        self.watch_one(target)?;
        let mut parents = vec![target.pid()];
        while let Some(parent) = parents.pop() {
            let children = Target::open(parent).and_then(|parent| children::pids(&parent));
            for child in children.unwrap_or_default() {
                let Ok(child) = Target::open(child) else { continue };
                self.watch_one(&child)?;
                if child.forked_by().is_some() {
                    self.family.has_forked(parent.cast_unsigned());
                }
                parents.push(child.pid());
            }
        }
        Ok(())
    }

    fn watch_one(&mut self, target: &Target) -> Result<(), BpfError> {
        let pid = target.pid().cast_unsigned();
        self.observer.watch(pid)?;
        self.ran_before.insert(pid, ran_ns(pid).unwrap_or(0));
        if let Some(start) = target.stack_start() {
            self.observer.stack_starts(pid, start, false);
        }
        self.family.admit(target, monotonic_ns());
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
        let looking_ns = self.family.cpu_ns();
        if self.take() > 0 {
            let looked_ns = self.family.cpu_ns() - looking_ns;
            self.told_ns += own_cpu_ns().saturating_sub(began_ns) + looked_ns;
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
                self.observer.stack_starts(pid, target.stack_start().unwrap_or(0), false);
            }
        }
        let (own, count) = (std::process::id(), came.len());
        for copied in came.into_iter().filter(|copied| copied.tgid != own) {
            let copy = self.told(copied, now_ns);
            self.copies_bytes += kept_bytes(&copy);
            self.copies.push(copy);
            if self.copies_bytes >= KEPT_MOST_BYTES {
                self.thin_out();
            }
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
        for copy in &mut self.copies {
            copy.every = copy.every.saturating_mul(2);
        }
        self.copies_bytes = self.copies.iter().map(kept_bytes).sum();
    }

    fn told(&mut self, copied: Copied, now_ns: u64) -> Copy {
        let (pid, time_ns) = (copied.tgid, copied.time_ns);
        let (process, writer, since_fork_ns) = self.family.known(pid, time_ns);
        let mut space = self.family.space(pid, time_ns, now_ns);
        let mut stack = self.unwind(space.as_deref(), &copied);
        let is_known = |space: &Arc<Space>| space.region(copied.address).is_some();
        if !space.as_ref().is_some_and(is_known) || stack.end == End::NoTables {
            // What was mapped since.
            if let Some(newer) = self.family.look_again(pid, time_ns, now_ns) {
                stack = self.unwind(Some(&newer), &copied);
                space = Some(newer);
            }
        }
        let region = space.as_ref().and_then(|space| space.region(copied.address));
        let [_, sp, _] = copied.registers;
        if self.threads.len() > THREADS_MOST {
            self.threads.clear();
        }
        if copied.tid != pid
            && let Some(stack) = space.as_ref().and_then(|space| space.region(sp))
            && self.threads.insert(copied.tid, stack.range.end) != Some(stack.range.end)
        {
            self.observer.stack_starts(copied.tid, stack.range.end, true);
        }
        Copy {
            time_ns,
            process,
            pid,
            tid: copied.tid,
            writer: self.text(&writer.to_string()),
            since_fork_ns,
            address: copied.address,
            mapping: region.map_or_else(Arc::default, |region| Arc::clone(&region.name)),
            offset_bytes: region.map(|of| copied.address - of.range.start),
            syscall: copied.syscall.map(|number| self.text(&syscall(number))),
            every: copied.every,
            // As far as it is known before functions have names.
            is_whole: stack.end == End::Whole,
            frames: stack.places.into(),
        }
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    fn unwind(&mut self, space: Option<&Space>, copied: &Copied) -> Stack {
        match space {
            Some(space) if !copied.is_32_bit => {
                let (start, upper) = &copied.upper;
                let (stack, upper) = (&copied.stack[..], (*start, &upper[..]));
                let recorded = Recorded { registers: copied.registers, stack, upper };
                space.unwind(&mut self.unwinding, copied.tgid, &recorded)
            }
            _ => {
                let place = self.unwinding.in_memory(copied.tgid, copied.registers[0]);
                Stack { places: vec![place], end: End::NoTables }
            }
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
        let looking_ns = self.family.cpu_ns();
        let reading_ns = own_cpu_ns().saturating_sub(self.began_ns) + looking_ns;
        let mut left_out = self.family.left_out();
        let places = &self.unwinding.places;
        let is_made = |place: &Place| match place {
            Place::Memory(_, address) => Some(*address),
            Place::File(..) => None,
        };
        let mut addresses: Vec<u64> = places.iter().filter_map(is_made).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let made = self.family.made_code(&addresses);
        let hints = self.family.hints(&made);
        let (mut frames, unread) = frames(places, &made);
        for (count, what) in
            [(made.refused, "processes' notes of code that they made"), (unread, "files' symbols")]
        {
            if count > 0 {
                left_out.push(format!("{count} {what} took too much memory or time to read"));
            }
        }
        for copy in self.copies.iter_mut().filter(|copy| copy.is_whole) {
            if let Some(main) = main_frame(&frames, &copy.frames) {
                rename(&mut frames[main], "main");
            }
            copy.is_whole =
                copy.frames.last().is_some_and(|last| is_outermost(&frames[*last as usize]));
        }
        Collected {
            stacks: CopyStacks { frames, copies: self.copies },
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
            left_out,
        }
    }
}

/// What keeping a copy takes.
fn kept_bytes(copy: &Copy) -> usize {
    size_of::<Copy>() + size_of_val(&*copy.frames)
}

/// The places with the names of their functions; and of how many files those were not read.
fn frames(places: &[Place], made: &MadeCode) -> (Vec<Frame>, usize) {
    // Of each file, positions and addresses.
    type Wanted<'a> = (&'a Image, Vec<(usize, u64)>);
    let mut files: FxHashMap<*const Image, Wanted<'_>> = FxHashMap::default();
    let mut frames: Vec<Frame> = Vec::with_capacity(places.len());
    for (at, place) in places.iter().enumerate() {
        let (module, address, name) = match place {
            Place::File(image, address) => {
                let file = files.entry(Arc::as_ptr(image)).or_insert((image, Vec::new()));
                file.1.push((at, *address));
                (image.path.as_str(), *address, String::new())
            }
            Place::Memory(pid, address) => {
                ("", *address, made.name(*pid, *address).unwrap_or(UNNAMED).to_owned())
            }
        };
        frames.push(Frame { module: module.to_owned(), address, functions: vec![(name, None)] });
    }
    let mut files: Vec<_> = files.into_values().collect();
    // If not all can be read, then those that have most.
    files.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    let named = apart(&files, |(image, places)| {
        functions(image, &places.iter().map(|(_, address)| *address).collect::<Vec<_>>())
    });
    let is_read = |names: &&Option<(Vec<_>, bool)>| matches!(names, Some((_, true)));
    let unread = named.len() - named.iter().filter(is_read).count();
    for ((image, places), names) in files.iter().zip(named) {
        let mut names = names.map(|(names, _)| names).unwrap_or_default().into_iter();
        for (at, address) in places {
            let unknown = || vec![(unnamed(image, *address), None)];
            frames[*at].functions = names.next().unwrap_or_else(unknown);
        }
    }
    (frames, unread)
}

/// Whether a frame is where programs and threads begin.
fn is_outermost(frame: &Frame) -> bool {
    let outer = frame.functions.last();
    outer.is_some_and(|(name, _)| OUTERMOST.contains(&name.as_str()))
}

/// Gives its outer function another name.
fn rename(frame: &mut Frame, name: &str) {
    if let Some((last, _)) = frame.functions.last_mut() {
        name.clone_into(last);
    }
}

/// Where `main` is, in a whole stack of a program that nobody wrote symbols for: `_start` calls the C
/// library, which calls main.
fn main_frame(all: &[Frame], frames: &[u32]) -> Option<usize> {
    let last = frames.len().checked_sub(1)?;
    let frame = |at: usize| &all[frames[at] as usize];
    let name = |at: usize| frame(at).functions.last().map(|(name, _)| name.as_str());
    if name(last) != Some("_start") {
        return None;
    }
    // Below `_start` the library's frames, and below those main.
    let library = (0..last).rev().take_while(|at| frame(*at).module != frame(last).module).count();
    let main = last.checked_sub(library + 1)?;
    let is_unnamed = name(main).is_some_and(|name| name.contains("+0x"));
    (library > 0 && is_unnamed).then_some(frames[main] as usize)
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
