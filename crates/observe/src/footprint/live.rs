// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process that goes on: nothing is held, so that a look takes in what happens during it.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use cowlab_machine::ProcessError;

use super::faults::FaultLog;
use super::method::Method;
use super::reading::{Placed, Reading, join};
use super::sides::{Side, since_fork};
use super::spans::{Between, Moment, Span, Spans, Writer, own_tally};
use cowlab_machine::process::Target;
use cowlab_machine::process::children;
use cowlab_machine::process::mappings::Kind;
use cowlab_machine::process::pagemap::{Page, Pagemap};

/// Looks at the children for a new one this often.
const WAIT_FOR_FORK: Duration = Duration::from_millis(2);
/// While it waits for a fork, how often the process's own pages are looked at.
const BASELINE: Duration = Duration::from_secs(1);
/// Between two looks at a living child, at least; and at most a fifth of the time is spent looking.
const WAIT_FOR_END: Duration = Duration::from_millis(10);

/// Two looks at a process, `wait` apart, or until it ends or `stop` says so. Fails if it ended or
/// executed another program, or the method cannot be had.
pub fn interval(
    target: &Target,
    method: Method,
    wait: Duration,
    stop: impl Fn() -> bool,
) -> Result<Spans> {
    let mut spans = Spans::default();
    let before = Moment::take(target, method)?;
    spans.note(&before);
    let until = Instant::now() + wait;
    while Instant::now() < until && !stop() {
        let rest = until.duration_since(Instant::now()).min(Duration::from_millis(50));
        if target.wait_for_end(rest) {
            return Err(ProcessError::Vanished { pid: target.pid() }.into());
        }
    }
    let began = Instant::now();
    let (tally, unknown_pages) = own_tally(&before, target, Between::Interval)?;
    // A comparison reads the memory as well, and is no reading of the page tables.
    let took_ns = began.elapsed().as_nanos() as u64;
    if method == Method::Snapshot {
        spans.copy_ns.push(took_ns);
    } else {
        spans.reading_ns.push(took_ns);
    }
    let program = target.stat()?.name;
    let span = Span::since(&before, Between::Interval, &program, Writer::Own, method, tally);
    spans.add(Span { unknown_pages, ..span });
    Ok(spans)
}

/// From the next fork of a process to its child's end or exec, `forks` times, or until it ends,
/// `wait` has passed or `stop` says so. Fails if it ended before anything was seen, or no fork
/// came.
pub fn forks(
    target: &Target,
    method: Method,
    forks: u64,
    wait: Duration,
    faults: Option<FaultLog>,
    stop: impl Fn() -> bool,
) -> Result<Spans> {
    let spans = Spans::default();
    let mut looks = Looks { target, method, spans, faults, stop: &stop, unread: None };
    let began = Instant::now();
    let until = began + wait;
    if let Some(faults) = &mut looks.faults {
        faults.watch(target.pid());
    }
    let end = looks.at_forks(forks, until);
    if let Some(faults) = looks.faults.take() {
        faults.finish(&mut looks.spans);
    }
    let spans = kept(looks.spans, end, forks)?;
    if spans.forks == 0 {
        if let Some(error) = looks.unread {
            return Err(anyhow::Error::from(error).context("its child could not be seen"));
        }
        return Err(no_fork(target.pid(), began.elapsed(), stop()));
    }
    Ok(spans)
}

/// Why nothing was seen of a process that was waited for.
pub fn no_fork(pid: i32, waited: Duration, is_interrupted: bool) -> anyhow::Error {
    let seconds = waited.as_secs_f64();
    match is_interrupted {
        true => anyhow!("interrupted after {seconds:.1} s: process {pid} had not forked yet"),
        false => {
            anyhow!(
                "process {pid} did not fork within {seconds:.1} s: wait longer with --duration-s"
            )
        }
    }
}

/// What was seen of the process until `end`: that it ends, as a worker does, takes nothing back.
fn kept(
    mut spans: Spans,
    end: Result<(), ProcessError>,
    wanted: u64,
) -> Result<Spans, ProcessError> {
    match end {
        Err(error) if spans.sums.is_empty() => Err(error),
        Err(error) => {
            let reason = format!("{error}, after {} of {wanted} forks", spans.forks);
            spans.missing.push(("forks".to_owned(), reason));
            Ok(spans)
        }
        Ok(()) => Ok(spans),
    }
}

struct Looks<'a> {
    target: &'a Target,
    method: Method,
    spans: Spans,
    faults: Option<FaultLog>,
    stop: &'a dyn Fn() -> bool,
    /// Why the last child that could not be looked at could not.
    unread: Option<ProcessError>,
}

/// The process before a fork.
struct Before {
    reading: Reading,
    /// Its children then, but for those that wait to be reaped.
    children: HashSet<i32>,
    taken: Instant,
    /// Whether it was seen to have no other child after the reading.
    is_before: bool,
}

impl Before {
    /// What it had, unless that may mislead: a fork may have come before the reading, and once one of
    /// the children has ended, the frames that it had alone may be anybody's.
    fn trusted(self) -> Reading {
        let is_alive = |pid: &i32| Target::open(*pid).is_ok();
        match self.is_before && self.children.iter().all(is_alive) {
            true => self.reading,
            false => Reading::default(),
        }
    }
}

impl Looks<'_> {
    fn at_forks(&mut self, forks: u64, until: Instant) -> Result<(), ProcessError> {
        while self.spans.forks < forks && !(self.stop)() {
            let Some((before, child)) = self.wait_for_child(until)? else { break };
            let unseen = self.spans.unseen;
            self.until_its_end(before, &child)?;
            // Where children come all the time and none can be seen, it would never end.
            if self.spans.unseen > unseen && Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    /// Waits for a new child; what the process had shortly before, and the child.
    fn wait_for_child(&mut self, until: Instant) -> Result<Option<(Before, Target)>, ProcessError> {
        let mut before = self.before()?;
        loop {
            let begun = Instant::now();
            let alive: HashSet<i32> = children::pids(self.target)?.into_iter().collect();
            let new = alive.difference(&before.children);
            // One that has ended meanwhile is not to be seen.
            if let Some(child) = new.filter_map(|pid| Target::open(*pid).ok()).next() {
                return Ok(Some((before, child)));
            }
            before.is_before = true;
            // What comes now is soon out of date.
            let has_ended = !before.children.is_subset(&alive);
            let pause = WAIT_FOR_FORK.max(begun.elapsed() * 10);
            if Instant::now() >= until || (self.stop)() {
                return Ok(None);
            }
            if self.target.wait_for_end(pause) {
                return Err(ProcessError::Vanished { pid: self.target.pid() });
            }
            if let Some(faults) = &mut self.faults {
                faults.drain();
            }
            let (pause, share) = if has_ended { (WAIT_FOR_END, 4) } else { (BASELINE, 20) };
            let took_ns = before.reading.took_ns;
            if before.taken.elapsed() >= pause.max(Duration::from_nanos(took_ns * share)) {
                before = self.before()?;
            }
        }
    }

    fn before(&mut self) -> Result<Before, ProcessError> {
        let children = children::children(self.target)?.iter().map(|child| child.pid).collect();
        let reading = self.reading(self.target)?;
        Ok(Before { reading, children, taken: Instant::now(), is_before: false })
    }

    fn reading(&mut self, of: &Target) -> Result<Reading, ProcessError> {
        let reading = Reading::take(of, &mut Pagemap::open(of)?)?;
        self.spans.reading_ns.push(reading.took_ns);
        Ok(reading)
    }

    /// Follows a child. It and its parent may end at any moment, which leaves what was seen before.
    fn until_its_end(&mut self, before: Before, child: &Target) -> Result<(), ProcessError> {
        let parent_now = self.reading(self.target)?;
        let mut fork = match Moment::take(child, self.method) {
            Ok(fork) => fork,
            // What fails with every child, as a copy that does not fit.
            Err(error @ ProcessError::Read(_)) => return Err(error),
            Err(error) => {
                self.spans.unseen += 1;
                self.unread = Some(error);
                return Ok(());
            }
        };
        let mut last = (parent_now.clone(), fork.reading.clone());
        let parents_faults = self.target.stat()?.minor_faults;
        let mut childs_faults = fork.minor_faults;
        fork.threads = self.target.threads();
        self.spans.note(&fork);
        if is_same_memory(&last.0, &last.1) {
            self.spans.spawns += 1;
            return Ok(());
        }
        // It has executed something already.
        if is_another(&last.0, &last.1) {
            self.spans.unseen += 1;
            return Ok(());
        }
        self.spans.forks += 1;
        fork.reading = at_fork(&before.trusted(), &parent_now, &fork.reading);
        let program = child.stat().map(|stat| stat.name).unwrap_or_default();
        let mut seen_at = Instant::now();
        let mut between = Between::ForkToExit;
        loop {
            let pause =
                WAIT_FOR_END.max(Duration::from_nanos((last.0.took_ns + last.1.took_ns) * 4));
            if child.wait_for_end(pause) || (self.stop)() {
                break;
            }
            if let Some(faults) = &mut self.faults {
                faults.drain();
            }
            let Ok(parent) = self.reading(self.target) else { break };
            // Its end, or another program's memory.
            match self.reading(child) {
                Ok(now) if !is_another(&last.1, &now) => {
                    last = (parent, now);
                    childs_faults = child.stat().map_or(childs_faults, |stat| stat.minor_faults);
                }
                Ok(_) => {
                    between = Between::ForkToExec;
                    break;
                }
                Err(_) => break,
            }
            seen_at = Instant::now();
        }
        let blind_ns = seen_at.elapsed().as_nanos() as u64;
        let (parents_last, last) = last;
        let parent = match self.reading(self.target) {
            // While the child lived none of the frames that they shared was free; now the next fork
            // may have given the parent one of them once more.
            Ok(parent) => moved(&fork.reading, &parents_last, parent),
            Err(_) => parents_last,
        };
        let faults_now = self.target.stat().map_or(parents_faults, |stat| stat.minor_faults);
        let minor_faults = faults_now - parents_faults;
        let parent = Side { target: self.target, now: &parent, minor_faults, is_gone: false };
        let minor_faults = childs_faults;
        let ended = Side { target: child, now: &last, minor_faults, is_gone: true };
        let (sides, faults) = ([Some(parent), Some(ended)], self.faults.as_mut());
        match since_fork(&fork, between, &program, self.method, sides, faults) {
            Ok(seen) => {
                seen.into_iter().for_each(|span| self.spans.add(Span { blind_ns, ..span }));
            }
            // The parent's bytes are gone with it.
            Err(_) => self.spans.unseen += 1,
        }
        Ok(())
    }
}

/// Whether two processes have one page table (vfork, posix_spawn): a page that is one process's alone
/// cannot be both's.
fn is_same_memory(one: &Reading, two: &Reading) -> bool {
    let both = join(one.private_pages(), two.private_pages());
    let alone = both.filter_map(|(_, a, b)| Some((a?.page, b?.page))).filter(|(a, b)| {
        a.is_exclusive() && b.is_exclusive() && (a.frame().is_none() || a.frame() == b.frame())
    });
    // Both may have written a page since, and frames may not be shown.
    alone.count() * 2 > two.private_pages().filter(Placed::is_anonymous).count()
}

/// Whether a memory is another program's: none of what was mapped is there any more, but for what the
/// kernel gives every process.
fn is_another(before: &Reading, now: &Reading) -> bool {
    let stays = |mapping: &cowlab_machine::process::Mapping| {
        now.mappings.binary_search_by_key(&mapping.range.start, |m| m.range.start).is_ok()
    };
    !before.mappings.iter().filter(|mapping| mapping.kind != Kind::Special).any(stays)
}

/// What a fork shared, by a look at the process some time before it and at both some time after:
/// a page that both still have from one frame, is it; of the others, the frame that was there
/// before the fork tells who has written since. Without it the child's is taken for the older one:
/// most children write less.
fn at_fork(before: &Reading, parent: &Reading, child: &Reading) -> Reading {
    let old: HashMap<u64, Page> =
        before.private_pages().map(|placed| (placed.address, placed.page)).collect();
    let childs_copies = join(parent.private_pages(), child.private_pages())
        .filter_map(|(address, of_parent, of_child)| {
            Some((address, of_parent?.page, of_child?.page))
        })
        .filter(|(_, of_parent, of_child)| of_parent.frame() != of_child.frame())
        .filter_map(|(address, of_parent, _)| {
            let page = *old.get(&address)?;
            (page.frame() == of_parent.frame()).then_some((address, page))
        });
    child.clone().with(childs_copies)
}

/// `now`, but for pages that had another frame than at the fork by an earlier look and have it no
/// longer.
fn moved(fork: &Reading, earlier: &Reading, now: Reading) -> Reading {
    let at_fork = join(fork.private_pages(), earlier.private_pages());
    let copies: HashMap<u64, (Page, Page)> = at_fork
        .filter_map(|(address, old, new)| Some((address, (old?.page, new?.page))))
        .filter(|(_, (old, new))| old.frame() != new.frame())
        .collect();
    let again: Vec<(u64, Page)> = now
        .private_pages()
        .filter_map(|placed| {
            let (old, new) = copies.get(&placed.address)?;
            (old.frame() == placed.page.frame()).then_some((placed.address, *new))
        })
        .collect();
    now.with(again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::Tally;
    use cowlab_machine::process::mappings;

    fn reading(frames: &[u64]) -> Reading {
        let maps = "10000-20000 rw-p 00000000 00:00 0 [heap]\n";
        let pages = frames.iter().map(|frame| Page(1 << 63 | frame)).collect();
        Reading::of(mappings::decode(maps).unwrap(), vec![(0x10000, pages)], 4096)
    }

    fn frames(reading: &Reading) -> Vec<u64> {
        reading.private_pages().filter_map(|placed| placed.page.frame()).collect()
    }

    #[test]
    fn the_frame_before_the_fork_tells_who_wrote_before_the_first_look() {
        // Nobody, the parent, the child; and both know nothing of the page before.
        let (before, parent) = (reading(&[1, 2, 3]), reading(&[1, 12, 3, 14]));
        let child = reading(&[1, 2, 23, 24]);
        assert_eq!(frames(&at_fork(&before, &parent, &child)), [1, 2, 3, 24]);
        assert_eq!(frames(&at_fork(&Reading::default(), &parent, &child)), [1, 2, 23, 24]);
    }

    #[test]
    fn the_kernels_own_mappings_make_no_program() {
        let of = |maps: &str| Reading::of(mappings::decode(maps).unwrap(), Vec::new(), 4096);
        let vsyscall = "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
        let (one, other) =
            ("10000-20000 rw-p 00000000 00:00 0\n", "30000-40000 rw-p 00000000 00:00 0\n");
        let (one, other) = (of(&format!("{one}{vsyscall}")), of(&format!("{other}{vsyscall}")));
        assert!(is_another(&one, &other) && !is_another(&one, &one));
    }

    #[test]
    fn a_child_that_cannot_be_read_is_unseen_and_ends_nothing() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let mut process = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let child = Target::open(process.id() as i32).unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        let mut looks = Looks {
            target: &own,
            method: Method::Exclusive,
            spans: Spans::default(),
            faults: None,
            stop: &|| false,
            unread: None,
        };
        let before = looks.before().unwrap();
        looks.until_its_end(before, &child).unwrap();
        assert_eq!((looks.spans.unseen, looks.spans.forks), (1, 0));
        assert!(matches!(looks.unread, Some(ProcessError::Vanished { .. })), "{:?}", looks.unread);
    }

    #[test]
    fn a_process_that_ends_leaves_what_was_seen_of_it() {
        let gone = || Err(ProcessError::Vanished { pid: 7 });
        assert!(kept(Spans::default(), gone(), 100).is_err());
        let mut spans = Spans { forks: 3, ..Spans::default() };
        let (before, tally) = (Moment::of(Reading::default(), 0), Tally::default());
        let (between, method) = (Between::ForkToExit, Method::Exclusive);
        spans.add(Span::since(&before, between, "server", Writer::Child, method, tally));
        let spans = kept(spans, gone(), 100).unwrap();
        assert_eq!((spans.sums.len(), spans.missing.len()), (1, 1));
        assert!(spans.missing[0].1.ends_with("after 3 of 100 forks"), "{:?}", spans.missing);
        assert!(kept(spans, Ok(()), 100).is_ok());
    }

    #[test]
    fn a_frame_that_comes_back_after_the_childs_end_was_copied_all_the_same() {
        let (fork, earlier) = (reading(&[1, 2, 3]), reading(&[11, 2, 13]));
        assert_eq!(frames(&moved(&fork, &earlier, reading(&[1, 2, 33]))), [11, 2, 33]);
    }
}
