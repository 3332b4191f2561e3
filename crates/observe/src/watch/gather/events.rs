// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an event makes to be read, and to be booked.

use std::time::Instant;

use super::Gatherer;
use crate::bpf::{Event, ForkEvent, Happening};
use crate::watch::{Wanted, ends, reading};

impl Gatherer {
    /// Over budget, counts the oldest `most` waiting events, so that a few forks are never missed.
    pub(super) fn count_late(&mut self, most: usize) {
        if !self.pace.is_late() {
            return;
        }
        let mut events: Vec<Event> = Vec::new();
        if let Some(observer) = &mut self.observer {
            observer.read_some_events(most, |event| events.push(event));
        }
        events.iter().for_each(|event| self.count(event));
        self.pace.charge();
    }

    /// Books what was told since.
    pub(super) fn take_events(&mut self) {
        self.pace.pass(Instant::now());
        self.pace.charge();
        if self.pace.is_late() {
            return;
        }
        let mut events: Vec<Event> = Vec::new();
        if let Some(observer) = &mut self.observer {
            observer.read_events(|event| events.push(event));
        }
        self.take_all(&events);
    }

    /// Books events, and reads what they are about while there is time for it.
    pub(super) fn take_all(&mut self, events: &[Event]) {
        for (event, executes) in events.iter().zip(ends::before_an_exec(events)) {
            match self.pace.allows() {
                true => self.take(event, executes),
                false => self.count(event),
            }
            self.pace.charge();
        }
    }

    /// Books an event by what it says alone. The child of a fork is not followed, and the end of a
    /// process that is in the book is found by a refresh.
    pub(super) fn count(&mut self, event: &Event) {
        let pid = event.tgid;
        if pid == std::process::id() {
            return;
        }
        self.pace.unread_events += 1;
        let is_known = self.book.knows(pid);
        match &event.what {
            Happening::Fork(fork) => {
                // One that nobody knows yet is found by a refresh: looking for it here takes longer than
                // all the rest, and events would be lost.
                if is_known {
                    let fork = ForkEvent { child_tgid: None, ..*fork };
                    self.book.forked(event, &fork, Default::default());
                } else {
                    self.count_unseen(event, fork);
                }
                if let Some(child) = fork.child_tgid {
                    self.forget(child);
                }
            }
            Happening::Exec if is_known => self.book.executed(event),
            _ if is_known => {}
            _ => self.forget(pid),
        }
    }

    /// Books an event. `executes`: the same process executes something later, as is known already.
    pub(super) fn take(&mut self, event: &Event, executes: bool) {
        let pid = event.tgid;
        if pid == std::process::id() {
            return;
        }
        if !self.book.knows(pid) && !self.take_up(event) {
            match &event.what {
                Happening::Fork(fork) => self.count_unseen(event, fork),
                // Its fork was lost, or its end is booked. It would keep its place among those that
                // BPF watches for ever, and there are only so many.
                _ => self.forget(pid),
            }
            return;
        }
        match &event.what {
            Happening::Fork(fork) => {
                self.read_one(pid);
                let child = fork.child_tgid.map(|pid| self.look_at_child(pid));
                self.book.forked(event, fork, child.unwrap_or_default());
            }
            Happening::Exec => {
                self.read_with_parent(pid);
                self.book.executed(event);
            }
            // The end of its first thread alone: a refresh finds that of the last one.
            Happening::Exit if executes || self.goes_on(pid) => {}
            Happening::Exit => self.end(pid, event.time_ns),
            Happening::Killed(_) => {}
        }
    }

    /// Where everything is watched, a fork of one that has ended and left nothing to read.
    fn count_unseen(&mut self, event: &Event, fork: &ForkEvent) {
        if self.wanted == Wanted::All {
            self.book.forked_unseen(event, fork);
        }
    }

    /// Where everything is watched, one that started before it was found; whether it is known now.
    fn take_up(&mut self, event: &Event) -> bool {
        if self.wanted != Wanted::All {
            return false;
        }
        let found = match event.what {
            // Its fork counts, whatever became of it since.
            Happening::Fork(_) => reading::read_even_ended(event.tgid),
            _ => reading::read(event.tgid),
        };
        let Some((stat, reading)) = found else { return false };
        self.book.add(event.tgid, &stat, reading, None);
        true
    }

    /// Whether it is alive by whichever of its threads, and not another with its pid.
    fn goes_on(&self, pid: u32) -> bool {
        let Some(start) = self.book.start_ticks(pid) else { return false };
        ends::goes_on(pid)
            && reading::read_even_ended(pid).is_some_and(|(stat, _)| stat.start_ticks == start)
    }

    /// Books its end, with what it had then.
    pub(super) fn end(&mut self, pid: u32, time_ns: u64) {
        self.read_with_parent(pid);
        let is_child = self.book.parent(pid).is_some();
        self.book.ended(pid, time_ns);
        // The others are in one more frame.
        if is_child {
            self.forget(pid);
        }
    }
}
