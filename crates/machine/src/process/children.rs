// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The living children of a process.

use std::{fs, io};

use crate::process::Target;
use crate::process::error::ProcessError;
use crate::process::stat::Stat;
use crate::process::status;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    pub pid: i32,
    /// Its name, parent, state and start.
    pub stat: Stat,
}

/// The living children of all its threads, by PID, without grandchildren and without those that wait to
/// be reaped. Fails once the process itself has ended.
pub fn children(target: &Target) -> Result<Vec<Child>, ProcessError> {
    let mut pids = match listed(target)? {
        Some(pids) => pids,
        None => return Ok(among(target.pid(), &all_processes())),
    };
    pids.sort_unstable();
    Ok(pids.into_iter().filter_map(read).collect())
}

/// The living children that have not executed another program, and the PIDs of those whose program
/// may not be read.
pub fn forked(target: &Target) -> Result<(Vec<Target>, Vec<i32>), ProcessError> {
    let image = target.image()?;
    let (mut forked, mut unseen) = (Vec::new(), Vec::new());
    for child in pids(target)?.into_iter().filter_map(|pid| Target::open(pid).ok()) {
        match child.image() {
            Ok(its) if its == image => forked.push(child),
            Err(ProcessError::NoPermission { pid, .. }) => unseen.push(pid),
            _ => {}
        }
    }
    Ok((forked, unseen))
}

/// Whether it waits without a time limit for a futex that only its own process can wake, and has no other thread:
/// it will wait until it is killed.
pub fn is_stuck(child: &Target) -> bool {
    let is_alone =
        child.read("status").is_ok_and(|status| status::field(&status, "Threads") == Some("1"));
    is_alone && child.read("syscall").is_ok_and(|text| is_endless_wait(&text))
}

/// Of the text of /proc/PID/syscall: the call, its arguments, the stack pointer and the instruction.
fn is_endless_wait(text: &str) -> bool {
    const FUTEX: &str = if cfg!(target_arch = "x86_64") { "202" } else { "98" };
    const PRIVATE: u64 = 128;
    // FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET (include/uapi/linux/futex.h).
    const WAITS: [u64; 3] = [0, 6, 9];
    let mut words = text.split_ascii_whitespace();
    let call = words.next();
    let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let arguments: Vec<u64> = words.map_while(number).collect();
    let [_, operation, _, limit, ..] = arguments[..] else { return false };
    let is_private = operation & PRIVATE != 0;
    call == Some(FUTEX) && is_private && WAITS.contains(&(operation & 0x7f)) && limit == 0
}

/// The PIDs of the children, those that wait to be reaped included: cheaper, since no file is read for
/// each. Fails once the process itself has ended.
pub fn pids(target: &Target) -> Result<Vec<i32>, ProcessError> {
    let all = || among(target.pid(), &all_processes()).into_iter().map(|child| child.pid).collect();
    Ok(listed(target)?.unwrap_or_else(all))
}

/// From the kernel's lists, one per thread; `None` without CONFIG_PROC_CHILDREN.
fn listed(target: &Target) -> Result<Option<Vec<i32>>, ProcessError> {
    let threads = fs::read_dir(target.path("task")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => target.lost_memory(),
        _ => target.failed("task", error),
    })?;
    // The folder was opened by PID: check afterwards that it is still the same process.
    target.stat()?;
    let mut pids = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => pids.extend(text.split_ascii_whitespace().flat_map(str::parse::<i32>)),
            // A thread that ended meanwhile has no children: other threads inherited them.
            Err(_) if !thread.path().exists() => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(pids))
}

fn among(parent: i32, all: &[Child]) -> Vec<Child> {
    let mut found: Vec<Child> =
        all.iter().filter(|child| child.stat.parent == parent).cloned().collect();
    found.sort_unstable_by_key(|child| child.pid);
    found
}

fn all_processes() -> Vec<Child> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(read).collect()
}

/// `None` if it has ended.
fn read(pid: i32) -> Option<Child> {
    let stat = Stat::read(pid).filter(|stat| !stat.has_ended())?;
    Some(Child { pid, stat })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_wait_that_nobody_can_end_is_told_from_others() {
        let wait = |operation: &str, limit: &str| {
            is_endless_wait(&format!(
                "202 0x7ffc1 {operation} 0x0 {limit} 0x0 0xffffffff 0x7ffc0 0x7f0\n"
            ))
        };
        assert!(wait("0x189", "0x0") && wait("0x80", "0x0"));
        // With a limit; of memory that other processes map; a wake-up.
        assert!(!wait("0x189", "0x7ffc8") && !wait("0x109", "0x0") && !wait("0x81", "0x0"));
        for other in
            ["running\n", "-1 0x7 0x8\n", "0 0x0 0x80 0x0 0x0 0x0 0x0 0x1 0x2\n", "", "202\n"]
        {
            assert!(!is_endless_wait(other), "{other}");
        }
    }

    #[test]
    fn both_ways_find_the_same_children_and_no_grandchild() {
        let script = "sleep 60 & sleep 60 & (sleep 60; true) & echo ready; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        std::io::Read::read(shell.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        let target = Target::open(shell.id() as i32).unwrap();
        let grandchildren = || -> usize {
            let count = |child: Child| children(&Target::open(child.pid).unwrap()).unwrap().len();
            children(&target).unwrap().into_iter().map(count).sum()
        };
        let wait = Instant::now();
        while grandchildren() < 1 && wait.elapsed().as_secs() < 10 {
            std::thread::yield_now();
        }
        let found = children(&target).unwrap();
        assert_eq!(pids(&target).unwrap().len(), 3);
        assert_eq!(found.len(), 3, "{found:?}");
        // States and faults change between the two reads.
        let who = |all: &[Child]| -> Vec<(i32, u64)> {
            all.iter().map(|child| (child.pid, child.stat.start_ticks)).collect()
        };
        assert_eq!(who(&found), who(&among(target.pid(), &all_processes())));
        assert!(found.iter().all(|child| child.stat.start_ticks >= target.start_ticks()));
        assert_eq!(grandchildren(), 1);
        kill_process_group(Pid::from_child(&shell), Signal::KILL).unwrap();
        shell.wait().unwrap();
        assert!(matches!(children(&target), Err(ProcessError::Vanished { .. })));
    }
}
