// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work on hostile input in a process of its own, which is given up when it takes too much memory or time.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, set_parent_process_death_signal,
    setrlimit, waitpid,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What the process may allocate beside what it inherits.
const DATA_MOST_BYTES: u64 = 192 << 20;
const ITEM_MOST: Duration = Duration::from_secs(5);
/// Of answers, together.
const ANSWERS_MOST_BYTES: usize = 32 << 20;
/// After so many items that took too much the others are left out, too.
const FAILURES_MOST: usize = 4;

/// What `work` makes of each item; `None` where that took too much. The process inherits open files: none of them may
/// be one that has to be closed soon.
pub fn apart<I, T: Serialize + DeserializeOwned>(
    items: &[I],
    work: impl Fn(&I) -> T,
) -> Vec<Option<T>> {
    let (mut answers, mut failures, mut room) = (Vec::new(), 0, ANSWERS_MOST_BYTES);
    while answers.len() < items.len() && failures < FAILURES_MOST {
        let rest = &items[answers.len()..];
        let Some((child, mut pipe)) = start(|mut pipe| {
            for item in rest {
                let answer = serde_json::to_vec(&work(item)).ok()?;
                pipe.write_all(&answer.len().to_le_bytes()).ok()?;
                pipe.write_all(&answer).ok()?;
            }
            Some(())
        }) else {
            break;
        };
        for _ in rest {
            let answer =
                receive(&mut pipe, &mut room).and_then(|of| serde_json::from_slice(&of).ok());
            let is_missing = answer.is_none();
            answers.push(answer);
            if is_missing {
                failures += 1;
                break;
            }
        }
        end(child);
    }
    answers.resize_with(items.len(), || None);
    answers
}

fn receive(pipe: &mut File, room: &mut usize) -> Option<Vec<u8>> {
    let until = Instant::now() + ITEM_MOST;
    let mut length = [0; size_of::<usize>()];
    fill(pipe, &mut length, until)?;
    let length = usize::from_le_bytes(length);
    *room = room.checked_sub(length)?;
    let mut answer = vec![0; length];
    fill(pipe, &mut answer, until)?;
    Some(answer)
}

/// `None` where the other side ended before, or is too late.
fn fill(pipe: &mut File, bytes: &mut [u8], until: Instant) -> Option<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let left = until.checked_duration_since(Instant::now())?;
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        match pipe.read(&mut bytes[filled..]) {
            Ok(0) | Err(_) => return None,
            Ok(read) => filled += read,
        }
    }
    Some(())
}

/// A copy of this process that does only that, and the end of a pipe from it.
fn start(work: impl FnOnce(File) -> Option<()>) -> Option<(Pid, File)> {
    let (read, write): (OwnedFd, OwnedFd) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    let inherited_bytes = data_bytes()?;
    // SAFETY: the child goes on as this one thread does. glibc leaves its allocator usable there; nothing is printed,
    // no lock of ours is taken that another thread may have held, and the child ends without any of the parent's
    // destructors.
    match unsafe { libc::fork() } {
        -1 => None,
        0 => {
            let did = catch_unwind(AssertUnwindSafe(|| {
                confine(inherited_bytes)?;
                drop(read);
                work(File::from(write))
            }));
            // SAFETY: it has no conditions.
            unsafe { libc::_exit(i32::from(!matches!(did, Ok(Some(()))))) }
        }
        child => Some((Pid::from_raw(child)?, File::from(read))),
    }
}

fn confine(inherited_bytes: u64) -> Option<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).ok()?;
    let limit = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    setrlimit(Resource::Core, limit(0)).ok()?;
    setrlimit(Resource::Data, limit(inherited_bytes + DATA_MOST_BYTES)).ok()?;
    // Where memory is short Rust says so, and nobody should read that.
    let nowhere = File::options().write(true).open("/dev/null").ok()?;
    rustix::stdio::dup2_stderr(nowhere).ok()
}

/// Private writable memory (proc_pid_statm(5), field 6).
fn data_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(5)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Kills it. What does not end even so waits for a file, and is not waited for.
fn end(child: Pid) {
    let _ = kill_process(child, Signal::KILL);
    for _ in 0..100 {
        match waitpid(Some(child), WaitOptions::NOHANG) {
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_much_has_no_answer_and_others_have() {
        let did = apart(&[1, 2, 3, 4], |item| match item {
            2 => panic!("as hostile input may"),
            3 => vec![1_u64; 40 << 20].len(),
            item => *item,
        });
        assert_eq!(did, [Some(1), None, None, Some(4)]);
        let long = apart(&[1, 2], |item| "x".repeat(*item * (12 << 20)));
        assert_eq!(long.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    }
}
