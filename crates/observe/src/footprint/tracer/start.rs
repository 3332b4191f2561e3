// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How following begins: with a command that has run nothing yet.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGCHLD;

use super::super::ptrace;
use super::{Task, Tracer};

impl Tracer {
    pub(super) fn new(mark: Option<i32>) -> io::Result<Tracer> {
        let (wake, ring) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD, ring)?;
        Ok(Tracer {
            wake,
            tasks: HashMap::new(),
            held: None,
            ends: false,
            mark,
            stopped_ns: 0,
            longest_stop_ns: 0,
            longest_end_ns: 0,
            stops: 0,
        })
    }

    /// Starts `command`, which is stopped before its first instruction, as by
    /// [`Event::Executed`](super::Event::Executed). `mark` is the signal by which it marks moments.
    /// After an error nothing of it is left.
    pub fn start(mut command: Command, mark: Option<i32>) -> io::Result<(Tracer, i32)> {
        let mut tracer = Tracer::new(mark)?;
        ptrace::stop_at_exec(&mut command);
        let pid = command.spawn()?.id() as i32;
        open_many_files();
        seize_at_exec(pid).inspect_err(|_| end_unrun(pid))?;
        tracer.tasks.insert(pid, Task::of(pid));
        tracer.hold(pid, 0);
        Ok((tracer, pid))
    }

    /// Ends a command that was started and has run nothing yet.
    pub fn end_unrun(&mut self, pid: i32) {
        self.held = None;
        self.tasks.remove(&pid);
        end_unrun(pid);
    }
}

/// Some files are held open of each process, and there may be thousands. For this process alone:
/// after the command was started, which keeps its own limit.
fn open_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// From the stop at its first instruction to one of a process that is followed.
fn seize_at_exec(pid: i32) -> io::Result<()> {
    wait_for_stop(pid)?;
    ptrace::seize_stopped(pid).map_err(refused)?;
    wait_for_stop(pid)?;
    kill(pid, Signal::CONT)
}

/// What can be done about it. The kernel lets nobody look at a program that he may not read.
fn refused(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EPERM) {
        return error;
    }
    io::Error::other(
        "ptrace(2) is refused: its file can be executed by this user and not be read; make it \
         readable, or run cowlab with CAP_SYS_PTRACE",
    )
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

/// Kills a child and reaps it. It is this process's until it is reaped, so its number is nobody
/// else's; one that was reaped already is left alone.
fn end_unrun(pid: i32) {
    loop {
        match ptrace::changed() {
            Ok(Some((tid, status))) if tid == pid && !libc::WIFSTOPPED(status) => return,
            Ok(_) if kill(pid, Signal::KILL).is_ok() => {
                // It may stop once more, at its end.
                let _ = ptrace::go_on(pid, 0, false);
                std::thread::sleep(Duration::from_millis(1));
            }
            _ => return,
        }
    }
}

fn kill(pid: i32, signal: Signal) -> io::Result<()> {
    let number = Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
    Ok(kill_process(number, signal)?)
}
