// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Children by the kernel's events: when they were forked, and which of their faults may still be
//! asked about.

use std::collections::HashMap;

use crate::bpf::{Event, Happening};

const SECOND_NS: u64 = 1_000_000_000;
/// A fork is told at its end, and may take some seconds: faults are kept for so long anyhow.
const LONGEST_FORK_NS: u64 = 5 * SECOND_NS;
/// A child is asked about after its end or exec: once it was noticed, and all pages were read.
const LONGEST_LOOK_NS: u64 = 60 * SECOND_NS;

#[derive(Debug, Clone, Copy)]
struct Child {
    forked_ns: u64,
    ended_ns: Option<u64>,
    /// Its end or exec, the first of them; of one that shares its parent's memory its birth.
    over_ns: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Births {
    children: HashMap<i32, Child>,
    ended: HashMap<i32, u64>,
}

impl Births {
    pub(super) fn take(&mut self, event: &Event) {
        let (pid, time_ns) = (event.tgid as i32, event.time_ns);
        match event.what {
            Happening::Fork(fork) => {
                let Some(child) = fork.child_tgid else { return };
                let forked_ns = time_ns.saturating_sub(fork.stop_ns.unwrap_or(0));
                let over_ns = fork.shares_memory.then_some(time_ns);
                self.ended.remove(&(child as i32));
                self.children.insert(child as i32, Child { forked_ns, ended_ns: None, over_ns });
            }
            Happening::Exit => {
                self.ended.insert(pid, time_ns);
                self.over(pid, time_ns, Some(time_ns));
            }
            Happening::Exec => self.over(pid, time_ns, None),
            Happening::Killed(_) => {}
        }
    }

    fn over(&mut self, pid: i32, time_ns: u64, ended_ns: Option<u64>) {
        if let Some(child) = self.children.get_mut(&pid) {
            child.over_ns.get_or_insert(time_ns);
            child.ended_ns = ended_ns;
        }
    }

    /// When `child` was forked.
    pub(super) fn forked_at(&self, child: i32) -> Option<u64> {
        self.children.get(&child).map(|child| child.forked_ns)
    }

    /// When `child` ended.
    pub(super) fn ended_at(&self, child: i32) -> Option<u64> {
        self.children.get(&child)?.ended_ns
    }

    /// From when on faults may still be asked about.
    pub(super) fn asked_since(&self, now_ns: u64) -> u64 {
        let is_asked =
            |child: &&Child| child.over_ns.is_none_or(|over| now_ns < over + LONGEST_LOOK_NS);
        let forks = self.children.values().filter(is_asked).map(|child| child.forked_ns);
        forks.min().unwrap_or(u64::MAX).min(now_ns.saturating_sub(LONGEST_FORK_NS))
    }

    /// Nobody asks about the children so far any more.
    pub(super) fn settle(&mut self) {
        self.children.clear();
    }

    /// Who ended and is gone, and is asked about no more; told once.
    pub(super) fn take_gone(&mut self, now_ns: u64) -> Vec<i32> {
        let mut gone = Vec::new();
        self.ended.retain(|pid, ended_ns| {
            // The event is of the first thread's end: others may go on.
            let stays = now_ns < *ended_ns + LONGEST_LOOK_NS || is_there(*pid);
            if !stays {
                gone.push(*pid);
            }
            stays
        });
        for pid in &gone {
            self.children.remove(pid);
        }
        gone
    }
}

fn is_there(pid: i32) -> bool {
    std::fs::exists(format!("/proc/{pid}")).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::ForkEvent;

    const NOBODY: u32 = 1 << 30;

    fn take(births: &mut Births, time_ns: u64, tgid: u32, what: Happening) {
        births.take(&Event { time_ns, tgid, tid: tgid, comm: String::new(), what });
    }

    fn fork(births: &mut Births, time_ns: u64, child: u32, stop_ns: u64) {
        let (child_tgid, stop_ns) = (Some(child), Some(stop_ns));
        let fork = ForkEvent { child_tgid, shares_memory: false, stop_ns };
        take(births, time_ns, 1, Happening::Fork(fork));
    }

    #[test]
    fn faults_are_asked_about_from_the_fork_of_a_child_that_lives() {
        let (mut births, at) = (Births::default(), 1000 * SECOND_NS);
        assert_eq!(births.asked_since(at), at - LONGEST_FORK_NS);
        fork(&mut births, at, NOBODY, 7);
        assert_eq!(births.forked_at(NOBODY as i32), Some(at - 7));
        let later = at + 1000 * SECOND_NS;
        assert_eq!(births.asked_since(later), at - 7);
        // Its exec, and for some time after it.
        take(&mut births, later, NOBODY, Happening::Exec);
        assert_eq!(births.asked_since(later + LONGEST_LOOK_NS - 1), at - 7);
        let after = later + LONGEST_LOOK_NS;
        assert_eq!(births.asked_since(after), after - LONGEST_FORK_NS);
        // Judged: nobody asks again, whatever lives still.
        fork(&mut births, after, NOBODY + 1, 0);
        births.settle();
        assert_eq!(births.asked_since(after + 100 * SECOND_NS), after + 95 * SECOND_NS);
    }

    #[test]
    fn a_child_is_gone_some_time_after_its_end_and_a_reused_number_is_another() {
        let (mut births, at) = (Births::default(), 1000 * SECOND_NS);
        fork(&mut births, at, NOBODY, 0);
        take(&mut births, at + 1, NOBODY, Happening::Exit);
        assert_eq!(births.ended_at(NOBODY as i32), Some(at + 1));
        assert!(births.take_gone(at + SECOND_NS).is_empty());
        assert_eq!(births.take_gone(at + 1 + LONGEST_LOOK_NS), [NOBODY as i32]);
        assert!(births.take_gone(at + 1 + LONGEST_LOOK_NS).is_empty());
        // Of this process the first thread has ended, by that event; it is there.
        let own = std::process::id();
        take(&mut births, at, own, Happening::Exit);
        assert!(births.take_gone(at + 2 * LONGEST_LOOK_NS).is_empty());
        fork(&mut births, at, NOBODY, 0);
        take(&mut births, at + 1, NOBODY, Happening::Exit);
        fork(&mut births, at + 2, NOBODY, 0);
        assert_eq!(births.ended_at(NOBODY as i32), None);
        assert!(births.take_gone(at + 2 * LONGEST_LOOK_NS).is_empty());
    }
}
