// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What lies between two moments of a process, and all such spans of a run together.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cowlab_machine::ProcessError;
pub use cowlab_schema::Writer;
pub use cowlab_schema::footprint::Between;

use super::copy::{Copy, compare};
use super::method::Method;
use super::order::Hindsight;
use super::reading::{Placed, Reading, join};
use super::shares;
use super::tally::{Fate, Tally};
use crate::clock::monotonic_ns;
use cowlab_machine::process::Pagemap;
use cowlab_machine::process::{Target, ThreadTimes};

/// A moment of a process, to which later ones are compared.
pub struct Moment {
    pub reading: Reading,
    pagemap: Option<Pagemap>,
    /// Their bytes, where the method compares them.
    pub copy: Option<Copy>,
    pub at: Instant,
    pub unix_ns: i64,
    /// When, on the kernel's clock of events.
    pub monotonic_ns: u64,
    /// Minor faults of the process so far.
    pub minor_faults: u64,
    /// What the threads of the process that forks did so far.
    pub threads: Option<BTreeMap<i32, ThreadTimes>>,
}

impl Moment {
    /// A moment made of parts, for tests.
    pub fn of(reading: Reading, monotonic_ns: u64) -> Moment {
        let (at, unix_ns) = (Instant::now(), 0);
        let (pagemap, copy, minor_faults, threads) = (None, None, 0, None);
        Moment { reading, pagemap, copy, at, unix_ns, monotonic_ns, minor_faults, threads }
    }

    /// Fails if `of` has ended, or has another program's memory by now.
    pub fn check_memory(&self, of: &Target) -> Result<(), ProcessError> {
        match self.pagemap.as_ref().is_none_or(Pagemap::is_current) {
            true => Ok(()),
            false => Err(of.lost_memory()),
        }
    }
}

impl Moment {
    /// Looks at `of` now, and copies its bytes for a method that compares them.
    pub fn take(of: &Target, method: Method) -> Result<Moment, ProcessError> {
        let (at, monotonic_ns) = (Instant::now(), monotonic_ns());
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut pagemap = Pagemap::open(of)?;
        let reading = Reading::take(of, &mut pagemap)?;
        let copies = method == Method::Snapshot;
        let copy = if copies { Some(Copy::take(of, &reading)?) } else { None };
        let (pagemap, unix_ns) = (Some(pagemap), since.as_nanos() as i64);
        let minor_faults = of.stat()?.minor_faults;
        let threads = of.threads();
        Ok(Moment { reading, pagemap, copy, at, unix_ns, monotonic_ns, minor_faults, threads })
    }
}

/// What the threads of a process did between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// CPU time of the thread that writes; `None` where several do.
    pub writer_ns: Option<u64>,
    /// CPU time of the others.
    pub others_ns: u64,
}

/// Of the faults, so many are one thread's where that one is the writer.
const MOST_FAULTS: f64 = 0.9;

/// Threads that run less than that are asleep but for housekeeping.
const LEAST_THREADS: f64 = 0.02;

impl Work {
    pub fn between(
        before: &BTreeMap<i32, ThreadTimes>,
        now: &BTreeMap<i32, ThreadTimes>,
    ) -> Option<Work> {
        let since = |(tid, now): (&i32, &ThreadTimes)| {
            let before = before.get(tid).copied().unwrap_or_default();
            let faults = now.minor_faults.saturating_sub(before.minor_faults);
            (faults, now.cpu_ns.saturating_sub(before.cpu_ns))
        };
        let did: Vec<(u64, u64)> = now.iter().map(since).collect();
        let (faults, writer_ns) = did.iter().max().copied()?;
        let (all_faults, all_ns) =
            did.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let is_one = faults as f64 >= all_faults as f64 * MOST_FAULTS;
        let others_ns = all_ns - writer_ns;
        Some(Work { writer_ns: is_one.then_some(writer_ns), others_ns })
    }

    /// How many of the others ran at a time, on average; what only keeps house is none.
    pub fn others_running(&self, lasted: Duration) -> f64 {
        let threads = self.others_ns as f64 / lasted.as_nanos().max(1) as f64;
        if threads < LEAST_THREADS { 0.0 } else { threads }
    }
}

#[derive(Debug, Clone)]
pub struct Span {
    /// Of a fork, which program's: see [`Spans::replaced`].
    pub image: u32,
    pub between: Between,
    pub program: String,
    pub writer: Writer,
    pub method: Method,
    pub tally: Tally,
    pub start_unix_ns: i64,
    pub duration_ns: u64,
    /// CPU time of the writer meanwhile, where it was seen.
    pub writer_cpu_ns: Option<u64>,
    /// CPU time of the parent's other threads meanwhile, where it was seen.
    pub others_cpu_ns: Option<u64>,
    /// Pages of which nothing is known: in swap, or unreadable.
    pub unknown_pages: u64,
    /// Of the pages that are gone, those that may have been copied before, unseen: at most so many.
    pub freed_unseen_pages: u64,
    /// Between the last look and the end: what was written then is not seen.
    pub blind_ns: u64,
}

impl Span {
    /// What `writer` did from `since` to now, of which all is known.
    pub fn since(
        since: &Moment,
        between: Between,
        program: &str,
        writer: Writer,
        method: Method,
        tally: Tally,
    ) -> Span {
        Span {
            image: 0,
            between,
            program: program.to_owned(),
            writer,
            method,
            tally,
            start_unix_ns: since.unix_ns,
            duration_ns: since.at.elapsed().as_nanos() as u64,
            writer_cpu_ns: None,
            others_cpu_ns: None,
            unknown_pages: 0,
            freed_unseen_pages: 0,
            blind_ns: 0,
        }
    }
}

/// What one process has between `before` and now, seen by comparison or by the page table alone; and how
/// many pages could not be judged.
pub fn own_tally(
    before: &Moment,
    of: &Target,
    between: Between,
) -> Result<(Tally, u64), ProcessError> {
    let now = Reading::take(of, &mut Pagemap::open(of)?)?;
    before.check_memory(of)?;
    let (mut tally, unknown_pages) = match &before.copy {
        Some(copy) => compared(&before.reading, copy, of, &now)?,
        // What is there at an exec was written by it.
        None if between != Between::Run => {
            (shares::since_exec(&before.reading, &now), shares::unseen(&before.reading, &now))
        }
        None => (shares::since_exec(&before.reading, &now), 0),
    };
    // A fork would meet what is there by now.
    shares::add_mappings(&mut tally, &now);
    Ok((tally, unknown_pages))
}

/// What differs from a copy, as a tally of pages and of bytes, and how many pages are not known.
pub fn compared(
    before: &Reading,
    copy: &Copy,
    of: &Target,
    now: &Reading,
) -> Result<(Tally, u64), ProcessError> {
    let there: Vec<u64> = before.private_pages().map(|placed| placed.address).collect();
    let was_there = |address: u64| there.binary_search(&address).is_ok();
    let difference = compare(of, now, copy, was_there)?;
    let mut tally = difference.tally;
    for (address, before, after) in join(before.private_pages(), now.private_pages()) {
        let (was_there, is_there) = (before.is_some(), after.is_some());
        let is_written = match (before, after) {
            (Some(_), Some(_)) => difference.changed.binary_search(&address).is_ok(),
            (None, Some(after)) => after.is_anonymous(),
            _ => false,
        };
        let Some(Placed { kind, .. }) = after.or(before) else { continue };
        tally.add(address, kind, Fate { was_there, is_there, is_written });
    }
    shares::add_files(&mut tally, now);
    Ok((tally, copy.unread_pages + difference.unread_pages))
}

/// By what spans are added up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub program: String,
    /// Of those of this name, the one that may yet execute another; 0: all others.
    image: u32,
    pub between: Between,
    pub writer: Writer,
    pub method: Method,
}

/// Spans of one key, added up.
#[derive(Debug, Clone)]
pub struct Sum {
    pub spans: u64,
    /// Their pages; the regions are those of the span with the most pages.
    pub tally: Tally,
    /// Pages at the start of that span.
    largest_pages: u64,
    /// When the first began.
    pub start_unix_ns: i64,
    pub duration_ns: u64,
    /// CPU time of the writers meanwhile; `None` once it was not seen of one.
    pub writer_cpu_ns: Option<u64>,
    /// The same of the parents' other threads.
    pub others_cpu_ns: Option<u64>,
    /// Pages of which nothing is known.
    pub unknown_pages: u64,
    /// Pages that may have been copied and given back, unseen: at most so many.
    pub freed_unseen_pages: u64,
    /// The longest time of one without a look before its end.
    pub blind_ns: u64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.spans += other.spans;
        self.tally.add_kinds(&other.tally);
        if other.largest_pages >= self.largest_pages {
            self.largest_pages = other.largest_pages;
            self.tally.regions = other.tally.regions;
        }
        self.start_unix_ns = self.start_unix_ns.min(other.start_unix_ns);
        self.duration_ns += other.duration_ns;
        self.writer_cpu_ns = self.writer_cpu_ns.zip(other.writer_cpu_ns).map(|(a, b)| a + b);
        self.others_cpu_ns = self.others_cpu_ns.zip(other.others_cpu_ns).map(|(a, b)| a + b);
        self.unknown_pages += other.unknown_pages;
        self.freed_unseen_pages += other.freed_unseen_pages;
        self.blind_ns = self.blind_ns.max(other.blind_ns);
    }
}

#[derive(Debug, Clone, Default)]
pub struct Spans {
    pub sums: BTreeMap<Key, Sum>,
    pub forks: u64,
    /// Children that shared their parent's memory: vfork, posix_spawn.
    pub spawns: u64,
    /// Ends that were not seen: killed, or a program replaced without notice.
    pub unseen: u64,
    pub reading_ns: Vec<u64>,
    pub copy_ns: Vec<u64>,
    pub copy_bytes: u64,
    /// Time for which somebody was held to be looked at, how often, and the longest of it.
    pub stopped_ns: u64,
    pub stops: u64,
    /// The longest of somebody who went on.
    pub longest_stop_ns: u64,
    /// The longest before somebody's end or exec.
    pub longest_end_ns: u64,
    /// What policies of copying ahead would have done, by their names and whose writes they were.
    pub policies: BTreeMap<(String, Writer), Hindsight>,
    /// Write faults that were seen, by the method that sees them.
    pub faults_read: Option<u64>,
    /// What each of them took longer because it was seen: CPU time of whoever made it.
    pub observing_ns: Option<f64>,
    pub faults_lost: Option<u64>,
    /// What could not be seen, and why.
    pub missing: Vec<(String, String)>,
}

impl Spans {
    pub fn add(&mut self, span: Span) {
        let Span { image, between, program, writer, method, tally, .. } = span;
        let pages = tally.total().start_pages.max(tally.total().pages_mapped);
        let sum = Sum {
            spans: 1,
            tally,
            largest_pages: pages,
            start_unix_ns: span.start_unix_ns,
            duration_ns: span.duration_ns,
            writer_cpu_ns: span.writer_cpu_ns,
            others_cpu_ns: span.others_cpu_ns,
            unknown_pages: span.unknown_pages,
            freed_unseen_pages: span.freed_unseen_pages,
            blind_ns: span.blind_ns,
        };
        self.add_sum(Key { program, image, between, writer, method }, sum);
    }

    fn add_sum(&mut self, key: Key, sum: Sum) {
        match self.sums.entry(key) {
            Entry::Vacant(entry) => _ = entry.insert(sum),
            Entry::Occupied(entry) => entry.into_mut().add(sum),
        }
    }

    /// The process of this image has executed something else: the forks that it made are those of another
    /// program, as of the script that starts one of its own name.
    pub fn replaced(&mut self, image: u32) {
        self.rename(|of| of == image, |program| format!("{program} until its exec"));
    }

    /// It will not any more.
    pub fn settled(&mut self, image: u32) {
        self.rename(|of| of == image, |program| program);
    }

    /// None will any more.
    pub fn all_settled(&mut self) {
        self.rename(|_| true, |program| program);
    }

    fn rename(&mut self, is_meant: impl Fn(u32) -> bool, name: impl Fn(String) -> String) {
        let is_own = |key: &Key| key.image != 0 && is_meant(key.image);
        let (own, others): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.sums).into_iter().partition(|(key, _)| is_own(key));
        self.sums = others;
        for (key, sum) in own {
            self.add_sum(Key { program: name(key.program), image: 0, ..key }, sum);
        }
    }

    pub fn note(&mut self, moment: &Moment) {
        self.reading_ns.push(moment.reading.took_ns);
        if let Some(copy) = &moment.copy {
            self.copy_ns.push(copy.took_ns);
            self.copy_bytes = self.copy_bytes.max(copy.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_is_the_thread_that_faults() {
        let times = |all: [(i32, u64, u64); 2]| {
            let one = |(tid, cpu_ns, minor_faults)| (tid, ThreadTimes { cpu_ns, minor_faults });
            all.map(one).into()
        };
        let before = times([(7, 100, 50), (8, 900, 3)]);
        let work = Work::between(&before, &times([(7, 150, 60), (8, 1900, 4)])).unwrap();
        assert_eq!(work, Work { writer_ns: Some(50), others_ns: 1000 });
        // Two write: whose time a copy takes is not known. A new thread has done all of its own since.
        let work = Work::between(&before, &times([(7, 150, 60), (9, 30, 8)])).unwrap();
        assert_eq!(work, Work { writer_ns: None, others_ns: 30 });
    }

    #[test]
    fn the_forks_of_a_script_are_not_those_of_the_program_that_it_executes() {
        let moment = Moment::of(Reading::of(Vec::new(), Vec::new(), 4096), 0);
        let fork = |image| {
            let (between, writer, method) =
                (Between::ForkToExit, Writer::Parent, Method::Exclusive);
            let span = Span::since(&moment, between, "R", writer, method, Tally::default());
            Span { image, ..span }
        };
        let mut spans = Spans::default();
        [1, 1, 3].into_iter().for_each(|image| spans.add(fork(image)));
        spans.replaced(1);
        [2, 2, 2].into_iter().for_each(|image| spans.add(fork(image)));
        // Of another process with the same program.
        spans.settled(3);
        spans.all_settled();
        let found: Vec<(&str, u64)> =
            spans.sums.iter().map(|(key, sum)| (key.program.as_str(), sum.spans)).collect();
        assert_eq!(found, [("R", 4), ("R until its exec", 2)]);
    }
}
