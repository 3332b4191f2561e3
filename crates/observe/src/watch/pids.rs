// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which processes are wanted: a pid, a name, a control group, all.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cowlab_machine::{ProcessError, Stat};
use strsim::levenshtein;

use super::reading;
use cowlab_machine::process::Target;

const CGROUPS: &str = "/sys/fs/cgroup";

/// So much of a command line tells which it is.
const COMMAND_CHARS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    Pid(u32),
    /// Every one of that name (the kernel's, 15 bytes at most), also those that start later.
    Name(String),
    /// Those in a control group and the groups in it, also those that start later.
    Cgroup(PathBuf),
    /// Those that any of these means.
    Any(Vec<Wanted>),
    All,
}

/// Why there is nothing to watch.
#[derive(Debug, thiserror::Error)]
pub enum WantedError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("no process is named {}: {}", .0, name_hint(.0))]
    NoSuchName(String),
    #[error("{}: not a control group{}", .0.display(), group_hint(.0))]
    NotACgroup(PathBuf),
    #[error("several processes are meant: give the pid of one:{}", command_lines(.0))]
    Several(Vec<u32>),
    #[error("no process is in the control group {}", .0.display())]
    EmptyCgroup(PathBuf),
}

/// As much of a name as the kernel keeps.
fn cut(name: &str) -> String {
    let bytes = name.as_bytes();
    String::from_utf8_lossy(&bytes[..bytes.len().min(15)]).into_owned()
}

/// What to do about a name that no process has.
fn name_hint(name: &str) -> String {
    if name.contains('/') {
        return "to start a program write `--` before it, where the verb takes one".to_owned();
    }
    let meant = match alike(name, &everybody()) {
        meant if meant.is_empty() => {
            "names are the kernel's, as `ps -o comm` shows them;".to_owned()
        }
        meant => format!("did you mean {}?", meant.join(" or ")),
    };
    format!("{meant} `cowlab` lists those that fork")
}

/// What to do about a path that is no group: it may be a program's.
fn group_hint(path: &Path) -> String {
    let name = path.file_name().filter(|_| path.is_file()).map(|name| name.to_string_lossy());
    let Some(name) = name else {
        return " (no cgroup.procs in it); name its folder, such as \
                /sys/fs/cgroup/system.slice/redis-server.service"
            .to_owned();
    };
    let cut = cut(&name);
    match named(&cut, &everybody()) {
        Some(process) => format!(", but a file: name the process that runs it, {process}"),
        None => format!(", but a file, and no process is named {cut}"),
    }
}

/// The first process of a name, with its pid.
fn named(name: &str, all: &[(u32, Stat)]) -> Option<String> {
    let own = std::process::id();
    let first = all.iter().find(|(pid, stat)| stat.name == name && *pid != own);
    first.map(|(pid, stat)| format!("{} ({pid})", stat.name))
}

/// Names that are told of those that are alike.
const ALIKE: usize = 3;
/// Letters of a name that are taken for a part of another.
const LEAST_PART: usize = 3;

/// Processes of which a name is a part, or all but two letters of it: one a name, nearest first.
fn alike(name: &str, all: &[(u32, Stat)]) -> Vec<String> {
    let own = std::process::id();
    let is_part = |of: &str| name.len() >= LEAST_PART && of.contains(name);
    let mut found: Vec<(usize, &str)> = all
        .iter()
        .filter(|(pid, _)| *pid != own)
        .map(|(_, stat)| (levenshtein(name, &stat.name), stat.name.as_str()))
        .filter(|(apart, of)| is_part(of) || *apart <= 2 && *apart * 3 < name.len())
        .collect();
    found.sort_unstable();
    found.dedup();
    found.truncate(ALIKE);
    found.into_iter().filter_map(|(_, of)| named(of, all)).collect()
}

fn command_lines(of: &[u32]) -> String {
    let line = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let short: String = words.trim_end().chars().take(COMMAND_CHARS).collect();
        format!("\n{pid:>8}  {short}")
    };
    of.iter().map(line).collect()
}

impl Wanted {
    /// A pid if it is a number, a control group if it is a whole path, else a name. Fails if it is
    /// empty.
    pub fn parse(word: &str) -> Result<Wanted, String> {
        if word.is_empty() {
            return Err("name a process by its pid or its name".to_owned());
        }
        if let Ok(pid) = word.parse() {
            return Ok(Wanted::Pid(pid));
        }
        if word.starts_with('/') {
            return Ok(Wanted::Cgroup(word.into()));
        }
        Ok(Wanted::Name(cut(word)))
    }

    /// What several words mean together; no word means all.
    pub fn any(mut words: Vec<Wanted>) -> Wanted {
        match words.len() {
            0 => Wanted::All,
            1 => words.remove(0),
            _ => Wanted::Any(words),
        }
    }

    /// The pids, where it is nothing but pids: no other process will ever be meant.
    pub fn pids(&self) -> Option<Vec<u32>> {
        match self {
            Wanted::Pid(pid) => Some(vec![*pid]),
            Wanted::Any(all) => {
                let all: Option<Vec<_>> = all.iter().map(Wanted::pids).collect();
                all.map(|pids| pids.concat())
            }
            _ => None,
        }
    }

    /// The pid of the one process that is meant: of several, the one that all others were forked
    /// by. Fails if there is none, or several of which none forked the others.
    pub fn only(&self) -> Result<i32, WantedError> {
        // Whether it can be looked at is for the caller to find out.
        if let Wanted::Pid(pid) = self {
            return Ok(i32::try_from(*pid).unwrap_or(0));
        }
        let found = self.find()?;
        let among = |pid: i32| found.iter().any(|(other, _)| i64::from(*other) == i64::from(pid));
        let first: Vec<u32> =
            found.iter().filter(|(_, stat)| !among(stat.parent)).map(|(pid, _)| *pid).collect();
        // Workers alone, as in a control group of their own, stand for the parent that forked them.
        let parents: BTreeSet<i32> = found
            .iter()
            .filter(|(_, stat)| !among(stat.parent))
            .map(|(_, stat)| stat.parent)
            .collect();
        let forked_by = |pid: &u32| Target::open(pid.cast_signed()).ok()?.forked_by();
        match first[..] {
            [pid] => Ok(pid.cast_signed()),
            [one, ..] if parents.len() == 1 && matches!(self, Wanted::Cgroup(_)) => {
                let parent = forked_by(&one).map(|parent| parent.pid());
                parent.ok_or(WantedError::Several(first))
            }
            _ => Err(WantedError::Several(first)),
        }
    }

    /// Who is there now: each with what it is, in order of pid. Kernel threads and this process
    /// are not among them. Fails if there is nothing to watch.
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
                // As /proc/PID/cgroup has it as well.
                let below = Path::new(CGROUPS).join(path.strip_prefix("/").unwrap_or(path));
                let folders = [path, &below].into_iter();
                let mut groups = folders.filter(|folder| folder.join("cgroup.procs").is_file());
                let group = groups.next().ok_or_else(|| WantedError::NotACgroup(path.clone()))?;
                members(group, &mut pids);
                pids.sort_unstable();
                pids.into_iter().filter_map(|pid| Some((pid, reading::read_stat(pid)?))).collect()
            }
            Wanted::Any(all) => {
                let mut found = Vec::new();
                for one in all {
                    found.append(&mut one.find()?);
                }
                found.sort_unstable_by_key(|(pid, _)| *pid);
                found.dedup_by_key(|(pid, _)| *pid);
                found
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
        let name = |name: &str| Ok(Wanted::Name(name.into()));
        assert_eq!(Wanted::parse("42"), Ok(Wanted::Pid(42)));
        assert_eq!(Wanted::parse("redis-server"), name("redis-server"));
        assert_eq!(Wanted::parse("größe"), name("größe"));
        assert_eq!(Wanted::parse("a-name-that-is-long"), name("a-name-that-is-"));
        assert_eq!(
            Wanted::parse("/sys/fs/cgroup/x"),
            Ok(Wanted::Cgroup("/sys/fs/cgroup/x".into()))
        );
        assert!(Wanted::parse("").is_err());
    }

    #[test]
    fn names_like_a_mistyped_one_are_suggested() {
        let of = |pid: u32, name: &str| (pid, Stat { name: name.into(), ..Stat::default() });
        let all =
            [of(7, "redis-server"), of(8, "redis-server"), of(9, "sh"), of(10, "redis-sentinel")];
        assert_eq!(alike("redis", &all), ["redis-server (7)", "redis-sentinel (10)"]);
        assert_eq!(alike("redis-srever", &all), ["redis-server (7)"]);
        assert!(alike("abc", &all).is_empty() && alike("s", &all).is_empty());
    }

    #[test]
    fn a_programs_file_is_no_group_and_its_process_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("no-such-program");
        fs::write(&file, "").unwrap();
        let error = Wanted::Cgroup(file).find().unwrap_err().to_string();
        assert!(error.contains("but a file, and no process is named no-such-program"), "{error}");
    }

    #[test]
    fn of_a_server_and_its_forks_the_server_is_meant() {
        use std::io::Read;
        let mut server = std::process::Command::new("sh")
            .args(["-c", "sleep 60 >/dev/null & echo $!; exec >&-; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        server.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let (own, fork): (u32, u32) = (server.id(), said.trim().parse().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let group = |pids: &[u32]| {
            let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
            fs::write(folder.path().join("cgroup.procs"), text).unwrap();
            Wanted::Cgroup(folder.path().to_owned()).only()
        };
        assert_eq!(group(&[own, fork]).unwrap(), own.cast_signed());
        let error = group(&[1, own, fork]).unwrap_err().to_string();
        assert!(
            error.contains("give the pid of one:\n       1  ") && error.contains("sleep 60"),
            "{error}"
        );
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(fork.cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        server.wait().unwrap();
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
    fn several_words_mean_each_of_theirs_once() {
        let own = Wanted::Pid(std::process::id());
        let init = Wanted::Pid(1);
        let both = Wanted::any(vec![init.clone(), own, init.clone()]);
        assert_eq!(both.find().unwrap().len(), 1, "this process is not among them");
        assert_eq!(both.pids().unwrap(), [1, std::process::id(), 1]);
        let gone = Wanted::any(vec![init.clone(), Wanted::Name("no such name".into())]);
        assert!(gone.find().unwrap_err().to_string().contains("no such name"));
        assert_eq!((gone.pids(), Wanted::any(Vec::new())), (None, Wanted::All));
        assert_eq!(Wanted::any(vec![init.clone()]), init);
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
