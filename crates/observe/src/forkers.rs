// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which running programs fork, by what /proc shows of all processes at one moment, without root as
//! far as it goes. [`look`] reads, [`forkers`] decides (pure).

use std::collections::BTreeMap;

use cowlab_machine::{ProcessError, status};

use crate::watch::Wanted;
use cowlab_machine::process::target::{Image, Target};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub name: String,
    pub parent: i32,
    /// Whether a child of its has ended and was waited for.
    pub has_reaped: bool,
    /// RssAnon: everybody may read it; `None` on a kernel before 4.5.
    pub anonymous_bytes: Option<u64>,
    /// Whether its memory may be looked at.
    pub may_look: bool,
    /// Whether it has ended, and has no memory any more: nobody has waited for it yet.
    pub has_ended: bool,
    /// Whether it runs on as its parent forked it; `None` where one of the two may not be looked at.
    pub as_forked: Option<bool>,
}

/// A process that has, or had, children of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forker {
    pub process: Process,
    /// Living children that run on as they were forked, and share its memory. Of those that may not be
    /// looked at, the ones with its name.
    pub workers: Vec<i32>,
    /// Its other living children: they executed another program.
    pub executed: usize,
    /// Its own anonymous memory and its workers', shared pages counted for each.
    pub family_bytes: Option<u64>,
}

/// Every process but kernel threads and this one, by pid.
pub fn look() -> Vec<Process> {
    let mut all: Vec<(Process, Option<Image>)> = Vec::new();
    for (pid, _) in Wanted::All.find().unwrap_or_default() {
        let Ok(target) = Target::open(pid.cast_signed()) else { continue };
        let (Ok(stat), image) = (target.stat(), target.image()) else { continue };
        let is_refused = matches!(image, Err(ProcessError::NoPermission { .. }));
        let has_ended = image.is_err() && !is_refused;
        let image = image.ok();
        let text = target.read("status").unwrap_or_default();
        let seen = Process {
            pid: target.pid(),
            parent: stat.parent,
            has_reaped: stat.reaped_minor_faults > 0,
            anonymous_bytes: status::bytes(&text, "RssAnon"),
            may_look: image.is_some(),
            has_ended,
            as_forked: None,
            name: stat.name,
        };
        all.push((seen, image));
    }
    let images: BTreeMap<i32, Image> =
        all.iter().filter_map(|(seen, image)| Some((seen.pid, image.clone()?))).collect();
    let compared = |(seen, image): (Process, Option<Image>)| {
        let as_forked = images.get(&seen.parent).zip(image).map(|(parent, own)| *parent == own);
        Process { as_forked, ..seen }
    };
    all.into_iter().map(compared).collect()
}

/// Those of them that fork, by pid, and those that are known to, `is_known`, though they have not yet. A
/// worker that has no children now is its parent's alone.
pub fn forkers(all: &[Process], is_known: impl Fn(&Process) -> bool) -> Vec<Forker> {
    let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
    for seen in all {
        children.entry(seen.parent).or_default().push(seen);
    }
    let by_pid: BTreeMap<i32, &Process> = all.iter().map(|seen| (seen.pid, seen)).collect();
    let is_worker = |of: &Process| {
        let has_its_name = || by_pid.get(&of.parent).is_some_and(|parent| parent.name == of.name);
        of.as_forked.unwrap_or_else(has_its_name)
    };
    let forker = |process: &Process| {
        let own: &[&Process] = children.get(&process.pid).map_or(&[], Vec::as_slice);
        let workers: Vec<&Process> = own.iter().copied().filter(|child| is_worker(child)).collect();
        let has_forked = process.has_reaped || is_known(process);
        let forks = !own.is_empty() || (has_forked && !is_worker(process));
        let sizes = [process].into_iter().chain(workers.iter().copied());
        forks.then(|| Forker {
            process: process.clone(),
            executed: own.len() - workers.len(),
            family_bytes: sizes.map(|one| one.anonymous_bytes).sum(),
            workers: workers.iter().map(|worker| worker.pid).collect(),
        })
    };
    all.iter().filter_map(forker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pid: i32, parent: i32, name: &str, as_forked: Option<bool>) -> Process {
        let (name, may_look) = (name.to_owned(), as_forked.is_some());
        Process {
            pid,
            parent,
            name,
            may_look,
            as_forked,
            anonymous_bytes: Some(100),
            ..Process::default()
        }
    }

    #[test]
    fn workers_are_told_from_programs_that_were_started() {
        let mut all = vec![
            seen(1, 0, "init", None),
            seen(10, 1, "server", Some(false)),
            seen(11, 10, "renamed", Some(true)),
            seen(12, 10, "server", Some(false)),
            // Of other users: only the names tell.
            seen(20, 1, "nginx", None),
            seen(21, 20, "nginx", None),
            seen(22, 20, "cgi", None),
            seen(30, 1, "quiet", Some(false)),
            seen(31, 1, "shell", Some(false)),
        ];
        all[2].has_reaped = true;
        all[8].has_reaped = true;
        let found = forkers(&all, |_| false);
        let told: Vec<_> = found.iter().map(|of| (of.process.pid, of.workers.clone())).collect();
        assert_eq!(told, [(1, vec![]), (10, vec![11]), (20, vec![21]), (31, vec![])]);
        assert_eq!(found.iter().map(|of| of.executed).collect::<Vec<_>>(), [4, 1, 1, 0]);
        assert_eq!(found[1].family_bytes, Some(200));
        let known = forkers(&all, |seen| ["quiet", "renamed"].contains(&seen.name.as_str()));
        assert!(known.iter().any(|of| of.process.pid == 30), "it has not forked yet");
        assert!(known.iter().all(|of| of.process.pid != 11), "the child of one that is known");
        // What is not known of one is not known of all.
        all[2].anonymous_bytes = None;
        assert_eq!(forkers(&all, |_| false)[1].family_bytes, None);
    }

    #[test]
    fn a_shell_and_its_copy_are_seen() {
        use std::io::Read;
        use std::os::unix::process::CommandExt;
        use std::process::{Command, Stdio};

        use rustix::process::{Pid, Signal, kill_process_group};

        let mut shell = Command::new("sh")
            .args(["-c", "(sleep 60; true) & echo ready; wait"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        let is_told = || {
            let all = look();
            assert!(all.iter().all(|seen| seen.pid.cast_unsigned() != std::process::id()));
            let found = forkers(&all, |_| false);
            let of = |pid: i32| found.iter().find(|of| of.process.pid == pid);
            of(shell.id().cast_signed()).is_some_and(|shell| {
                let copy = shell.workers.first().and_then(|copy| of(*copy));
                shell.process.anonymous_bytes > Some(0) && copy.is_some_and(|of| of.executed == 1)
            })
        };
        // The copy's own child is a copy as well, until it executes sleep.
        let is_seen = (0..1000).any(|_| is_told());
        kill_process_group(Pid::from_child(&shell), Signal::KILL).unwrap();
        shell.wait().unwrap();
        assert!(is_seen);
    }
}
