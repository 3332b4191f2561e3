// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the thread that claimed a buffer still exists.

use std::time::{Duration, Instant};

use cowlab_machine::Stat;

/// How often a quiet thread is looked for.
const PATIENCE: Duration = Duration::from_millis(20);

/// What a look at `/proc` showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It exists, or that cannot be known from here.
    There,
    /// It has ended: nothing more comes from it.
    Gone,
}

/// A thread, told from a later one of the same number by its start time.
#[derive(Debug)]
pub struct Owner {
    pub pid: u32,
    pub tid: u32,
    pid_namespace: u64,
    started: Option<u64>,
    looked: Instant,
}

impl Owner {
    /// The thread `tid` of process `pid`, numbered in the given namespace.
    pub fn new(pid: u32, tid: u32, pid_namespace: u64) -> Owner {
        let started = started(pid, tid);
        let looked = Instant::now().checked_sub(PATIENCE).unwrap_or_else(Instant::now);
        Owner { pid, tid, pid_namespace, started, looked }
    }

    /// Its name, if it still exists.
    pub fn name(&self) -> Option<String> {
        let path = format!("/proc/{}/task/{}/comm", self.pid, self.tid);
        Some(std::fs::read_to_string(path).ok()?.trim_end().to_owned())
    }

    /// Look for it, but not too often. A thread of another pid namespace has other numbers here,
    /// so it is never said to be gone: its buffer is kept until the recording ends.
    pub fn look(&mut self, our_namespace: u64) -> Seen {
        if self.pid_namespace == 0 || self.pid_namespace != our_namespace {
            return Seen::There;
        }
        if self.looked.elapsed() < PATIENCE {
            return Seen::There;
        }
        self.looked = Instant::now();
        match (started(self.pid, self.tid), self.started) {
            (Some(now), Some(then)) if now == then => Seen::There,
            _ => Seen::Gone,
        }
    }
}

/// When a thread started, in clock ticks since boot; `None` if there is none, or a zombie.
fn started(pid: u32, tid: u32) -> Option<u64> {
    Stat::read_thread(pid, tid).filter(|stat| !stat.has_ended()).map(|stat| stat.start_ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_there_until_it_ends() {
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = receive.recv();
        });
        let tid = told.recv().unwrap();
        let mut owner = Owner::new(std::process::id(), tid, 1);
        assert_eq!(owner.look(1), Seen::There);
        drop(send);
        thread.join().unwrap();
        std::thread::sleep(PATIENCE * 2);
        assert_eq!(owner.look(2), Seen::There, "another namespace: not known");
        assert_eq!(owner.look(1), Seen::Gone);
    }
}
