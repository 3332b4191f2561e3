// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the machine and tells the book.

mod events;
mod pace;

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use cowlab_machine::{ProcessError, Room, Root, Stat};
use rustix::time::ClockId;

use super::attach::{Options, attach};
use super::frame::{Frame, Own, Sees};
use super::reading::{self, Reading};
use super::sample::{self, Sample};
use super::walks::Walks;
use super::{Book, Wanted, WantedError};
use crate::bpf::{Counts, Observer};
use crate::clock::{monotonic_ns, nanoseconds};
use cowlab_machine::process::Target;
use cowlab_machine::process::children::children;
use pace::Pace;

/// Processes of each kind that are read at one refresh; of more, each has its turn.
const READ_AT_ONCE: usize = 256;
/// Of children, where events take more time than they may.
const READ_ANYWAY: usize = 32;
/// How often it is looked whether new processes belong to a name or a group.
const FIND_EVERY: Duration = Duration::from_secs(5);
/// Events are read at least so often, so that little is lost while nobody is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Over budget, a frame counts one waiting event for each such time since the last frame: a thousand a second, in about
/// 1 ms of CPU time.
const COUNTED_EACH_NS: u64 = 1_000_000;

pub struct Gatherer {
    wanted: Wanted,
    book: Book,
    observer: Option<Observer>,
    sees: Sees,
    walks: Walks,
    pace: Pace,
    /// Processes whose memory may not be looked at: named once.
    refused: Option<String>,
    found_at: Instant,
    frame_at: Option<Instant>,
    cpu_ns: u64,
    turn: HashMap<bool, usize>,
    is_first: bool,
}

impl Gatherer {
    /// Begins: attaches what may be attached, and notes what is there. Fails if there is nothing to
    /// watch.
    pub fn begin(wanted: Wanted, options: &Options) -> Result<Gatherer, WantedError> {
        // Before anything is attached: a wrong name costs nothing.
        let found = match wanted.find() {
            Err(WantedError::NoSuchName(_) | WantedError::EmptyCgroup(_))
                if options.may_be_empty =>
            {
                Vec::new()
            }
            found => found?,
        };
        let (observer, sees) = attach(&wanted, options);
        let page_bytes = rustix::param::page_size() as u64;
        let mut gatherer = Gatherer {
            book: Book::new(page_bytes, wanted == Wanted::All),
            wanted,
            observer,
            sees,
            walks: Walks::new(Instant::now()),
            pace: Pace::new(Instant::now()),
            refused: None,
            found_at: Instant::now(),
            frame_at: None,
            cpu_ns: 0,
            turn: HashMap::new(),
            is_first: true,
        };
        gatherer.take_in(found);
        Ok(gatherer)
    }

    pub fn sees(&self) -> &Sees {
        &self.sees
    }

    /// Whether nothing is left that was to be watched.
    pub fn is_over(&self) -> bool {
        // Its children may live on, as processes of their own.
        self.wanted.pids().is_some_and(|pids| !pids.iter().any(|pid| self.book.knows(*pid)))
    }

    /// Books events as they come, until `deadline` or until `stop` says so.
    pub fn until(&mut self, deadline: Instant, stop: impl Fn() -> bool) {
        self.pace.mark();
        while !stop() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // While a child copies, its next walk may be due before the next refresh.
            let walk_in = match self.book.has_sharing() {
                false => LOOK_EVERY,
                true => self.walks.wait(),
            };
            let pause = left.min(LOOK_EVERY).min(walk_in);
            match &self.observer {
                Some(observer) if self.pace.allows() => observer.wait(pause),
                // Late already, it is not woken by each event either.
                _ => std::thread::sleep(pause),
            }
            self.take_events();
            self.walk();
            // Walks have a budget of their own.
            self.pace.mark();
        }
    }

    /// Reads everything and says what is known.
    pub fn frame(&mut self) -> Frame {
        let now = Instant::now();
        let interval_ns = self.frame_at.map_or(0, |at| now.duration_since(at).as_nanos() as u64);
        self.frame_at = Some(now);
        self.pace.mark();
        self.take_events();
        self.count_late((interval_ns / COUNTED_EACH_NS).clamp(10, 1000) as usize);
        self.find_more();
        self.read_all();
        if !self.sees.events {
            self.find_children();
        }
        self.walk();
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let own = self.own(interval_ns);
        let mut sees = self.sees.clone();
        sees.missing.extend(self.refused.clone());
        let room = Room::read(&Root::default());
        let frame =
            self.book.frame(monotonic_ns(), unix.as_nanos() as i64, interval_ns, sees, own, room);
        for pid in self.book.drop_ended() {
            self.forget(pid);
        }
        self.is_first = false;
        frame
    }

    /// A child's epoch ends with what its parent and it have just now.
    fn read_with_parent(&mut self, pid: u32) {
        if let Some(parent) = self.book.parent(pid) {
            self.read_one(parent);
        }
        let found = self.look_even_ended(pid);
        self.keep(pid, found);
    }

    /// Reads a process, also one that has ended: its end is told after what it forked before, or
    /// found by a refresh.
    fn read_one(&mut self, pid: u32) {
        let found = self.look(pid).or_else(|| self.look_even_ended(pid));
        self.keep(pid, found);
    }

    fn keep(&mut self, pid: u32, found: Option<(Stat, Reading)>) {
        match found {
            Some((stat, reading)) if self.is_same(pid, &stat) => self.book.read(pid, reading, None),
            Some(_) => {}
            // BPF keeps its counts until it is told to forget them.
            None => {
                if let Some(counts) = self.counts(pid) {
                    self.book.counted(pid, counts);
                }
            }
        }
    }

    /// Whether that is the process in the book, as far as is known.
    fn is_same(&self, pid: u32, stat: &Stat) -> bool {
        self.book.start_ticks(pid).is_none_or(|start| start == stat.start_ticks)
    }

    fn counts(&self, pid: u32) -> Option<Counts> {
        self.observer.as_ref().and_then(|observer| observer.counts(pid))
    }

    fn look(&self, pid: u32) -> Option<(Stat, Reading)> {
        let (stat, mut reading) = reading::read(pid)?;
        reading.counts = self.counts(pid);
        Some((stat, reading))
    }

    fn look_even_ended(&self, pid: u32) -> Option<(Stat, Reading)> {
        let (stat, mut reading) = reading::read_even_ended(pid)?;
        reading.counts = self.counts(pid);
        Some((stat, reading))
    }

    /// Who a child is that was just forked, and what it has. One that was reaped since has what BPF
    /// counted.
    fn look_at_child(&self, pid: u32) -> (Option<Stat>, Reading) {
        match self.look_even_ended(pid) {
            Some((stat, reading)) => (Some(stat), reading),
            None => (None, Reading { counts: self.counts(pid), ..Reading::default() }),
        }
    }

    /// Reads a process for a frame, or notices that it has ended, or that another has its pid.
    fn refresh(&mut self, pid: u32) {
        if self.read_alive(pid) {
            return;
        }
        // Whatever it did before its end has been told by now, and comes before it.
        self.take_events();
        // Where all is watched, forks of one that is gone are still counted, by its name.
        if self.wanted != Wanted::All && self.book.parent(pid).is_none() {
            self.count_late(usize::MAX);
        }
        if self.book.knows(pid) && !self.read_alive(pid) {
            self.end(pid, monotonic_ns());
        }
    }

    /// Reads it with its rates; whether it is alive.
    fn read_alive(&mut self, pid: u32) -> bool {
        let found = self.look(pid).filter(|(stat, _)| self.is_same(pid, stat));
        let Some((_, reading)) = found else { return false };
        self.book.read(pid, reading, Some(monotonic_ns()));
        true
    }

    fn forget(&mut self, pid: u32) {
        self.walks.forget(pid);
        if let Some(observer) = &mut self.observer {
            observer.forget(pid);
        }
    }

    fn read_all(&mut self) {
        for is_child in [false, true] {
            let pids = self.book.alive(is_child);
            for (number, pid) in self.in_turn(is_child, pids).into_iter().enumerate() {
                if is_child && number >= READ_ANYWAY && !self.pace.allows() {
                    break;
                }
                self.refresh(pid);
            }
        }
    }

    /// As many as are read at once, another part of them each time.
    fn in_turn(&mut self, is_child: bool, mut pids: Vec<u32>) -> Vec<u32> {
        if pids.len() > READ_AT_ONCE {
            let turn = self.turn.entry(is_child).or_default();
            let count = pids.len();
            pids.rotate_left(*turn % count);
            *turn = (*turn + READ_AT_ONCE) % count;
            pids.truncate(READ_AT_ONCE);
        }
        pids
    }

    /// Processes that belong to what is wanted and started since.
    fn find_more(&mut self) {
        if self.wanted.pids().is_some() || self.found_at.elapsed() < FIND_EVERY {
            return;
        }
        self.found_at = Instant::now();
        let words = match &self.wanted {
            Wanted::Any(all) => &all[..],
            one => std::slice::from_ref(one),
        };
        let found = words.iter().filter_map(|word| word.find().ok()).flatten().collect();
        self.take_in(found);
    }

    fn take_in(&mut self, found: Vec<(u32, Stat)>) {
        for (pid, stat) in parents_first(found) {
            if self.book.knows(pid) {
                continue;
            }
            if let Some(observer) = &mut self.observer
                && self.wanted != Wanted::All
                && let Err(error) = observer.watch(pid)
            {
                self.refused = Some(error.to_string());
            }
            let reading = self.look(pid).map_or_else(Reading::default, |(_, reading)| reading);
            if let Some((parent, of_parent)) = self.unwatched_parent(pid) {
                let parent = (parent, &of_parent.0, of_parent.1);
                self.book.add_worker((pid, &stat, reading), parent);
                continue;
            }
            // The same name: a worker, which was forked; else it executed something.
            let is_worker = |parent: &u32| self.book.name(*parent) == Some(stat.name.as_str());
            match u32::try_from(stat.parent).ok().filter(is_worker) {
                Some(parent) if self.wanted != Wanted::All => {
                    self.book.add_sharing(pid, &stat, reading, parent);
                }
                _ => self.book.add(pid, &stat, reading, None),
            }
        }
        if self.is_first && self.wanted != Wanted::All {
            self.find_children();
        }
    }

    /// Of a worker that was named by its pid, the process that forked it, unless that is watched too.
    fn unwatched_parent(&self, pid: u32) -> Option<(u32, (Stat, Reading))> {
        self.wanted.pids()?;
        let parent = Target::open(pid.cast_signed()).ok()?.forked_by()?.pid().cast_unsigned();
        Some((parent, self.look(parent).filter(|_| !self.book.knows(parent))?))
    }

    /// Children by the kernel's own lists: those that were there before, and all of them where
    /// forks are not told.
    fn find_children(&mut self) {
        for parent in self
            .book
            .alive(false)
            .into_iter()
            .filter(|pid| self.book.is_shown(*pid))
            .collect::<Vec<_>>()
        {
            let Ok(target) = Target::open(parent.cast_signed()) else { continue };
            let Ok(found) = children(&target) else { continue };
            for child in found {
                let pid = child.pid.cast_unsigned();
                if self.book.knows(pid) || pid == std::process::id() {
                    continue;
                }
                if let Some(observer) = &mut self.observer {
                    let _ = observer.watch(pid);
                }
                let reading = self.look(pid).map_or_else(Reading::default, |(_, reading)| reading);
                if child.stat.name == target.name() {
                    self.book.add_sharing(pid, &child.stat, reading, parent);
                } else {
                    // As after an exec that is told.
                    let parent = Some(parent).filter(|_| self.wanted != Wanted::All);
                    self.book.add(pid, &child.stat, reading, parent);
                }
            }
        }
    }

    /// Walks through the page tables of children, the newest first, while there is time for it.
    fn walk(&mut self) {
        let mut began = Instant::now();
        if !self.walks.are_due(began) {
            return;
        }
        for pid in self.book.sharing() {
            if !self.walks.may_go_on() {
                break;
            }
            if self.walks.may_try(pid) {
                self.try_walk(pid);
                let now = Instant::now();
                self.walks.spend(now - std::mem::replace(&mut began, now));
            }
        }
        self.walks.spend(began.elapsed());
    }

    fn try_walk(&mut self, pid: u32) {
        // What is saved here pays for the walks through the next child.
        self.read_with_parent(pid);
        if !self.book.has_news(pid, monotonic_ns()) {
            return;
        }
        match walk_one(pid) {
            Ok(sample) => {
                self.read_with_parent(pid);
                self.book.walked(pid, sample, monotonic_ns());
            }
            Err(ProcessError::Vanished { .. }) => {}
            Err(error) => {
                self.walks.failed(pid, &error);
                self.refused = Some(format!("memory copied: {error}"));
            }
        }
    }

    fn own(&mut self, interval_ns: u64) -> Own {
        let cpu_ns = nanoseconds(ClockId::ProcessCPUTime);
        let spent_ns = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        let lost = self.observer.as_ref().map(Observer::lost);
        Own {
            cpu_ns,
            cpu_share: (interval_ns > 0).then(|| spent_ns as f64 / interval_ns as f64),
            rss_bytes: reading::read(std::process::id()).and_then(|(_, own)| own.rss_bytes),
            lost_events: lost.map(|lost| lost.events),
            unread_events: lost.map(|_| self.pace.unread_events),
            skipped_frames: None,
            lost_processes: lost.map(|lost| lost.processes),
        }
    }
}

/// A worker is its parent's only where that is known already, and numbers begin anew after the largest.
fn parents_first(mut found: Vec<(u32, Stat)>) -> Vec<(u32, Stat)> {
    let parents: HashMap<u32, u32> =
        found.iter().filter_map(|(pid, stat)| Some((*pid, stat.parent.try_into().ok()?))).collect();
    let depth = |pid: &u32| {
        let above = std::iter::successors(parents.get(pid), |parent| parents.get(parent));
        // Processes come and go while they are read: a circle must not catch this.
        above.take(parents.len()).count()
    };
    found.sort_by_cached_key(|(pid, _)| depth(pid));
    found
}

fn walk_one(pid: u32) -> Result<Sample, ProcessError> {
    sample::sample(&Target::open(pid.cast_signed())?)
}

#[cfg(test)]
mod tests;
