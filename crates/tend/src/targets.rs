// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which processes: by pid, by name, by control group; those of a policy file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cowlab_machine::Stat;
use cowlab_store::{TEXT_BYTES, read_text};
use serde::Deserialize;

use crate::forks::may_share;

/// Whom to tend. Several conditions must all hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// This process.
    pub pid: Option<i32>,
    /// Processes of this name (the command's, at most 15 bytes).
    pub name: Option<String>,
    /// Processes in this control group or below it: its path as /proc/PID/cgroup tells it, or its
    /// folder below /sys/fs/cgroup.
    pub cgroup: Option<String>,
    /// Where the program answers PING, to hear stalls from itself: `HOST:PORT`, or a socket's path.
    pub ping: Option<String>,
    /// The longest stall that a collapse may cause; else the file's or the flag's.
    pub budget_us: Option<u64>,
}

/// A policy file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// For every target that says nothing else.
    pub budget_us: Option<u64>,
    /// Seconds between two looks at a target that does not fork.
    pub interval_s: Option<f64>,
    /// Whom to tend.
    #[serde(default)]
    pub target: Vec<Selector>,
}

impl PolicyFile {
    /// Reads it. An error has the file and the line that is wrong.
    pub fn read(path: &Path) -> Result<PolicyFile> {
        let text = read_text(path, TEXT_BYTES)
            .with_context(|| format!("cannot read the policy file {}", path.display()))?;
        PolicyFile::parse(&text, path)
    }

    /// The same of the text of `path`, which errors name.
    pub fn parse(text: &str, path: &Path) -> Result<PolicyFile> {
        let file: PolicyFile = toml::from_str(text)
            .with_context(|| format!("{} is no policy file", path.display()))?;
        if file.target.is_empty() {
            bail!("{} names nobody: it needs a [[target]]", path.display());
        }
        for (number, target) in file.target.iter().enumerate() {
            if target.pid.is_none() && target.name.is_none() && target.cgroup.is_none() {
                bail!("{}: target {} needs a pid, a name or a cgroup", path.display(), number + 1);
            }
        }
        let intervals = file.interval_s.iter().all(|s| *s > 0.0 && *s <= 86400.0);
        let budgets = file.budget_us.iter().chain(file.target.iter().flat_map(|t| &t.budget_us));
        if !intervals || budgets.into_iter().any(|us| *us == 0) {
            bail!("{}: interval_s and budget_us must be above 0", path.display());
        }
        Ok(file)
    }
}

/// One process, as a selector sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its pid.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// Its name.
    pub name: String,
    /// The paths of its control groups.
    pub cgroups: Vec<String>,
    /// Whether it may share its parent's memory: it was forked, and has executed nothing since.
    pub is_fork: bool,
}

impl Selector {
    fn matches(&self, of: &Candidate) -> bool {
        let inside = |group: &String| {
            let group = group_path(group);
            of.cgroups.iter().any(|own| {
                let rest = own.strip_prefix(&group);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        self.pid.is_none_or(|pid| pid == of.pid)
            && self.name.as_ref().is_none_or(|name| name.get(..15).unwrap_or(name) == of.name)
            && self.cgroup.as_ref().is_none_or(inside)
    }
}

/// What is mounted below /sys/fs/cgroup with version 1: controllers, alone or together, and the names
/// that systemd gives (cgroups(7)).
const VERSION_1: [&str; 16] = [
    "memory",
    "cpu",
    "cpuacct",
    "cpu,cpuacct",
    "cpuset",
    "blkio",
    "pids",
    "devices",
    "freezer",
    "net_cls",
    "net_prio",
    "net_cls,net_prio",
    "perf_event",
    "hugetlb",
    "systemd",
    "unified",
];

/// A group as /proc/PID/cgroup has it, of that or of its folder; no slash at its end.
fn group_path(told: &str) -> String {
    let path = match told.strip_prefix("/sys/fs/cgroup").filter(|rest| !rest.starts_with('-')) {
        Some(below) => {
            let below = below.trim_start_matches('/');
            let (first, rest) = below.split_once('/').unwrap_or((below, ""));
            if VERSION_1.contains(&first) { rest } else { below }
        }
        None => told,
    };
    let path = path.trim_matches('/');
    if path.is_empty() { String::new() } else { format!("/{path}") }
}

/// Whom the selectors choose, each once, with the number of the first selector that does. Who is a
/// fork of one that is chosen is not: its memory is that one's.
pub fn choose(selectors: &[Selector], all: &[Candidate]) -> Vec<(i32, usize)> {
    let first = |of: &Candidate| selectors.iter().position(|selector| selector.matches(of));
    let chosen: Vec<(&Candidate, usize)> =
        all.iter().filter_map(|one| Some((one, first(one)?))).collect();
    let pids: BTreeSet<i32> = chosen.iter().map(|(one, _)| one.pid).collect();
    let named = |pid: i32| selectors.iter().any(|selector| selector.pid == Some(pid));
    let keep = |one: &Candidate| !(one.is_fork && pids.contains(&one.parent)) || named(one.pid);
    chosen.iter().filter(|(one, _)| keep(one)).map(|(one, number)| (one.pid, *number)).collect()
}

/// Every process with memory that may be seen, except this one; with its control groups only where a
/// selector asks for one, as that is a file more of each.
pub fn everybody(selectors: &[Selector]) -> Vec<Candidate> {
    let with_groups = selectors.iter().any(|selector| selector.cgroup.is_some());
    let own = std::process::id() as i32;
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let alive = |stat: &Stat| !stat.has_ended() && stat.mapped_bytes > 0;
    let seen: BTreeMap<i32, Stat> =
        pids.filter_map(|pid| Some((pid, Stat::of(pid).filter(alive)?))).collect();
    let others = seen.keys().filter(|pid| **pid != own);
    others.filter_map(|pid| candidate(*pid, &seen, with_groups)).collect()
}

fn candidate(pid: i32, seen: &BTreeMap<i32, Stat>, with_groups: bool) -> Option<Candidate> {
    let stat = seen.get(&pid)?;
    let is_fork = seen.get(&stat.parent).is_some_and(|parent| may_share(stat, parent));
    let groups = match with_groups {
        true => fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default(),
        false => String::new(),
    };
    let cgroups =
        groups.lines().filter_map(|line| Some(line.splitn(3, ':').nth(2)?.to_owned())).collect();
    Some(Candidate { pid, parent: stat.parent, name: stat.name.clone(), cgroups, is_fork })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(pid: i32, parent: i32, name: &str, cgroup: &str) -> Candidate {
        let cgroups = vec!["/".into(), cgroup.into()];
        Candidate { pid, parent, name: name.into(), cgroups, is_fork: true }
    }

    #[test]
    fn a_name_or_a_group_chooses_all_but_the_forked_children() {
        let all = [
            candidate(10, 1, "redis-server", "/system.slice/redis.service"),
            candidate(11, 10, "redis-server", "/system.slice/redis.service"),
            candidate(20, 1, "redis-server", "/system.slice/redis.service2"),
            candidate(30, 1, "postgres", "/db"),
        ];
        let by = |selector: Selector| choose(&[selector], &all);
        let named = |name: &str| Selector { name: Some(name.into()), ..Selector::default() };
        assert_eq!(by(named("redis-server")), [(10, 0), (20, 0)]);
        let group = |group: &str| Selector { cgroup: Some(group.into()), ..Selector::default() };
        assert_eq!(by(group("/system.slice/redis.service")), [(10, 0)]);
        assert_eq!(by(group("/system.slice/")), [(10, 0), (20, 0)]);
        assert_eq!(by(group("/sys/fs/cgroup/system.slice/redis.service")), [(10, 0)]);
        let both = Selector { name: Some("postgres".into()), ..group("/system.slice") };
        assert_eq!(by(both), []);
        // A child that is named itself is meant.
        let pid = |pid| Selector { pid: Some(pid), ..Selector::default() };
        assert_eq!(choose(&[named("redis-server"), pid(11)], &all), [(10, 0), (11, 0), (20, 0)]);
    }

    #[test]
    fn what_a_container_s_init_has_started_is_chosen_beside_it() {
        let server = Candidate { is_fork: false, ..candidate(11, 10, "redis-server", "/box") };
        let all =
            [candidate(10, 1, "tini", "/box"), server, candidate(12, 11, "redis-server", "/box")];
        let group = Selector { cgroup: Some("/box".into()), ..Selector::default() };
        assert_eq!(choose(&[group], &all), [(10, 0), (11, 0)]);
    }

    #[test]
    fn groups_are_read_where_somebody_asks_for_them() {
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        let groups = |selector: Selector| {
            let all = everybody(&[selector]);
            all.into_iter().find(|one| one.pid == parent).unwrap().cgroups
        };
        assert!(groups(Selector::default()).is_empty());
        let told = fs::read_to_string(format!("/proc/{parent}/cgroup")).unwrap();
        let asked = Selector { cgroup: Some("/".into()), ..Selector::default() };
        assert_eq!(groups(asked).len(), told.lines().count());
    }

    #[test]
    fn a_policy_file_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            PolicyFile::read(&path).map_err(|error| format!("{error:#}"))
        };
        let good = read(
            "budget_us = 1500\ninterval_s = 5.0\n[[target]]\nname = \"redis-server\"\n\
             ping = \"127.0.0.1:6379\"\n[[target]]\ncgroup = \"/db\"\nbudget_us = 500\n",
        )
        .unwrap();
        assert_eq!((good.target.len(), good.target[1].budget_us), (2, Some(500)));
        for (text, said) in [
            ("", "needs a [[target]]"),
            ("[[target]]\nping = \"x:1\"\n", "target 1 needs a pid"),
            ("[[target]]\nname = 5\n", "is no policy file"),
            ("[[target]]\nnmae = \"x\"\n", "nmae"),
            ("budget_us = 0\n[[target]]\npid = 5\n", "above 0"),
            ("interval_s = -1.0\n[[target]]\npid = 5\n", "above 0"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(PolicyFile::read(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_group_is_meant_by_its_path_or_by_its_folder() {
        for (told, expected) in [
            ("/system.slice/a.service", "/system.slice/a.service"),
            ("system.slice/a.service/", "/system.slice/a.service"),
            ("/sys/fs/cgroup/system.slice/a.service", "/system.slice/a.service"),
            ("/sys/fs/cgroup/memory/a", "/a"),
            ("/sys/fs/cgroup/cpu,cpuacct/a/b", "/a/b"),
            ("/sys/fs/cgroup/memory", ""),
            ("/sys/fs/cgroup", ""),
            ("/memory/a", "/memory/a"),
            ("/", ""),
        ] {
            assert_eq!(group_path(told), expected, "{told}");
        }
    }
}
