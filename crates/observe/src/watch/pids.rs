// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which processes are wanted: a pid, a name, a control group, all.

use std::fs;
use std::path::{Path, PathBuf};

use cowlab_machine::ProcessError;

use super::reading;
use crate::target::{Stat, Target};

/// Which processes to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// One.
    Pid(u32),
    /// Every one of that name (the kernel's, 15 bytes at most), also those that start later.
    Name(String),
    /// Those in a control group and the groups in it, also those that start later.
    Cgroup(PathBuf),
    /// All.
    All,
}

/// Why there is nothing to watch.
#[derive(Debug, thiserror::Error)]
pub enum WantedError {
    /// The pid.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Nobody has the name.
    #[error("no process is named {0}: names are the kernel's, as `ps -o comm` shows them")]
    NoSuchName(String),
    /// No such group.
    #[error(
        "{}: not a control group (no cgroup.procs in it); name its folder, such as \
         /sys/fs/cgroup/system.slice/redis-server.service",
        .0.display()
    )]
    NotACgroup(PathBuf),
    /// An empty group.
    #[error("no process is in the control group {}", .0.display())]
    EmptyCgroup(PathBuf),
}

impl Wanted {
    /// A pid if it is a number, else a name.
    pub fn parse(word: &str) -> Wanted {
        match word.parse() {
            Ok(pid) => Wanted::Pid(pid),
            // The kernel cuts names as well.
            Err(_) => {
                let bytes = word.as_bytes();
                let cut = &bytes[..bytes.len().min(15)];
                Wanted::Name(String::from_utf8_lossy(cut).into_owned())
            }
        }
    }

    /// Who is there now: each with what it is, in order of pid. Kernel threads and this process
    /// are not among them.
    ///
    /// # Errors
    /// Nothing is there that could be watched.
    pub fn find(&self) -> Result<Vec<(u32, Stat)>, WantedError> {
        let found: Vec<(u32, Stat)> = match self {
            Wanted::Pid(pid) => {
                let target = Target::open(i32::try_from(*pid).unwrap_or(0))?;
                vec![(*pid, target.stat()?)]
            }
            Wanted::Name(name) => {
                everybody().into_iter().filter(|(_, stat)| stat.name == *name).collect()
            }
            Wanted::Cgroup(path) => {
                let mut pids = Vec::new();
                if !path.join("cgroup.procs").is_file() {
                    return Err(WantedError::NotACgroup(path.clone()));
                }
                members(path, &mut pids);
                pids.sort_unstable();
                pids.into_iter().filter_map(|pid| Some((pid, reading::read_stat(pid)?))).collect()
            }
            Wanted::All => everybody(),
        };
        let own = std::process::id();
        let found: Vec<_> = found.into_iter().filter(|(pid, _)| *pid != own).collect();
        match (self, found.is_empty()) {
            (Wanted::Name(name), true) => Err(WantedError::NoSuchName(name.clone())),
            (Wanted::Cgroup(path), true) => Err(WantedError::EmptyCgroup(path.clone())),
            _ => Ok(found),
        }
    }
}

/// The pids of a group and the groups in it.
fn members(group: &Path, pids: &mut Vec<u32>) {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    pids.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    let inner = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        members(&entry.path(), pids);
    }
}

/// Every process with memory of its own.
fn everybody() -> Vec<(u32, Stat)> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<(u32, Stat)> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, reading::read_stat(pid)?)))
        // Kernel threads: kthreadd and its children.
        .filter(|(pid, stat)| *pid != 2 && stat.parent != 2)
        .collect();
    found.sort_unstable_by_key(|(pid, _)| *pid);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_pid_or_a_name() {
        assert_eq!(Wanted::parse("42"), Wanted::Pid(42));
        assert_eq!(Wanted::parse("redis-server"), Wanted::Name("redis-server".into()));
        assert_eq!(Wanted::parse("größe"), Wanted::Name("größe".into()));
        assert_eq!(Wanted::parse("a-name-that-is-long"), Wanted::Name("a-name-that-is-".into()));
    }

    #[test]
    fn who_is_not_there_is_an_error_that_says_so() {
        let error = Wanted::Pid(u32::MAX).find().unwrap_err().to_string();
        assert!(error.contains("no process"), "{error}");
        let error = Wanted::Name("no such name".into()).find().unwrap_err().to_string();
        assert!(error.contains("no such name"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let group = Wanted::Cgroup(folder.path().to_owned());
        assert!(matches!(group.find(), Err(WantedError::NotACgroup(_))));
        fs::write(folder.path().join("cgroup.procs"), "").unwrap();
        assert!(matches!(group.find(), Err(WantedError::EmptyCgroup(_))));
    }

    #[test]
    fn groups_within_a_group_count() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("cgroup.procs"), "").unwrap();
        fs::write(folder.path().join("inner/cgroup.procs"), "1\n").unwrap();
        let found = Wanted::Cgroup(folder.path().to_owned()).find().unwrap();
        assert_eq!(found.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn this_process_is_not_among_all() {
        let all = Wanted::All.find().unwrap();
        assert!(all.iter().all(|(pid, _)| *pid != std::process::id()));
        assert!(all.iter().any(|(pid, _)| *pid == 1));
    }
}
