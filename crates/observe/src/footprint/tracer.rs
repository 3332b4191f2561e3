// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command, or a process, followed from stop to stop: its forks, execs and ends, each seen while
//! its memory is still there.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use cowlab_machine::ProcessError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGCHLD;

pub use super::event::Event;
use super::ptrace::{self, event};
use crate::target::Target;

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
    /// It stands at its birth and waits for that event.
    waits: bool,
}

/// The threads of a process that is to stop.
#[derive(Debug)]
struct Gathering {
    since: Instant,
    missing: Vec<i32>,
    there: Vec<i32>,
}

/// Follows processes. All calls must come from the thread that made it.
pub struct Tracer {
    /// Readable when a child's state may have changed.
    wake: UnixStream,
    tasks: HashMap<i32, Task>,
    /// Whose thread made the event at hand, when it happened, and the signal it is to get.
    held: Option<(i32, Instant, i32)>,
    /// Whether it was held before its end or exec, with the memory that it leaves.
    ends: bool,
    mark: Option<i32>,
    gathering: Option<Gathering>,
    /// Time that threads were held for somebody to look, and the longest of them.
    pub stopped_ns: u64,
    /// The longest time of one that goes on; one that is about to end keeps nobody waiting but its
    /// parent.
    pub longest_stop_ns: u64,
    /// The longest time that somebody's end was held up.
    pub longest_end_ns: u64,
    /// How often.
    pub stops: u64,
}

impl Tracer {
    fn new(mark: Option<i32>) -> io::Result<Tracer> {
        let (wake, ring) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD, ring)?;
        Ok(Tracer {
            wake,
            tasks: HashMap::new(),
            held: None,
            ends: false,
            mark,
            gathering: None,
            stopped_ns: 0,
            longest_stop_ns: 0,
            longest_end_ns: 0,
            stops: 0,
        })
    }

    /// Starts `command`, which is stopped before its first instruction, as by
    /// [`Event::Executed`]. `mark` is the signal by which it marks moments.
    ///
    /// # Errors
    /// It cannot be started, or ptrace(2) is forbidden here.
    pub fn start(mut command: Command, mark: Option<i32>) -> io::Result<(Tracer, i32)> {
        let mut tracer = Tracer::new(mark)?;
        ptrace::stop_at_exec(&mut command);
        let pid = command.spawn()?.id() as i32;
        open_many_files();
        wait_for_stop(pid)?;
        ptrace::seize_stopped(pid)?;
        wait_for_stop(pid)?;
        let number = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        rustix::process::kill_process(number, rustix::process::Signal::CONT)?;
        tracer.tasks.insert(pid, Task::of(pid));
        tracer.hold(pid, 0);
        Ok((tracer, pid))
    }

    /// Attaches to every thread of a running process; none of them is stopped by that.
    ///
    /// # Errors
    /// [`ProcessError`]: no permission (a debugger's is needed, and nobody else may trace it).
    pub fn attach(of: &Target, mark: Option<i32>) -> Result<Tracer, ProcessError> {
        let failed = |error| of.failed("mem", error);
        let mut tracer = Tracer::new(mark).map_err(failed)?;
        open_many_files();
        // Threads that are made meanwhile are found by another look.
        loop {
            let before = tracer.tasks.len();
            for entry in std::fs::read_dir(of.path("task")).map_err(failed)?.flatten() {
                let tid = entry.file_name().to_str().and_then(|name| name.parse().ok());
                let Some(tid) = tid.filter(|tid| !tracer.tasks.contains_key(tid)) else { continue };
                match ptrace::seize(tid) {
                    Ok(()) => drop(tracer.tasks.insert(tid, Task::of(of.pid()))),
                    // It ended meanwhile, or is traced already: by us, as a clone of its sibling.
                    Err(_) if tid != of.pid() => {}
                    Err(error) => return Err(failed(error)),
                }
            }
            if tracer.tasks.len() == before {
                return Ok(tracer);
            }
        }
    }

    /// Asks all threads of a process to stop: [`Event::Stopped`] comes when the last has.
    pub fn interrupt(&mut self, pid: i32) {
        let threads = self.tasks.iter().filter(|(_, task)| task.process == pid);
        let mut missing: Vec<i32> = threads.map(|(tid, _)| *tid).collect();
        missing.retain(|tid| ptrace::interrupt(*tid).is_ok());
        let since = Instant::now();
        self.gathering = Some(Gathering { since, missing, there: Vec::new() });
    }

    /// The next event; `None` when nothing is traced any more, or `until` has passed, or `stop`
    /// says so.
    ///
    /// # Errors
    /// waitpid's.
    pub fn next(
        &mut self,
        until: Option<Instant>,
        stop: impl Fn() -> bool,
    ) -> io::Result<Option<Event>> {
        loop {
            match ptrace::changed() {
                Ok(Some((tid, status))) => {
                    if let Some(event) = self.understand(tid, status)? {
                        return Ok(Some(event));
                    }
                }
                Ok(None) if stop() || until.is_some_and(|until| Instant::now() >= until) => {
                    return Ok(None);
                }
                Ok(None) => self.sleep(until),
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets go on who the last event stopped.
    pub fn resume(&mut self) {
        let Some((tid, since, signal)) = self.held.take() else { return };
        let others = self.gathering.take_if(|of| of.missing.is_empty());
        for other in others.into_iter().flat_map(|of| of.there).filter(|other| *other != tid) {
            self.go_on(other, 0);
        }
        let took_ns = since.elapsed().as_nanos() as u64;
        self.stopped_ns += took_ns;
        let longest = if self.ends { &mut self.longest_end_ns } else { &mut self.longest_stop_ns };
        *longest = took_ns.max(*longest);
        self.stops += 1;
        self.go_on(tid, signal);
        self.release_births();
    }

    /// Lets go on who has stopped by [`Tracer::interrupt`]; the others go on when they come to stop.
    pub fn give_up(&mut self) {
        for tid in self.gathering.take().into_iter().flat_map(|of| of.there) {
            self.go_on(tid, 0);
        }
    }

    /// Lets go of everybody; they run on.
    pub fn detach(mut self) {
        self.resume();
        let mut left: Vec<i32> = self.tasks.keys().copied().collect();
        left.retain(|tid| ptrace::interrupt(*tid).is_ok());
        let limit = Instant::now() + Duration::from_secs(2);
        while !left.is_empty() && Instant::now() < limit {
            match ptrace::changed() {
                Ok(Some((tid, status))) => {
                    let signal = delivery(status).unwrap_or(0);
                    let _ = ptrace::detach(tid, signal);
                    left.retain(|other| *other != tid);
                }
                Ok(None) => self.sleep(Some(limit)),
                Err(_) => return,
            }
        }
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
            let task = self.tasks.remove(&tid);
            self.is_missed(tid);
            let ends = task.is_some_and(|task| task.process == tid);
            return Ok(ends.then_some(Event::Ended { pid: tid, status }));
        }
        let signal = libc::WSTOPSIG(status);
        let Some(task) = self.tasks.get(&tid).copied() else {
            // A birth whose parent's event is still to come.
            self.tasks
                .insert(tid, Task { process: tid, calls_left: 0, is_born: false, waits: true });
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
            event::STOP => return Ok(self.stopped(tid, signal, task)),
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
        let waits = self.tasks.get(&child).is_some_and(|task| task.waits);
        let born = Task { process: child, calls_left, is_born: true, waits };
        self.tasks.insert(child, born);
        let pid = self.tasks.get(&tid)?.process;
        Some(Event::Forked { pid, child })
    }

    /// A thread, or a process by a clone of its own making.
    fn clone_of(&mut self, tid: i32, pid: i32) -> Option<Event> {
        let new = ptrace::message(tid).ok()? as i32;
        if !std::fs::exists(format!("/proc/{pid}/task/{new}")).unwrap_or(false) {
            return self.birth(tid, CALLS_BEFORE_EXEC);
        }
        let waits = self.tasks.get(&new).is_some_and(|task| task.waits);
        self.tasks.insert(new, Task { process: pid, calls_left: 0, is_born: true, waits: false });
        if waits {
            self.go_on(new, 0);
        }
        None
    }

    /// Who executes is alone afterwards, and has the process's number.
    fn executed(&mut self, pid: i32) {
        self.tasks.retain(|tid, task| task.process != pid || *tid == pid);
        self.tasks.insert(pid, Task::of(pid));
    }

    fn stopped(&mut self, tid: i32, signal: i32, task: Task) -> Option<Event> {
        if matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) {
            let _ = ptrace::stay_stopped(tid);
            return None;
        }
        let Some(gathering) = self.gathering.as_mut().filter(|of| of.missing.contains(&tid)) else {
            self.go_on(tid, 0);
            return None;
        };
        gathering.missing.retain(|other| *other != tid);
        gathering.there.push(tid);
        self.all_there(task.process)
    }

    fn all_there(&mut self, pid: i32) -> Option<Event> {
        let gathering = self.gathering.as_ref()?;
        let first = *gathering.there.first().filter(|_| gathering.missing.is_empty())?;
        self.held = Some((first, gathering.since, 0));
        self.ends = false;
        Some(Event::Stopped { pid })
    }

    /// A thread that ends will not come.
    fn is_missed(&mut self, tid: i32) {
        if let Some(gathering) = &mut self.gathering {
            gathering.missing.retain(|other| *other != tid);
        }
    }

    /// At the beginning or end of a call, which only forked children are stopped at.
    fn called(&mut self, tid: i32, pid: i32) -> Option<Event> {
        let task = self.tasks.get_mut(&tid)?;
        task.calls_left = task.calls_left.saturating_sub(1);
        ptrace::call_to_come(tid).is_some_and(ptrace::is_exec).then_some(Event::Executing { pid })
    }

    /// Who waits at its birth goes on once its parent's event has been looked at.
    fn release_births(&mut self) {
        let born = |task: &Task| task.is_born && task.waits;
        let ready: Vec<i32> =
            self.tasks.iter().filter(|(_, task)| born(task)).map(|(tid, _)| *tid).collect();
        for tid in ready {
            if let Some(task) = self.tasks.get_mut(&tid) {
                task.waits = false;
            }
            self.go_on(tid, 0);
        }
    }
}

impl Task {
    fn of(process: i32) -> Task {
        Task { process, calls_left: 0, is_born: true, waits: false }
    }
}

/// The signal that a stop was about to deliver.
fn delivery(status: i32) -> Option<i32> {
    let signal = libc::WSTOPSIG(status);
    let is_delivery = libc::WIFSTOPPED(status) && status >> 16 == 0 && signal & 0x80 == 0;
    (is_delivery && signal != libc::SIGTRAP).then_some(signal)
}

/// Some files are held open of each process, and there may be thousands. For this process alone:
/// after the command was started, which keeps its own limit.
fn open_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ =
        setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

/// Waits for the stop at its first instruction.
fn wait_for_stop(pid: i32) -> io::Result<()> {
    loop {
        match ptrace::changed()? {
            Some((tid, status)) if tid == pid && libc::WIFSTOPPED(status) => return Ok(()),
            Some((tid, _)) if tid == pid => {
                return Err(io::Error::other("it ended before its first instruction"));
            }
            _ => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}
