// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a process has ended. The kernel tells the end of its first thread, which is a zombie
//! from then on: others may go on, and one that executes something takes the first one's place.

use std::collections::HashSet;
use std::fs;

use cowlab_machine::Stat;

use crate::bpf::{Event, Happening};

/// Whether all of its threads have ended. `stat` is the first one's.
pub(super) fn has_ended(pid: u32, stat: &Stat) -> bool {
    stat.has_ended() && !goes_on(pid)
}

/// Whether a thread of the process is neither dead nor about to be.
pub(super) fn goes_on(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| thread.file_name().to_str()?.parse::<u32>().ok())
        .filter(|tid| *tid != pid)
        .map(|tid| Stat::read_thread(pid, tid))
        // Last, as one of the others may take its place while this looks.
        .chain(std::iter::once_with(|| Stat::read(pid)))
        .any(|stat| stat.is_some_and(|stat| !stat.is_ending()))
}

/// Of each event, whether it is an end after which the same process executes something: that of a
/// first thread whose place another takes, however soon all of it has ended then.
pub(super) fn before_an_exec(events: &[Event]) -> Vec<bool> {
    let mut executes = HashSet::new();
    let mut found: Vec<bool> = Vec::with_capacity(events.len());
    for event in events.iter().rev() {
        let is_such = match event.what {
            Happening::Exit => executes.contains(&event.tgid),
            Happening::Exec => {
                executes.insert(event.tgid);
                false
            }
            Happening::Killed(_) => false,
            Happening::Fork(fork) => {
                // Before its birth the number was another's.
                if let Some(child) = fork.child_tgid {
                    executes.remove(&child);
                }
                false
            }
        };
        found.push(is_such);
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use super::*;
    use crate::bpf::ForkEvent;

    #[test]
    fn a_zombie_has_ended_and_this_process_has_not() {
        assert!(goes_on(std::process::id()) && !goes_on(u32::MAX));
        let mut child = Command::new("true").spawn().unwrap();
        let began = Instant::now();
        while goes_on(child.id()) && began.elapsed().as_secs() < 10 {
            std::thread::yield_now();
        }
        assert!(!goes_on(child.id()), "nobody has reaped it");
        child.wait().unwrap();
    }

    #[test]
    fn an_end_before_an_exec_is_one_threads_alone() {
        let event = |tgid, what| Event { time_ns: 0, tgid, tid: tgid, comm: String::new(), what };
        let fork = |child| {
            let fork = ForkEvent { child_tgid: Some(child), shares_memory: false, stop_ns: None };
            event(1, Happening::Fork(fork))
        };
        let (exit, exec) = (|pid| event(pid, Happening::Exit), |pid| event(pid, Happening::Exec));
        let events = [exit(7), exit(8), exec(7), exit(7)];
        assert_eq!(before_an_exec(&events), [true, false, false, false]);
        // The number is used again: what executes something is another.
        let events = [exit(7), fork(7), exec(7), exit(7)];
        assert_eq!(before_an_exec(&events), [false; 4]);
        assert!(before_an_exec(&[]).is_empty());
    }
}
