// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of a program: read once.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use cowlab_machine::cgroup::{Cgroup, MemoryBound};
use cowlab_machine::process::mappings::detailed_mappings;
use cowlab_machine::process::{Kind, Mapping, Target, ThreadTimes, children};
use cowlab_machine::{Facts, ProcessFacts, Root, Smaps, Stat, kernel_log, status};
use cowlab_model::application::{Children, MappingShare};
use cowlab_observe::footprint::spans::Work;
use cowlab_observe::redis::Asked;
use cowlab_observe::tend::{Survey, Tender};
use cowlab_observe::watch::Wanted;
use cowlab_schema::Command;

use super::{Forks, Observed};

/// One process, as it shows from outside, and what its server says that was asked.
pub struct TargetFacts {
    pub pid: i32,
    pub name: String,
    /// How it is best named to a verb.
    pub word: String,
    pub process: ProcessFacts,
    /// Its regions that are, or could be, one huge page each; `None` where its page tables cannot be read.
    pub collapsible_regions: Option<u64>,
    /// Its other threads that run: a moment's, and once it was watched the mean of that time.
    pub running_threads: f64,
    /// What its threads had done when it was read, and when that was.
    pub threads: (Option<BTreeMap<i32, ThreadTimes>>, Instant),
    /// Living children; `None` where they may not be looked at.
    pub children: Option<usize>,
    /// What each of those that run on as they were forked has to itself, copied or new, ascending. Of a child
    /// that saves nothing: it has only begun.
    pub own_bytes: Vec<u64>,
    /// How many of the children run on as they were forked.
    pub forked: usize,
    /// Children that wait for ever.
    pub stuck: usize,
    /// Children that have ended and were not waited for.
    pub unreaped: usize,
    /// Page tables of half of its forked children are larger.
    pub tables_of_children_bytes: Option<u64>,
    /// The tightest limit on the memory of its forked children, where they are in another control group.
    pub group_of_workers: Option<MemoryBound>,
    /// For so long its control group's CPU quota held it back while it was watched.
    pub throttled_ns: Option<u64>,
    /// Memory that the kernel refused to promise it, by its log.
    pub unpromised: Vec<u64>,
    pub no_tend: Option<String>,
    /// Where it listens, if it is a server whose title says so.
    pub server_address: Option<String>,
    pub asked: Option<Asked>,
    /// Its large mappings, where its children execute other programs: they could be left out of a fork.
    pub mappings: Vec<MappingShare>,
    /// What its forks were seen to do; an error says why nothing was seen.
    pub observed: Result<Observed, String>,
}

impl TargetFacts {
    /// Fails where the process may not be looked at.
    pub fn read(machine: &Facts, target: &Target, asked: Option<Asked>) -> Result<TargetFacts> {
        let process = ProcessFacts::probe(&Root::default(), target.pid())?;
        let huge = machine.thp.as_ref().and_then(|thp| thp.pmd_size_bytes);
        let survey = huge.and_then(|huge| Some((huge, Survey::take(target, huge).ok()?)));
        let workers = children::forked(target).map_or_else(|_| Vec::new(), |(forked, _)| forked);
        let forked = workers.len();
        let children = children::children(target)
            .ok()
            .map(|all| all.iter().filter(|child| !child.stat.is_ending()).count());
        Ok(TargetFacts {
            pid: target.pid(),
            word: word_of(target),
            collapsible_regions: survey
                .map(|(huge, survey)| survey.collapsible(huge / machine.page_size_bytes.max(1))),
            running_threads: f64::from(Stat::other_running_threads(target.pid())),
            threads: (target.threads(), Instant::now()),
            children,
            stuck: workers.iter().filter(|child| children::is_stuck(child)).count(),
            unreaped: unreaped(target),
            tables_of_children_bytes: middle(workers.iter().filter_map(page_tables)),
            group_of_workers: group_of(&workers, &process.cgroup),
            throttled_ns: None,
            unpromised: kernel_log::unpromised(target.pid()).unwrap_or_default(),
            own_bytes: Vec::new(),
            no_tend: Tender::refusal(Some(target)).or_else(|| shared(target, forked)),
            forked,
            server_address: target.server_address(),
            name: process.name.clone(),
            process,
            asked,
            mappings: Vec::new(),
            observed: Err("it was not watched".to_owned()),
        })
    }

    /// Adds what its living children have to themselves, which takes time where they are large.
    pub fn add_own_bytes(&mut self, target: &Target) {
        if Children::of(&self.name) == Children::Save {
            return;
        }
        let own = |worker: &Target| {
            let memory =
                Smaps::read(&Root::default(), worker.pid().cast_unsigned()).ok().flatten()?;
            memory.private_dirty_bytes
        };
        let forked = children::forked(target).map_or_else(|_| Vec::new(), |(forked, _)| forked);
        self.own_bytes = forked.iter().filter_map(own).collect();
        self.own_bytes.sort_unstable();
    }

    /// Adds what its forks were seen to do.
    pub fn add_observed(
        &mut self,
        target: &Target,
        observed: Result<Observed, String>,
        page_bytes: u64,
    ) {
        let executes =
            observed.as_ref().ok().and_then(Observed::forks).is_some_and(|of| of.execute());
        if executes {
            self.mappings = large_mappings(target, page_bytes);
        }
        let workers = children::forked(target).map_or_else(|_| Vec::new(), |(forked, _)| forked);
        let stuck = workers.iter().filter(|child| children::is_stuck(child)).count();
        self.stuck = self.stuck.max(stuck);
        // One that is being waited for is there at most once.
        self.unreaped = self.unreaped.min(unreaped(target));
        let throttled = |group: &Cgroup| -> Option<u64> {
            group.cpu.iter().filter_map(|bound| bound.throttled_ns).max()
        };
        let before = throttled(&self.process.cgroup);
        let after = throttled(&Cgroup::read(&Root::default(), target.pid()));
        self.throttled_ns = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        if let Some(unpromised) = kernel_log::unpromised(target.pid()) {
            self.unpromised = unpromised;
        }
        if observed.as_ref().ok().and_then(Observed::forks).is_some_and(Forks::children_end) {
            self.no_tend = Tender::refusal(Some(target));
        }
        let (before, at) = (self.threads.0.as_ref(), self.threads.1.elapsed());
        let work = before.zip(target.threads()).and_then(|(at, now)| Work::between(at, &now));
        if let Some(work) = work {
            self.running_threads = work.others_running(at);
        }
        self.observed = observed;
    }
}

/// Children that have ended and were not waited for.
fn unreaped(target: &Target) -> usize {
    let pids = children::pids(target).unwrap_or_default();
    pids.into_iter().filter(|pid| Stat::read(pid).is_some_and(|stat| stat.has_ended())).count()
}

fn page_tables(of: &Target) -> Option<u64> {
    status::bytes(&of.read("status").ok()?, "VmPTE")
}

fn middle(of: impl Iterator<Item = u64>) -> Option<u64> {
    let mut all: Vec<u64> = of.collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

/// The first of them stands for all.
fn group_of(workers: &[Target], parent: &Cgroup) -> Option<MemoryBound> {
    let group = Cgroup::read(&Root::default(), workers.first()?.pid());
    let files = |of: &Cgroup| -> Vec<String> {
        of.memory_max.iter().map(|bound| bound.file.clone()).collect()
    };
    let is_other = files(&group) != files(parent);
    group.tightest_max().filter(|_| is_other).cloned()
}

/// Its anonymous mappings, by their addresses: names alone do not say on which memory to call
/// madvise(2).
fn large_mappings(target: &Target, page_bytes: u64) -> Vec<MappingShare> {
    let share = |mapping: &Mapping| {
        let anonymous = mapping.details.as_ref()?.anonymous_bytes?;
        let (kind, range) = (mapping.kind.name(), &mapping.range);
        (anonymous > 0 && !mapping.is_shared && mapping.kind != Kind::Stack).then(|| MappingShare {
            name: format!("{kind} {:x}-{:x}", range.start, range.end),
            pages: anonymous / page_bytes,
            written: 0,
        })
    };
    detailed_mappings(target)
        .map_or_else(|_| Vec::new(), |all| all.iter().filter_map(share).collect())
}

/// A process as it is best named to a verb: by its name, which outlives a restart, where that means it and
/// nobody else; else by its pid.
pub fn word_of(target: &Target) -> String {
    let (name, pid) = (target.name(), target.pid());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_plain);
    let wanted = Wanted::Name(name.to_owned());
    match is_word && wanted.only().is_ok_and(|only| only == pid) {
        true => name.to_owned(),
        false => pid.to_string(),
    }
}

/// What makes a program of that name fork.
pub fn trigger(name: &str, has_workers: bool) -> &'static str {
    match name {
        _ if name.starts_with("redis-server") => "trigger a fork (`redis-cli bgsave`)",
        _ if name.starts_with("valkey-server") => "trigger a fork (`valkey-cli bgsave`)",
        _ if has_workers || Children::of(name) == Children::Serve => "restart a worker",
        _ => "make it fork",
    }
}

/// Why huge pages cannot be made of the memory of this process: children of its share it for as long as
/// they live.
pub fn shared_with_children(target: &Target) -> Option<String> {
    shared(target, children::forked(target).map_or(0, |(forked, _)| forked.len()))
}

fn shared(target: &Target, count: usize) -> Option<String> {
    let ends = Children::of(target.name()) == Children::Save;
    (count > 0 && !ends).then(|| {
        format!(
            "{count} {} the memory of {} ({}), and tend waits until all have ended",
            if count == 1 { "child shares" } else { "children share" },
            target.name(),
            target.pid()
        )
    })
}

/// The parent of a process that was forked itself, and forks nobody.
pub fn parent_of_worker(target: &Target) -> Option<Target> {
    let has_children = children::pids(target).is_ok_and(|all| !all.is_empty());
    target.forked_by().filter(|_| !has_children)
}

/// Why the forks of this process have no price: it was forked itself, and forks nobody.
pub fn worker(target: &Target) -> Option<String> {
    parent_of_worker(target).map(|parent| {
        format!(
            "{} ({}) was forked by {} ({}) and has no child of its own: the forks are its parent's: \
             `{}`, `{}`",
            target.name(),
            target.pid(),
            parent.name(),
            parent.pid(),
            Command::Explain.of(parent.pid()),
            Command::FootprintForks.of(parent.pid())
        )
    })
}
