// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command followed from stop to stop: its forks, execs and ends, each seen while
//! its memory is still there.

mod release;
mod start;

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use super::event::Event;
use super::ptrace::{self, event};

/// Calls that a forked child is stopped at, in wait of an exec: programs that mean to exec do
/// little before it, and one that does not is not to be slowed down.
const CALLS_BEFORE_EXEC: u32 = 300;

#[derive(Debug, Clone, Copy)]
struct Task {
    process: i32,
    /// Calls that it is still stopped at.
    calls_left: u32,
    /// Its parent's event of its birth was seen.
    is_born: bool,
    /// Since when it stands at its birth and waits for that event, or for somebody to look.
    waits: Option<Instant>,
}

/// Follows processes. All calls must come from the thread that made it: see [`on_own_thread`].
pub struct Tracer {
    /// Readable when a child's state may have changed.
    wake: UnixStream,
    tasks: HashMap<i32, Task>,
    /// Whose thread made the event at hand, when it happened, and the signal it is to get.
    held: Option<(i32, Instant, i32)>,
    /// Whether it was held before its end or exec, with the memory that it leaves.
    ends: bool,
    mark: Option<i32>,
    /// Time that threads were held for somebody to look, and the longest of them.
    pub stopped_ns: u64,
    /// The longest time of one that goes on; one that is about to end keeps nobody waiting but its
    /// parent.
    pub longest_stop_ns: u64,
    /// The longest time that somebody's end was held up.
    pub longest_end_ns: u64,
    pub stops: u64,
}

/// Does `work`, and all its tracing, on a thread of its own: at a thread's end the kernel lets go of
/// everybody whom it traces still, so that nobody stays stopped for as long as this process lives.
pub fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

impl Tracer {
    /// The next event; `None` when nothing is traced any more, or `stop` says so.
    pub fn next(&mut self, mut stop: impl FnMut() -> bool) -> io::Result<Option<Event>> {
        // Also where one event follows the other: somebody may be held until this returns.
        while !stop() {
            match ptrace::changed() {
                Ok(Some((tid, status))) => {
                    if let Some(event) = self.understand(tid, status)? {
                        return Ok(Some(event));
                    }
                }
                Ok(None) if self.release_orphans() => {}
                Ok(None) => self.sleep(None),
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Lets go on who the last event stopped.
    pub fn resume(&mut self) {
        let Some((tid, since, signal)) = self.held.take() else { return };
        let took_ns = since.elapsed().as_nanos() as u64;
        self.stopped_ns += took_ns;
        let longest = if self.ends { &mut self.longest_end_ns } else { &mut self.longest_stop_ns };
        *longest = took_ns.max(*longest);
        self.stops += 1;
        self.go_on(tid, signal);
        self.release_births();
    }

    fn sleep(&mut self, until: Option<Instant>) {
        let most = Duration::from_millis(100);
        let time = until.map_or(most, |until| most.min(until.duration_since(Instant::now())));
        let limit = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], Some(&limit));
        while matches!(self.wake.read(&mut [0; 256]), Ok(1..)) {}
    }

    fn hold(&mut self, tid: i32, signal: i32) {
        self.held = Some((tid, Instant::now(), signal));
        self.ends = false;
    }

    /// Errors mean that it was killed meanwhile; its end will be told.
    fn go_on(&mut self, tid: i32, signal: i32) {
        let steps = self.tasks.get(&tid).is_some_and(|task| task.calls_left > 0);
        let _ = ptrace::go_on(tid, signal, steps);
    }

    fn understand(&mut self, tid: i32, status: i32) -> io::Result<Option<Event>> {
        if !libc::WIFSTOPPED(status) {
            let was_process = self.tasks.remove(&tid).is_some_and(|task| task.process == tid);
            return Ok(was_process.then_some(Event::Ended { pid: tid, status }));
        }
        let signal = libc::WSTOPSIG(status);
        let Some(task) = self.tasks.get(&tid).copied() else {
            // A birth whose parent's event is still to come.
            let waits = Some(Instant::now());
            self.tasks.insert(tid, Task { is_born: false, waits, ..Task::of(tid) });
            return Ok(None);
        };
        let pid = task.process;
        let event = match status >> 16 {
            event::FORK => self.birth(tid, CALLS_BEFORE_EXEC),
            event::VFORK => self.birth(tid, 0).map(|_| Event::Spawned { pid }),
            event::CLONE => self.clone_of(tid, pid),
            event::EXEC => {
                self.executed(tid);
                Some(Event::Executed { pid: tid })
            }
            event::EXIT => {
                (tid == pid || !self.tasks.contains_key(&pid)).then_some(Event::Ending { pid })
            }
            event::STOP => {
                self.stopped(tid, signal);
                return Ok(None);
            }
            _ if signal == libc::SIGTRAP | 0x80 => self.called(tid, pid),
            _ if Some(signal) == self.mark => Some(Event::Marked { pid }),
            _ => {
                self.go_on(tid, signal);
                return Ok(None);
            }
        };
        match event {
            Some(event) => {
                self.hold(tid, 0);
                self.ends = matches!(event, Event::Ending { .. } | Event::Executing { .. });
            }
            None => self.go_on(tid, 0),
        }
        Ok(event)
    }

    /// A process was made by `tid`. Its first stop may have come already.
    fn birth(&mut self, tid: i32, calls_left: u32) -> Option<Event> {
        let child = ptrace::message(tid).ok()? as i32;
        let waits = self.tasks.get(&child).and_then(|task| task.waits);
        self.tasks.insert(child, Task { calls_left, waits, ..Task::of(child) });
        let pid = self.tasks.get(&tid)?.process;
        Some(Event::Forked { pid, child })
    }

    /// A thread, or a process by a clone of its own making.
    fn clone_of(&mut self, tid: i32, pid: i32) -> Option<Event> {
        let new = ptrace::message(tid).ok()? as i32;
        if !std::fs::exists(format!("/proc/{pid}/task/{new}")).unwrap_or(false) {
            return self.birth(tid, CALLS_BEFORE_EXEC);
        }
        let early = self.tasks.insert(new, Task::of(pid));
        if early.is_some_and(|task| task.waits.is_some()) {
            self.go_on(new, 0);
        }
        None
    }

    /// Who executes is alone afterwards, and has the process's number.
    fn executed(&mut self, pid: i32) {
        self.tasks.retain(|tid, task| task.process != pid || *tid == pid);
        self.tasks.insert(pid, Task::of(pid));
    }

    fn stopped(&mut self, tid: i32, signal: i32) {
        if matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) {
            let _ = ptrace::stay_stopped(tid);
        } else {
            self.go_on(tid, 0);
        }
    }

    /// At the beginning or end of a call, which only forked children are stopped at.
    fn called(&mut self, tid: i32, pid: i32) -> Option<Event> {
        let task = self.tasks.get_mut(&tid)?;
        task.calls_left = task.calls_left.saturating_sub(1);
        ptrace::call_to_come(tid).is_some_and(ptrace::is_exec).then_some(Event::Executing { pid })
    }
}

impl Task {
    fn of(process: i32) -> Task {
        Task { process, calls_left: 0, is_born: true, waits: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No thread has such a number, so that requests fail as for one that was killed.
    const NOBODY: i32 = 1 << 30;
    const KILLED: i32 = libc::SIGKILL;

    #[test]
    fn a_threads_end_that_nobody_misses_is_no_event() {
        let mut tracer = Tracer::new(None).unwrap();
        tracer.tasks = [(NOBODY, Task::of(NOBODY)), (NOBODY + 1, Task::of(NOBODY))].into();
        assert_eq!(tracer.understand(NOBODY + 1, KILLED).unwrap(), None);
        let ended = Event::Ended { pid: NOBODY, status: KILLED };
        assert_eq!(tracer.understand(NOBODY, KILLED).unwrap(), Some(ended));
    }

    #[test]
    fn work_on_a_thread_of_its_own_gives_its_result() {
        let own = std::thread::current().id();
        assert_ne!(on_own_thread(|| std::thread::current().id()), own);
    }
}
