// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server's memory costs, over time: its RSS, and what its control group is charged, which
//! counts the parts of huge pages that nobody maps any more and RSS does not. And when a hypervisor
//! took CPU time away meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cowlab_machine::status;

use crate::task::stolen_ns;

/// How often they are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// A control group of memory, of either version, for one server. Dropped, it is removed: its
/// processes must have ended.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    is_v1: bool,
}

impl Group {
    /// Makes one below this process's own and moves `pid` into it. An error says what is missing.
    pub fn of(pid: u32) -> Result<Group, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
        let (parent, is_v1) = parent(&own, &mounts)
            .ok_or("needs a mounted control group hierarchy with the memory controller")?;
        let folder = Path::new(&parent).join(format!("cowlab-bench-{pid}"));
        fs::create_dir(&folder)
            .map_err(|error| format!("needs a control group of its own, in {parent}: {error}"))?;
        let group = Group { folder, is_v1 };
        if group.read().is_none() {
            return Err(format!("the memory controller is not switched on below {parent}"));
        }
        fs::write(group.folder.join("cgroup.procs"), pid.to_string())
            .map_err(|error| format!("the server cannot be moved into its group: {error}"))?;
        Ok(group)
    }

    /// What it is charged now without page cache.
    fn read(&self) -> Option<u64> {
        let number = |file: &str| -> Option<u64> {
            fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
        };
        let (usage, cache) = match self.is_v1 {
            true => ("memory.usage_in_bytes", "total_cache "),
            false => ("memory.current", "file "),
        };
        let stat = fs::read_to_string(self.folder.join("memory.stat")).ok()?;
        let cache = stat.lines().find_map(|line| line.strip_prefix(cache)?.parse().ok());
        Some(number(usage)?.saturating_sub(cache.unwrap_or(0)))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel needs a moment after the last process ended.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Where this process's group of the memory controller is, and whether it is of version 1.
fn parent(own: &str, mounts: &str) -> Option<(String, bool)> {
    let groups: Vec<(&str, &str)> =
        own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).collect();
    let mount = |kind: &str, controller: &str| {
        mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let fits = words.get(2) == Some(&kind)
                && words.get(3)?.split(',').any(|word| controller.is_empty() || word == controller);
            fits.then(|| words[1].to_owned())
        })
    };
    let v1 = groups.iter().find(|(names, _)| names.split(',').any(|name| name == "memory"));
    if let Some((_, path)) = v1 {
        let root = mount("cgroup", "memory")?;
        // In a container the mount may already begin at the group.
        let whole = format!("{root}{path}");
        return Some((if Path::new(&whole).exists() { whole } else { root }, true));
    }
    let (_, path) = groups.iter().find(|(names, _)| names.is_empty())?;
    let root = mount("cgroup2", "")?;
    Some((format!("{root}{}", path.trim_end_matches('/')), false))
}

/// One look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Since the beginning.
    pub at_ns: u64,
    /// VmRSS of the server.
    pub rss_bytes: u64,
    /// What its group is charged.
    pub group_bytes: Option<u64>,
    /// CPU time that a hypervisor gave to others so far; `None` where the kernel does not tell it.
    pub stolen_ns: Option<u64>,
}

/// Look at the server's memory, and at what was stolen, until `stop`.
pub fn watch(
    pid: u32,
    group: Option<&Group>,
    began: Instant,
    stop: &AtomicBool,
) -> Result<Vec<Look>> {
    let mut looks = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        // One that has ended has no memory, whether it was waited for or not.
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok();
        let rss_bytes = status.and_then(|text| status::bytes(&text, "VmRSS"));
        let rss_bytes = rss_bytes.context("redis-server ended while its memory was watched")?;
        looks.push(Look {
            at_ns: began.elapsed().as_nanos() as u64,
            rss_bytes,
            group_bytes: group.and_then(Group::read),
            stolen_ns: stolen_ns(),
        });
        std::thread::sleep(LOOK);
    }
    Ok(looks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_either_version_is_found() {
        let v1 = "cgroup /no/such/memory cgroup rw,relatime,memory 0 0\n\
                  cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let own = "4:memory:/box\n0::/\n";
        assert_eq!(parent(own, v1), Some(("/no/such/memory".into(), true)));
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let found = parent("0::/user.slice/a b\n", v2);
        assert_eq!(found, Some(("/sys/fs/cgroup/user.slice/a b".into(), false)));
        assert_eq!(parent("", v2), None);
        assert_eq!(parent("0::/\n", ""), None);
    }

    fn watched(pid: u32) -> Result<Vec<Look>> {
        let (stop, began) = (AtomicBool::new(false), Instant::now());
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(pid, None, began, &stop));
            std::thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
            watcher.join().unwrap()
        })
    }

    #[test]
    fn ones_own_memory_is_watched() {
        let looks = watched(std::process::id()).unwrap();
        assert!(!looks.is_empty() && looks.iter().all(|look| look.rss_bytes > 0));
    }

    #[test]
    fn a_server_that_ended_has_no_memory_rather_than_0() {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), ended).unwrap();
        let error = watched(child.id()).unwrap_err().to_string();
        assert_eq!(error, "redis-server ended while its memory was watched");
        child.wait().unwrap();
    }
}
