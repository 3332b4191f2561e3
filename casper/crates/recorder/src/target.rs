// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running process that is to be recorded: whose it is, and whether it may be asked.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use cowlab_machine::mappings::{self, Mapping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Gid, Pid, PidfdFlags, Uid, geteuid, pidfd_open, set_dumpable_behavior,
};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::gate::path_of_gate;

/// A process that uses libcasper, and that this process may record.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub pid: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Target {
    /// Process `pid`, as long as nothing was changed for it.
    pub fn find(pid: u32) -> Result<Target> {
        let none = || anyhow!("there is no process {pid}");
        let number = Pid::from_raw(pid.cast_signed()).with_context(none)?;
        let handle = pidfd_open(number, PidfdFlags::empty()).map_err(|_| none())?;
        let owner = std::fs::metadata(format!("/proc/{pid}")).map_err(|_| none())?;
        let target = Target { pid, uid: owner.uid(), gid: owner.gid() };
        ensure!(
            geteuid().is_root() || !target.is_anothers(),
            "process {pid} is user {}'s: run as that user or as root to record it",
            target.uid
        );
        let gate = path_of_gate(target.uid);
        ensure!(
            maps(pid, &gate)?,
            "process {pid} does not map {}, so it does not use libcasper (casper-trace record \
             attaches to programs that link it; others are recorded when it starts them)",
            gate.display()
        );
        ensure!(
            !is_filtered(pid),
            "process {pid} runs under a seccomp filter, which may end it when it enters the \
             recording: start it with `casper-trace record -- COMMAND`"
        );
        // Not a later one of the same number: it is still there.
        let mut ended = [PollFd::new(&handle, PollFlags::IN)];
        ensure!(poll(&mut ended, Some(&Timespec::default()))? == 0, none());
        Ok(target)
    }

    /// Whether its user is not this process's.
    pub fn is_anothers(&self) -> bool {
        self.uid != geteuid().as_raw()
    }

    /// Take on its user, for good: what its programs write is then read with no more rights than
    /// theirs. What this process has open stays out of their reach, since it is not dumpable.
    pub fn become_its_user(&self) -> Result<()> {
        let (user, group) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let change = || {
            set_thread_groups(&[group])?;
            set_thread_res_gid(group, group, group)?;
            set_thread_res_uid(user, user, user)?;
            // As fs.suid_dumpable would have it otherwise.
            set_dumpable_behavior(DumpableBehavior::NotDumpable)
        };
        change().with_context(|| {
            format!("cannot become user {} to record process {}", self.uid, self.pid)
        })
    }
}

pub fn mappings_of(pid: u32) -> Result<Vec<Mapping>> {
    let path = format!("/proc/{pid}/maps");
    let text = std::fs::read(&path).with_context(|| path.clone())?;
    Ok(mappings::parse(Path::new(&path), &String::from_utf8_lossy(&text))?)
}

fn maps(pid: u32, gate: &Path) -> Result<bool> {
    let is_gate = |mapping: &Mapping| {
        mapping.is_shared && mapping.name.as_deref().map(Path::new) == Some(gate)
    };
    Ok(mappings_of(pid)?.iter().any(is_gate))
}

/// Whether a filter decides about the system calls of one of its threads that this process has not:
/// a container's own is inherited by all in it.
fn is_filtered(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let own = filters(Path::new("/proc/thread-self"));
    threads.flatten().any(|thread| filters(&thread.path()) > own)
}

/// How many filters a thread has; before Linux 5.9, whether it has any.
fn filters(thread: &Path) -> u32 {
    let status = std::fs::read(thread.join("status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let value = |key| status.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    value("Seccomp_filters:").or_else(|| value("Seccomp:")).unwrap_or(0)
}
