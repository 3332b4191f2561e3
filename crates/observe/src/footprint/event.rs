// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens to processes that are followed.

/// What happened. Who is named by `pid` is stopped until [`Tracer::resume`](super::tracer::Tracer::resume).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It has executed a program, of which nothing has run yet.
    Executed {
        pid: i32,
    },
    /// It has forked; the child is stopped as well, and has not run.
    Forked {
        pid: i32,
        child: i32,
    },
    /// It made a child that shares its memory (vfork, posix_spawn).
    Spawned {
        pid: i32,
    },
    /// A forked child is about to execute a program. That may fail, and come again.
    Executing {
        pid: i32,
    },
    /// It has sent itself the signal that marks a moment.
    Marked {
        pid: i32,
    },
    Ending {
        pid: i32,
    },
    /// It has ended, with this wait status; nobody is to be resumed.
    Ended {
        pid: i32,
        /// As wait(2) has it.
        status: i32,
    },
}

impl Event {
    pub fn pid(&self) -> i32 {
        match *self {
            Event::Executed { pid }
            | Event::Forked { pid, .. }
            | Event::Spawned { pid }
            | Event::Executing { pid }
            | Event::Marked { pid }
            | Event::Ending { pid }
            | Event::Ended { pid, .. } => pid,
        }
    }
}
