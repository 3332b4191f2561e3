// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The few requests of ptrace(2) that following a command takes. libc's call itself, since nix knows
//! no real-time signals, which threads of glibc send each other, and rustix has no ptrace.
//!
//! Who is traced and loses its tracer, by SIGKILL too, goes on untraced: the kernel sees to it.
//! Safety: no request here reads or writes memory of the traced process or of this one, but those
//! that fill one value, whose size is given.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null_mut;

use libc::{c_long, c_uint, c_void};

/// Kinds of stops, in the high byte of a status (`status >> 16`).
pub(super) mod event {
    pub const FORK: i32 = libc::PTRACE_EVENT_FORK;
    pub const VFORK: i32 = libc::PTRACE_EVENT_VFORK;
    pub const CLONE: i32 = libc::PTRACE_EVENT_CLONE;
    pub const EXEC: i32 = libc::PTRACE_EVENT_EXEC;
    pub const EXIT: i32 = libc::PTRACE_EVENT_EXIT;
    pub const STOP: i32 = libc::PTRACE_EVENT_STOP;
}

const OPTIONS: i32 = libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_TRACESYSGOOD;

fn request(what: c_uint, tid: i32, data: usize) -> io::Result<c_long> {
    // SAFETY: callers pass only requests whose `addr` is unused and whose `data` is a number.
    let result = unsafe { libc::ptrace(what, tid, null_mut::<c_void>(), data as *mut c_void) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Have `command` stop at its first instruction, for its parent.
pub(super) fn stop_at_exec(command: &mut Command) {
    let trace_me = || request(libc::PTRACE_TRACEME, 0, 0).map(drop);
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(trace_me) };
}

/// Turn the stop of [`stop_at_exec`] into one that job control and SIGSTOP do not disturb.
pub(super) fn seize_stopped(pid: i32) -> io::Result<()> {
    // It gets SIGSTOP before it executes anything, so nothing runs between the two attachments.
    request(libc::PTRACE_DETACH, pid, libc::SIGSTOP as usize)?;
    seize(pid)
}

/// Trace thread `tid`, and what it forks, without stopping it.
fn seize(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, OPTIONS as usize).map(drop)
}

pub(super) fn interrupt(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0).map(drop)
}

/// Let it go on, with `signal` if not 0.
pub(super) fn go_on(tid: i32, signal: i32, to_next_call: bool) -> io::Result<()> {
    let what = if to_next_call { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
    request(what, tid, signal as usize).map(drop)
}

/// Leave it stopped as SIGSTOP left it, until SIGCONT.
pub(super) fn stay_stopped(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0).map(drop)
}

pub(super) fn detach(tid: i32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, signal as usize).map(drop)
}

/// What an event tells: of a fork the child's pid.
pub(super) fn message(tid: i32) -> io::Result<i64> {
    let mut value: libc::c_ulong = 0;
    // SAFETY: the request writes one unsigned long to `data`, which points to one.
    let result = unsafe {
        let to = (&raw mut value).cast::<c_void>();
        libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, null_mut::<c_void>(), to)
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(value as i64) }
}

/// The number of the call that it is about to make; `None` at the end of one.
pub(super) fn call_to_come(tid: i32) -> Option<u64> {
    // `struct ptrace_syscall_info`: op, padding, arch, two addresses, then of an entry the number.
    let mut bytes = [0u8; 128];
    // SAFETY: the request writes at most `addr` bytes to `data`, which points to that many.
    let result = unsafe {
        let size = bytes.len() as *mut c_void;
        libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, tid, size, bytes.as_mut_ptr().cast::<c_void>())
    };
    let number = bytes.get(24..32)?.try_into().ok()?;
    (result >= 32 && bytes[0] == libc::PTRACE_SYSCALL_INFO_ENTRY)
        .then(|| u64::from_ne_bytes(number))
}

/// Whether a call of that number replaces the program.
pub(super) fn is_exec(number: u64) -> bool {
    number == libc::SYS_execve as u64 || number == libc::SYS_execveat as u64
}

/// A thread whose state changed, with its wait status; `None` where none has, an error where
/// nothing is traced any more.
pub(super) fn changed() -> io::Result<Option<(i32, i32)>> {
    let mut status = 0;
    // SAFETY: `status` is one int, and stays for the call.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) } {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        tid => Ok(Some((tid, status))),
    }
}
