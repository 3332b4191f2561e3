// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is let go on, and when: nobody may stay stopped because an event never came.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::super::ptrace::{self, event};
use super::{Task, Tracer};
use cowlab_machine::Stat;

/// A birth is told by the parent at once. If the parent is followed no longer, it was killed before
/// it could tell; and whatever else may be, no child waits longer than the second time.
const BIRTH: Duration = Duration::from_millis(20);
const LONGEST_BIRTH: Duration = Duration::from_millis(500);
/// Somebody in vfork does not stop before its child has executed something.
const LONGEST_DETACH: Duration = Duration::from_secs(2);

impl Tracer {
    /// Lets go of everybody; they run on. Whom this misses, the kernel lets go at the end of the
    /// thread.
    pub fn detach(mut self) {
        self.resume();
        let limit = Instant::now() + LONGEST_DETACH;
        // Who waits at its birth stands still, and says so no second time.
        let (waiting, mut left): (Vec<i32>, Vec<i32>) =
            self.tasks.keys().copied().partition(|tid| self.tasks[tid].waits.is_some());
        let mut gone: HashSet<i32> = HashSet::new();
        for tid in waiting {
            gone.insert(tid);
            let _ = ptrace::detach(tid, 0);
        }
        left.retain(|tid| ptrace::interrupt(*tid).is_ok());
        while !left.is_empty() && Instant::now() < limit {
            match ptrace::changed() {
                Ok(Some((tid, status))) => {
                    gone.insert(tid);
                    // Whom it has just made is traced as well, and stops at its birth.
                    left.extend(child(tid, status).filter(|child| !gone.contains(child)));
                    let _ = ptrace::detach(tid, delivery(status).unwrap_or(0));
                    left.retain(|other| *other != tid);
                }
                Ok(None) => self.sleep(Some(limit)),
                Err(_) => return,
            }
        }
    }

    /// Who waits at its birth goes on once its parent's event has been looked at.
    pub(super) fn release_births(&mut self) {
        let born = |task: &Task| task.is_born && task.waits.is_some();
        let ready: Vec<i32> =
            self.tasks.iter().filter(|(_, task)| born(task)).map(|(tid, _)| *tid).collect();
        for tid in ready {
            if let Some(task) = self.tasks.get_mut(&tid) {
                task.waits = None;
            }
            self.go_on(tid, 0);
        }
    }

    /// Lets go on who waits for its parent's event in vain; whether there was anybody.
    pub(super) fn release_orphans(&mut self) -> bool {
        let is_late = |tid: i32, since: Instant| {
            let waited = since.elapsed();
            waited > LONGEST_BIRTH || (waited > BIRTH && self.is_orphan(tid))
        };
        let unborn = self.tasks.iter().filter(|(_, task)| !task.is_born);
        let orphans: Vec<i32> = unborn
            .filter(|(tid, task)| task.waits.is_some_and(|since| is_late(**tid, since)))
            .map(|(tid, _)| *tid)
            .collect();
        for tid in &orphans {
            self.tasks.insert(*tid, Task::of(*tid));
            self.go_on(*tid, 0);
        }
        !orphans.is_empty()
    }

    /// Its parent is nobody who is followed.
    fn is_orphan(&self, tid: i32) -> bool {
        Stat::read(tid)
            .is_some_and(|stat| !self.tasks.values().any(|task| task.process == stat.parent))
    }
}

/// Whom a thread has just made, if it stopped because of that.
fn child(tid: i32, status: i32) -> Option<i32> {
    let is_birth = matches!(status >> 16, event::FORK | event::VFORK | event::CLONE);
    if libc::WIFSTOPPED(status) && is_birth {
        ptrace::message(tid).ok()?.try_into().ok()
    } else {
        None
    }
}

/// The signal that a stop was about to deliver.
fn delivery(status: i32) -> Option<i32> {
    let signal = libc::WSTOPSIG(status);
    let is_delivery = libc::WIFSTOPPED(status) && status >> 16 == 0 && signal & 0x80 == 0;
    (is_delivery && signal != libc::SIGTRAP).then_some(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(tracer: &mut Tracer, tid: i32, time: Duration) {
        let waits = Instant::now().checked_sub(time);
        tracer.tasks.insert(tid, Task { is_born: false, waits, ..Task::of(tid) });
    }

    #[test]
    fn a_birth_that_nobody_tells_does_not_wait_for_ever() {
        let mut tracer = Tracer::new(None).unwrap();
        let is_born = |tracer: &Tracer, tid: i32| tracer.tasks[&tid].is_born;
        // No such thread: nothing is known of its parent.
        let nobody = 1 << 30;
        waiting(&mut tracer, nobody, Duration::from_millis(100));
        assert!(!tracer.release_orphans());
        waiting(&mut tracer, nobody, Duration::from_secs(1));
        assert!(tracer.release_orphans() && is_born(&tracer, nobody));
        // Of this test's process the parent is known, and not followed; then it is.
        let own = std::process::id() as i32;
        waiting(&mut tracer, own, Duration::from_millis(100));
        assert!(tracer.release_orphans() && is_born(&tracer, own));
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        tracer.tasks.insert(parent, Task::of(parent));
        waiting(&mut tracer, own, Duration::from_millis(100));
        assert!(!tracer.release_orphans());
    }

    #[test]
    fn a_signal_on_its_way_is_delivered_and_a_stop_of_ptraces_own_is_none() {
        let stop = |signal: i32| signal << 8 | 0x7f;
        assert_eq!(delivery(stop(libc::SIGUSR1)), Some(libc::SIGUSR1));
        assert_eq!(delivery(stop(libc::SIGTRAP | 0x80)), None);
        assert_eq!(delivery(event::FORK << 16 | stop(libc::SIGTRAP)), None);
        assert_eq!(delivery(event::STOP << 16 | stop(libc::SIGSTOP)), None);
    }
}
