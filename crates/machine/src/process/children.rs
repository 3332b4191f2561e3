// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The children of a process that are alive, with what tells them from later ones.

use std::{fs, io};

use crate::process::error::ProcessError;
use crate::process::stat::Stat;
use crate::process::target::Target;

/// A child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its pid.
    pub pid: i32,
    /// Its name, parent, state and start.
    pub stat: Stat,
}

/// The children that are alive, by pid: those of any of its threads. Children of children are not
/// among them, and neither are those who wait to be reaped. Fails once the process itself has
/// ended.
pub fn children(of: &Target) -> Result<Vec<Child>, ProcessError> {
    let mut pids = match listed(of)? {
        Some(pids) => pids,
        None => return Ok(among(of.pid(), &everybody())),
    };
    pids.sort_unstable();
    Ok(pids.into_iter().filter_map(read).collect())
}

/// The living children that run on as they were forked; and those of which that may not be seen.
pub fn forked(of: &Target) -> Result<(Vec<Target>, Vec<i32>), ProcessError> {
    let image = of.image()?;
    let (mut forked, mut unseen) = (Vec::new(), Vec::new());
    for target in pids(of)?.into_iter().filter_map(|pid| Target::open(pid).ok()) {
        match target.image() {
            Ok(its) if its == image => forked.push(target),
            Err(ProcessError::NoPermission { pid, .. }) => unseen.push(pid),
            _ => {}
        }
    }
    Ok((forked, unseen))
}

/// The numbers of the children alone, which is cheaper by the read of a file for each; those who wait
/// to be reaped are among them. Fails once the process itself has ended.
pub fn pids(of: &Target) -> Result<Vec<i32>, ProcessError> {
    let all = || among(of.pid(), &everybody()).into_iter().map(|child| child.pid).collect();
    Ok(listed(of)?.unwrap_or_else(all))
}

/// By the kernel's own lists, one a thread; `None` without CONFIG_PROC_CHILDREN.
fn listed(of: &Target) -> Result<Option<Vec<i32>>, ProcessError> {
    let threads = fs::read_dir(of.path("task")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => of.lost_memory(),
        _ => of.failed("task", error),
    })?;
    // Whether the number has changed hands is asked after the folder was opened by it.
    of.stat()?;
    let mut pids = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => pids.extend(text.split_ascii_whitespace().flat_map(str::parse::<i32>)),
            // A thread that ended meanwhile has no children: its threads inherited them.
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

/// Every process that this one may see.
fn everybody() -> Vec<Child> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(read).collect()
}

/// `None` of one that has ended meanwhile, or only waits to be reaped.
fn read(pid: i32) -> Option<Child> {
    let stat = Stat::of(pid).filter(|stat| !stat.has_ended())?;
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
            let of = |child: Child| children(&Target::open(child.pid).unwrap()).unwrap().len();
            children(&target).unwrap().into_iter().map(of).sum()
        };
        let wait = Instant::now();
        while grandchildren() < 1 && wait.elapsed().as_secs() < 10 {
            std::thread::yield_now();
        }
        let found = children(&target).unwrap();
        assert_eq!(pids(&target).unwrap().len(), 3);
        assert_eq!(found.len(), 3, "{found:?}");
        // Their states and faults go on between the two looks.
        let who = |all: &[Child]| -> Vec<(i32, u64)> {
            all.iter().map(|child| (child.pid, child.stat.start_ticks)).collect()
        };
        assert_eq!(who(&found), who(&among(target.pid(), &everybody())));
        assert!(found.iter().all(|child| child.stat.start_ticks >= target.start_ticks()));
        assert_eq!(grandchildren(), 1);
        kill_process_group(Pid::from_child(&shell), Signal::KILL).unwrap();
        shell.wait().unwrap();
        assert!(matches!(children(&target), Err(ProcessError::Vanished { .. })));
    }
}
