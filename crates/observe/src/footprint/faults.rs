// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which pages were written after a fork, and in which order, by the faults that the writes made.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::order::{Ahead, Epoch, Hindsight, nearby, play};
use super::reading::{Reading, join};
use super::shares::{add_files, add_mappings};
use super::spans::{Moment, Spans, Writer};
use super::tally::{Fate, Tally};
use crate::clock::monotonic_ns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteFault {
    /// When (CLOCK_MONOTONIC).
    pub time_ns: u64,
    pub address: u64,
    pub pid: i32,
    /// The page was there and write-protected: a copy, or a page that nobody shares any more.
    pub was_present: bool,
}

pub trait Source {
    /// Tell those of `pid` from now on, and of all that it forks.
    fn watch(&mut self, pid: i32);
    /// Make room: `pid` has ended.
    fn forget(&mut self, pid: i32);
    /// Gives those that came since the last call, in their order.
    fn read(&mut self, take: &mut dyn FnMut(WriteFault));
    /// When `child` was forked (CLOCK_MONOTONIC), if that was seen.
    fn forked_at(&self, child: i32) -> Option<u64>;
    /// When `child` ended, if that was seen: its parent's later writes copy nothing.
    fn ended_at(&self, child: i32) -> Option<u64>;
    /// Those that ended so long ago that nobody asks any more: they are forgotten, and told once.
    fn take_gone(&mut self, now_ns: u64) -> Vec<i32>;
    /// From when on faults may still be asked about, by the forks that were seen; `None` where
    /// forks are not seen, or not all of them.
    fn asked_since(&self, now_ns: u64) -> Option<u64>;
    /// Nobody asks about the forks so far any more.
    fn settle(&mut self);
    /// What a fault takes longer because it is told: CPU time of whoever makes it; `None` if unknown.
    fn observing_ns(&self) -> Option<f64> {
        None
    }
    /// How many were lost because nobody read them in time; and processes that there was no room
    /// for.
    fn lost(&self) -> u64;
}

/// The policies that are played, with their names in samples.
pub const POLICIES: [(&str, Ahead); 6] = [
    ("next:1", Ahead::Next(1)),
    ("next:15", Ahead::Next(15)),
    ("next:63", Ahead::Next(63)),
    ("ccow:80", Ahead::Coverage(80)),
    ("around", Ahead::Around),
    ("oracle", Ahead::Oracle),
];

/// How often those are dropped that nobody asks about.
const BETWEEN_DROPS_NS: u64 = 1_000_000_000;

/// The write faults of the processes that are followed.
pub struct FaultLog {
    source: Box<dyn Source>,
    by_process: HashMap<i32, Vec<WriteFault>>,
    /// The epoch before, of each parent and whose writes.
    before: HashMap<(i32, Writer), Epoch>,
    policies: Vec<(&'static str, Writer, Hindsight)>,
    read: u64,
    dropped_ns: u64,
}

impl FaultLog {
    /// A log of what `source` tells.
    pub fn new(source: Box<dyn Source>) -> FaultLog {
        let (by_process, before) = (HashMap::new(), HashMap::new());
        FaultLog { source, by_process, before, policies: Vec::new(), read: 0, dropped_ns: 0 }
    }

    /// Log the faults of `pid` as well.
    pub fn watch(&mut self, pid: i32) {
        self.source.watch(pid);
        self.by_process.entry(pid).or_default();
    }

    /// Forgets `pid`, which has ended, and its faults.
    pub fn forget(&mut self, pid: i32) {
        self.drain();
        self.source.forget(pid);
        self.remove(pid);
    }

    fn remove(&mut self, pid: i32) {
        self.by_process.remove(&pid);
        self.before.retain(|(owner, _), _| *owner != pid);
    }

    /// Drops the faults of each process before the time from which on they are needed; all of them
    /// where that is `None`.
    pub fn keep(&mut self, since_ns: impl Fn(i32) -> Option<u64>) {
        for (pid, faults) in &mut self.by_process {
            let since_ns = since_ns(*pid).unwrap_or(u64::MAX);
            let needed = faults.iter().position(|fault| fault.time_ns >= since_ns);
            faults.drain(..needed.unwrap_or(faults.len()));
        }
    }

    /// Takes in what has come, and now and then drops what the source's forks need no longer.
    pub fn drain(&mut self) {
        self.take();
        let now_ns = monotonic_ns();
        if now_ns < self.dropped_ns + BETWEEN_DROPS_NS {
            return;
        }
        self.dropped_ns = now_ns;
        for pid in self.source.take_gone(now_ns) {
            self.remove(pid);
        }
        if let Some(since_ns) = self.source.asked_since(now_ns) {
            self.keep(|_| Some(since_ns));
        }
    }

    fn take(&mut self) {
        let (by_process, read) = (&mut self.by_process, &mut self.read);
        self.source.read(&mut |fault| {
            *read += 1;
            by_process.entry(fault.pid).or_default().push(fault);
        });
    }

    /// What the faults since `fork` say of its two sides; plays the policies as well.
    pub fn judge(
        &mut self,
        fork: &Moment,
        parent: Option<(i32, &Reading)>,
        child: Option<(i32, &Reading)>,
    ) -> Vec<(Writer, Tally)> {
        let page_bytes = fork.reading.page_bytes;
        let shared = |placed: &super::reading::Placed| placed.address / page_bytes;
        let shared: BTreeSet<u64> = fork.reading.private_pages().map(|p| shared(&p)).collect();
        let mut either: BTreeSet<u64> = BTreeSet::new();
        let mut seen = Vec::new();
        let sides = [(Writer::Parent, parent), (Writer::Child, child)];
        // A look at a process that goes on comes some time after its fork.
        let forked_ns = child.and_then(|(pid, _)| self.source.forked_at(pid));
        let since_ns = forked_ns.unwrap_or(u64::MAX).min(fork.monotonic_ns);
        let ended_ns = child.and_then(|(pid, _)| self.source.ended_at(pid));
        let while_shared = since_ns..ended_ns.unwrap_or(u64::MAX);
        let owner = parent.or(child).map_or(0, |(pid, _)| pid);
        for (writer, side) in sides {
            let Some((pid, now)) = side else { continue };
            let all = self.writes(pid, &while_shared, page_bytes);
            // What was given back and is written anew is a write, and no copy.
            let written: BTreeSet<u64> = all.iter().map(|(page, _)| *page).collect();
            let copies = all.into_iter().filter(|(_, was_present)| *was_present);
            let writes: Vec<u64> = copies.map(|(page, _)| page).collect();
            let mut tally = tally(&fork.reading, now, &written);
            tally.nearby_pages = Some(nearby(&writes).intersection(&shared).count() as u64);
            seen.push((writer, tally));
            either.extend(&written);
            let epoch = Epoch { shared: shared.clone(), writes };
            let before = self.before.get(&(owner, writer));
            for (name, policy) in POLICIES {
                let result = play(policy, &epoch, before, page_bytes);
                self.policies.push((name, writer, result));
            }
            self.before.insert((owner, writer), epoch);
        }
        let mut both = Tally::default();
        for placed in fork.reading.private_pages() {
            let is_written = either.contains(&(placed.address / page_bytes));
            let fate = Fate { was_there: true, is_there: true, is_written };
            both.add(placed.address, placed.kind, fate);
        }
        add_mappings(&mut both, &fork.reading);
        seen.push((Writer::Either, both));
        self.source.settle();
        seen
    }

    /// Writes between two times in their order, by page number and whether the page was there.
    fn writes(&self, pid: i32, when_ns: &Range<u64>, page_bytes: u64) -> Vec<(u64, bool)> {
        let all = self.by_process.get(&pid).into_iter().flatten();
        let then = all.filter(|fault| when_ns.contains(&fault.time_ns));
        then.map(|fault| (fault.address / page_bytes, fault.was_present)).collect()
    }

    /// Hands over what the policies came to, and what was lost.
    pub fn finish(self, spans: &mut Spans) {
        for (name, writer, result) in self.policies {
            spans.policies.entry((name.to_owned(), writer)).or_default().add(result);
        }
        spans.faults_read = Some(self.read);
        spans.faults_lost = Some(self.source.lost());
        spans.observing_ns = self.source.observing_ns();
    }
}

/// One side's pages: of those that the fork shared the ones that faulted, and the new ones.
fn tally(fork: &Reading, now: &Reading, written: &BTreeSet<u64>) -> Tally {
    let mut tally = Tally::default();
    for (address, before, after) in join(fork.private_pages(), now.private_pages()) {
        let (was_there, is_there) = (before.is_some(), after.is_some());
        let is_new = !was_there && after.is_some_and(|placed| placed.is_anonymous());
        let is_written = is_new || written.contains(&(address / fork.page_bytes));
        let Some(placed) = after.or(before) else { continue };
        tally.add(address, placed.kind, Fate { was_there, is_there, is_written });
    }
    add_files(&mut tally, now);
    add_mappings(&mut tally, fork);
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use cowlab_machine::process::Page;
    use cowlab_machine::process::mappings;

    /// Faults, and since when they are asked about.
    struct Saved(Vec<WriteFault>, Option<u64>);

    impl Source for Saved {
        fn watch(&mut self, _: i32) {}

        fn forget(&mut self, _: i32) {}

        fn take_gone(&mut self, _: u64) -> Vec<i32> {
            Vec::new()
        }

        fn asked_since(&self, _: u64) -> Option<u64> {
            self.1
        }

        fn settle(&mut self) {}

        fn read(&mut self, take: &mut dyn FnMut(WriteFault)) {
            self.0.drain(..).for_each(take);
        }

        fn forked_at(&self, _: i32) -> Option<u64> {
            None
        }

        fn ended_at(&self, _: i32) -> Option<u64> {
            Some(115)
        }

        fn lost(&self) -> u64 {
            3
        }
    }

    fn fault(time_ns: u64, address: u64, pid: i32, was_present: bool) -> WriteFault {
        WriteFault { time_ns, address, pid, was_present }
    }

    fn kept(log: &FaultLog, pid: i32) -> Vec<u64> {
        log.by_process.get(&pid).into_iter().flatten().map(|fault| fault.time_ns).collect()
    }

    #[test]
    fn faults_that_nobody_asks_about_are_dropped() {
        let faults: Vec<WriteFault> =
            (100..110).map(|ns| fault(ns, 0x1000, 1 + (ns % 2) as i32, true)).collect();
        let mut log = FaultLog::new(Box::new(Saved(faults.clone(), None)));
        log.drain();
        assert_eq!((kept(&log, 1).len(), kept(&log, 2).len()), (5, 5));
        log.keep(|pid| (pid == 1).then_some(104));
        assert_eq!((kept(&log, 1), kept(&log, 2)), (vec![104, 106, 108], Vec::new()));
        log.forget(1);
        assert!(!log.by_process.contains_key(&1));
        // By the source's own forks.
        let mut log = FaultLog::new(Box::new(Saved(faults, Some(107))));
        log.drain();
        assert_eq!((kept(&log, 1), kept(&log, 2)), (vec![108], vec![107, 109]));
        assert_eq!(log.read, 10);
    }

    #[test]
    fn faults_after_the_fork_of_pages_that_it_shared_count() {
        let maps = "10000-20000 rw-p 00000000 00:00 0 [heap]\n";
        let pages = |count| vec![(0x10000, vec![Page(1 << 63); count])];
        let reading = |count| Reading::of(mappings::decode(maps).unwrap(), pages(count), 4096);
        let fork = Moment::of(reading(4), 100);
        let faults = vec![
            fault(50, 0x12000, 1, true),
            fault(110, 0x10010, 1, true),
            fault(111, 0x11010, 1, true),
            fault(112, 0x10010, 2, true),
            fault(113, 0x14000, 2, false),
            fault(116, 0x13000, 1, true),
        ];
        let mut log = FaultLog::new(Box::new(Saved(faults, None)));
        log.watch(1);
        log.drain();
        let (parent, child) = (reading(4), reading(5));
        let seen = log.judge(&fork, Some((1, &parent)), Some((2, &child)));
        let of = |wanted| seen.iter().find(|(w, _)| *w == wanted).unwrap().1.total();
        assert_eq!(of(Writer::Parent).cow_pages, 2);
        assert_eq!((of(Writer::Child).cow_pages, of(Writer::Child).new_pages), (1, 1));
        assert_eq!((of(Writer::Either).cow_pages, of(Writer::Either).start_pages), (2, 4));
        let mut spans = Spans::default();
        log.finish(&mut spans);
        let next = spans.policies[&("next:1".to_owned(), Writer::Parent)];
        assert_eq!((next.writes, next.faults, next.hits), (2, 1, 1));
        assert_eq!((spans.faults_read, spans.faults_lost), (Some(6), Some(3)));
    }
}
