// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An application's profile, from the run of a footprint or from a live process.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use cowlab_analysis::application::profile_of;
use cowlab_machine::{Facts, ProcessFacts, Rollup, Root, Stat};
use cowlab_model::application::{ApplicationProfile, Children, MappingShare, has_collector};
use cowlab_model::cost::Vmas;
use cowlab_observe::forkers::Seen;
use cowlab_observe::mappings::detailed_mappings;
use cowlab_observe::redis::Asked;
use cowlab_observe::watch::Wanted;
use cowlab_observe::{Kind, Mapping, Target};
use cowlab_schema::Command;
use cowlab_schema::fmt::{bytes, time};
use cowlab_schema::footprint::Method;
use cowlab_store::Run;
use cowlab_tend::Survey;

use crate::fork_rate::fork_rate;

/// An application, as far as it is known.
pub struct Application {
    /// What to call it.
    pub name: String,
    /// What it maps and writes.
    pub profile: ApplicationProfile,
    /// What the profile cannot tell.
    pub notes: Vec<String>,
    /// Its stop, where it forks all the time and was just seen to.
    pub stop_ns: Option<f64>,
}

/// The profile in the run of a footprint, whose pages must be those of the machine profile.
pub fn of_run(folder: &Path, program: Option<&str>, base_page_bytes: u64) -> Result<Application> {
    let run = Run::read(folder)?;
    let (profile, subject) =
        profile_of(&run.samples, program).with_context(|| folder.display().to_string())?;
    let page = run.info.environments.first().map_or(base_page_bytes, |of| of.page_size_bytes);
    if page != base_page_bytes {
        bail!(
            "{} counts pages of {page} bytes, the machine profile has pages of {base_page_bytes}: \
             make the footprint on a machine with the same base page",
            folder.display()
        );
    }
    let of_worker = run.info.missing.iter().find(|row| row.metric == "forks");
    if let (false, Some(why)) = (subject.is_fork(), of_worker) {
        bail!("{}: {}", folder.display(), why.reason);
    }
    let mut notes = vec![format!(
        "{} of {} pages that were there are written by the {} ({}, {}), by {}",
        profile.written,
        profile.pages,
        subject.writer,
        subject.span,
        folder.display(),
        subject.method
    )];
    if !subject.is_fork() {
        notes.push("nothing was forked meanwhile: this is what a fork would have met".to_owned());
    }
    if profile.vmas.is_none() {
        notes.push(format!(
            "it did not count mappings: a fork is priced without them; `{}` counts them now",
            Command::FootprintForks
        ));
    }
    if subject.method == Method::Snapshot {
        notes.push(
            "a comparison of snapshots does not see pages that were written as they were: the \
             copies may be more"
                .to_owned(),
        );
    }
    Ok(Application { name: subject.program, profile, notes, stop_ns: None })
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

/// Whether a process saves its memory by a fork, whether or not it has done so yet.
pub fn saves_by_fork(of: &Seen) -> bool {
    Children::of(&of.name) == Children::Save
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

/// The share of its memory that is taken to be written where nobody says and no child tells.
const USUAL_FRACTION: f64 = 0.1;

/// The living children that were forked by it and run the same program.
fn forked_children(of: &Target) -> Vec<i32> {
    let forked = cowlab_observe::children::forked(of).map(|(forked, _)| forked);
    forked.unwrap_or_default().iter().map(Target::pid).collect()
}

/// What each child of a server has to itself, copied or new, ascending. A child that saves is not asked:
/// it has only begun.
fn own_of_children(of: &Target) -> Vec<u64> {
    if Children::of(of.name()) == Children::Save {
        return Vec::new();
    }
    let own = |pid: i32| {
        let memory = Rollup::read(&Root::default(), pid.cast_unsigned()).ok().flatten()?;
        memory.private_dirty_bytes
    };
    let mut all: Vec<u64> = forked_children(of).into_iter().filter_map(own).collect();
    all.sort_unstable();
    all
}

/// Why huge pages cannot be made of the memory of this process: children of its share it for as long as
/// they live.
pub fn shared_with_children(of: &Target) -> Option<String> {
    let count = forked_children(of).len();
    let ends = Children::of(of.name()) == Children::Save;
    (count > 0 && !ends).then(|| {
        format!(
            "{count} children share the memory of {} ({}), and tend waits until they have ended",
            of.name(),
            of.pid()
        )
    })
}

/// The parent of a process that was forked itself, and forks nobody.
pub fn parent_of_worker(of: &Target) -> Option<Target> {
    let has_children = cowlab_observe::children::pids(of).is_ok_and(|all| !all.is_empty());
    of.forked_by().filter(|_| !has_children)
}

/// Why the forks of this process have no price: it was forked itself, and forks nobody.
pub fn worker(of: &Target) -> Option<String> {
    parent_of_worker(of).map(|parent| {
        format!(
            "{} ({}) was forked by {} ({}) and has no child of its own: the forks are its parent's: \
             `{}`, `{}`",
            of.name(),
            of.pid(),
            parent.name(),
            parent.pid(),
            Command::Advise.of(parent.pid()),
            Command::FootprintForks.of(parent.pid())
        )
    })
}

/// What the living children of a process do.
fn children_of(target: &Target) -> Children {
    let known = Children::of(target.name());
    match known {
        Children::Unknown if !forked_children(target).is_empty() => Children::Serve,
        known => known,
    }
}

/// A process as it is now, of which a share will be written: what `write_fraction` says, else what it
/// says itself, else what its children have copied.
pub fn of_pid(
    pid: i32,
    write_fraction: Option<f64>,
    asked: Option<&Asked>,
    facts: &Facts,
) -> Result<Application> {
    let process = ProcessFacts::probe(&Root::default(), pid)?;
    let target = Target::open(pid)?;
    if let Some(why) = worker(&target) {
        bail!(why);
    }
    let page = facts.page_size_bytes;
    let pages = process.anonymous_bytes / page;
    let last_cow_bytes = asked
        .filter(|_| write_fraction.is_none())
        .and_then(|asked| asked.replication.last_cow_bytes);
    let own = match (write_fraction, last_cow_bytes) {
        (None, None) => own_of_children(&target),
        _ => Vec::new(),
    };
    // Half of them have more.
    let written = match last_cow_bytes.or(own.get(own.len() / 2).copied()) {
        Some(own_bytes) => (own_bytes / page).min(pages),
        None => (pages as f64 * write_fraction.unwrap_or(USUAL_FRACTION)).ceil() as u64,
    };
    let mut profile = ApplicationProfile::of_pages(pages, written);
    let huge = facts.thp.as_ref().and_then(|thp| thp.pmd_size_bytes);
    if let (Some(huge), Some(bytes)) = (huge, process.huge_bytes) {
        profile.huge_pages = bytes / huge;
    }
    let survey = huge.map(|huge| Survey::take(&target, huge)).transpose();
    if let (Some(huge), Ok(Some(survey))) = (huge, survey) {
        profile.collapsible_regions = Some(survey.collapsible(huge / page));
    }
    profile.children = children_of(&target);
    profile.has_collector = has_collector(target.name());
    profile.threads = Stat::other_running_threads(pid);
    profile.vmas = Some(Vmas {
        anon: process.inherited_anonymous_mappings,
        others: process.inherited_mappings - process.inherited_anonymous_mappings,
    });
    let mut notes = vec![match (&own[..], write_fraction) {
        ([], None) if let Some(copied) = last_cow_bytes => format!(
            "its last snapshot copied {} (rdb_last_cow_size): so much is taken to be written; in a busier hour it is more \
             (--write-fraction)",
            bytes(copied)
        ),
        ([], fraction) => format!(
            "{} of the memory is taken to be written while the child lives (--write-fraction): `{}` \
             measures it",
            fraction.unwrap_or(USUAL_FRACTION),
            Command::FootprintForks.of(pid)
        ),
        (own, _) => format!(
            "its {} living children have {} to themselves, copied or new, half of them {} or more: so \
             much is taken to be written after a fork",
            own.len(),
            bytes(own.iter().sum()),
            bytes(own[own.len() / 2])
        ),
    }];
    let mut stop_ns = None;
    match fork_rate(&target) {
        Ok(None) => {}
        Ok(Some(rate)) => {
            profile.forks_per_s = Some(rate.per_s);
            stop_ns = rate.stop_ns;
            if let (Some(copies), None, None) = (rate.copies, write_fraction, last_cow_bytes) {
                profile.written = (copies.ceil() as u64).min(pages);
                notes.clear();
            }
            let stopped = |ns| format!(", stopped for {} each", time(ns));
            let copied = |pages| format!(", {pages:.0} pages copied each");
            notes.push(format!(
                "it forked {:.0} times in a second{}{}: each choice has the rate that it would leave, if it waits for each child",
                rate.per_s,
                rate.stop_ns.map_or_else(String::new, stopped),
                rate.copies.map_or_else(String::new, copied)
            ));
            if rate.execute {
                profile.children = Children::Execute;
                profile.mappings = large_mappings(&target, page)?;
            } else if profile.children == Children::Unknown {
                profile.children = Children::Serve;
                notes.push(
                    "a child that does many executions, as in AFL's persistent mode, forks once for \
                     all of them"
                        .into(),
                );
            }
        }
        Err(why) => notes.push(format!("it forks all the time; how often is not known: {why}")),
    }
    let last_fork_ns = asked.and_then(|asked| asked.last_fork_ns);
    if let (None, Some(ns)) = (stop_ns, last_fork_ns) {
        stop_ns = Some(ns as f64);
        let huge_bytes = process.huge_bytes.filter(|bytes| *bytes > 0);
        let huge = huge_bytes.map_or_else(String::new, |of| {
            format!("; {} of its memory are in huge pages now", bytes(of))
        });
        notes.push(format!(
            "its last fork took {}, as it measured itself (latest_fork_usec){huge}",
            time(ns as f64)
        ));
    }
    Ok(Application { name: format!("{} ({pid})", process.name), profile, notes, stop_ns })
}

/// Its anonymous mappings, by their addresses: names alone do not say on which memory to call
/// madvise(2).
fn large_mappings(of: &Target, page_bytes: u64) -> Result<Vec<MappingShare>> {
    let share = |mapping: &Mapping| {
        let anonymous = mapping.details.as_ref()?.anonymous_bytes?;
        let (kind, range) = (mapping.kind.name(), &mapping.range);
        (anonymous > 0 && !mapping.is_shared && mapping.kind != Kind::Stack).then(|| MappingShare {
            name: format!("{kind} {:x}-{:x}", range.start, range.end),
            pages: anonymous / page_bytes,
            written: 0,
        })
    };
    Ok(detailed_mappings(of)?.iter().filter_map(share).collect())
}
