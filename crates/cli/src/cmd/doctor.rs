// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `doctor`: whether a fork of a process would fail, and what can be measured here.

pub mod screen;
mod tables;

use std::path::{Path, PathBuf};

use anyhow::{Error, Result};
use cowlab_analysis::application::Unjudged;
use cowlab_machine::capability::{self, Capability};
use cowlab_machine::verdict::{Expected, Replication, Verdict, fork_expecting};
use cowlab_machine::{Facts, ProcessFacts, Root};
use cowlab_model::application::ApplicationProfile;
use cowlab_observe::redis::{Asked, ask};
use cowlab_observe::{Target, children};
use cowlab_schema::Command;
use cowlab_store::{Missing, Run};
use cowlab_tend::Tender;
use serde::Serialize;

use crate::application::{of_run, parent_of_worker};
use crate::args::{DoctorArgs, local_pid, only};
use crate::next_stop::{NextStop, Prices};
use crate::output;

#[derive(Serialize)]
struct DoctorSummary<'a> {
    facts: &'a Facts,
    capabilities: &'a [Capability],
    /// Of the only process.
    #[serde(skip_serializing_if = "Option::is_none")]
    fork: Option<&'a Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_ns: Option<&'a NextStop>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_fork_ns: Option<u64>,
    /// Of several.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    processes: &'a [Patient],
}

/// One process, and what its next fork meets.
#[derive(Debug, Clone, Serialize)]
pub struct Patient {
    /// Its pid.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// What its next fork may take, and whether that is refused.
    pub fork: Verdict,
    /// How long its next fork stops it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_ns: Option<NextStop>,
    /// Why its stop cannot be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_stop: Option<String>,
    /// How long a Redis says that its last fork took.
    #[serde(skip)]
    pub last_fork_ns: Option<u64>,
    /// Whether a server was asked.
    #[serde(skip)]
    pub asked: bool,
    /// Where it listens, if it is a server that says so.
    #[serde(skip)]
    pub server_address: Option<String>,
    /// Its living children.
    pub children: Option<usize>,
    /// Of them, those that run on as they were forked.
    #[serde(skip)]
    pub forked: usize,
    /// Why it forks nobody, where it is a worker.
    worker: Option<String>,
    /// The run that says what it writes.
    #[serde(skip)]
    footprint: Option<PathBuf>,
    /// Why it cannot be tended.
    no_tend: Option<String>,
}

/// Run the verb.
pub fn run(json: bool, args: &DoctorArgs) -> Result<()> {
    let root = Root::default();
    let facts = Facts::probe(&root);
    let capabilities = capability::list(&facts);
    let (patients, errors) = patients(&root, &facts, args)?;
    if patients.is_empty() && !errors.is_empty() {
        return output::errors(errors);
    }
    if json {
        let mut missing: Vec<Missing> = capabilities
            .iter()
            .filter(|capability| !capability.available)
            .map(|capability| Missing {
                metric: capability.name.clone(),
                reason: capability.needs.clone().unwrap_or_default(),
            })
            .collect();
        missing.extend(errors.iter().map(|error| Missing {
            metric: "processes".to_owned(),
            reason: output::message(error),
        }));
        let (only, processes) = match &patients[..] {
            [only] if errors.is_empty() => (Some(only), &[][..]),
            several => (None, several),
        };
        let summary = DoctorSummary {
            facts: &facts,
            capabilities: &capabilities,
            fork: only.map(|of| &of.fork),
            stop_ns: only.and_then(|of| of.stop_ns.as_ref()),
            last_fork_ns: only.and_then(|of| of.last_fork_ns),
            processes,
        };
        output::json_of(summary, &[], &missing)?;
    } else if args.tables {
        output::text(&tables::document(&facts, &capabilities, &patients))?;
    } else if patients.is_empty() {
        output::text(&screen::of_machine(&facts, &capabilities))?;
    } else {
        output::texts(patients.iter().map(|patient| screen::of_process(&facts, patient)))?;
    }
    output::errors(errors)
}

/// What the next fork of each process that the flags name meets, and why that of others is not known.
fn patients(root: &Root, facts: &Facts, args: &DoctorArgs) -> Result<(Vec<Patient>, Vec<Error>)> {
    let asked = args.redis.as_deref().map(ask).transpose()?;
    let pids = match (&args.targets[..], &asked) {
        ([], Some(asked)) => vec![local_pid(asked)],
        (targets, _) => targets.iter().map(only).collect(),
    };
    // Of several processes it is not known which one the server is.
    let last_fork_ns =
        asked.as_ref().filter(|_| pids.len() == 1).and_then(|asked| asked.last_fork_ns);
    let replication = asked.map(|asked| asked.replication);
    let last_cow = replication.as_ref().and_then(|of| of.last_cow_bytes);
    let expected = match (&args.footprint, last_cow) {
        (Some(run), _) => {
            let page_bytes = facts.page_size_bytes;
            let profile = of_run(run, None, page_bytes)?.profile;
            let unjudged = Unjudged::of(&Run::read(run)?.samples, None)?;
            Some(expected(run, &profile, unjudged, page_bytes))
        }
        (None, last_cow) => last_cow.map(of_last_snapshot),
    };
    let judge = |pid: Result<i32>| {
        let patient = Patient::new(root, facts, pid?, expected.as_ref(), replication.as_ref())?;
        Ok(Patient {
            footprint: args.footprint.clone(),
            last_fork_ns,
            asked: args.redis.is_some(),
            ..patient
        })
    };
    Ok(output::parted(pids.into_iter().map(judge)))
}

impl Patient {
    /// As it shows from outside, without a footprint, and what the server says that was asked.
    pub fn of(facts: &Facts, pid: i32, asked: Option<&Asked>) -> Result<Patient> {
        let replication = asked.map(|asked| &asked.replication);
        let expected = replication.and_then(|of| of.last_cow_bytes).map(of_last_snapshot);
        let patient = Patient::new(&Root::default(), facts, pid, expected.as_ref(), replication)?;
        Ok(Patient {
            last_fork_ns: asked.and_then(|asked| asked.last_fork_ns),
            asked: asked.is_some(),
            ..patient
        })
    }

    fn new(
        root: &Root,
        facts: &Facts,
        pid: i32,
        expected: Option<&Expected>,
        replication: Option<&Replication>,
    ) -> Result<Patient> {
        let process = ProcessFacts::probe(root, pid)?;
        let target = Target::open(pid)?;
        let stop = NextStop::of(facts, &target, &Prices::find());
        let parent = parent_of_worker(&target);
        Ok(Patient {
            pid,
            fork: fork_expecting(facts, &process, expected, replication),
            no_stop: stop.as_ref().err().cloned(),
            last_fork_ns: None,
            asked: false,
            server_address: target.server_address(),
            stop_ns: stop.ok(),
            children: children::pids(&target).ok().map(|pids| pids.len()),
            forked: children::forked(&target).map_or(0, |(forked, _)| forked.len()),
            worker: parent.map(|parent| {
                format!(
                    "{} ({pid}) is a worker of {} ({}) and forks nobody: {}",
                    process.name,
                    parent.name(),
                    parent.pid(),
                    Command::Doctor.of(parent.pid())
                )
            }),
            name: process.name,
            footprint: None,
            no_tend: Tender::refusal(Some(&target)),
        })
    }
}

/// What a server says that its last snapshot copied.
fn of_last_snapshot(copied_bytes: u64) -> Expected {
    Expected { copied_bytes, source: "rdb_last_cow_size".to_owned() }
}

/// The copies that a footprint lets expect: what it could not judge counts as written, since too
/// little would be a promise.
fn expected(
    run: &Path,
    profile: &ApplicationProfile,
    unjudged: Unjudged,
    page_bytes: u64,
) -> Expected {
    let mut source = format!("the footprint of {}", run.display());
    if unjudged.pages > 0 {
        let pages = unjudged.pages;
        source += &format!(" ({pages} pages that could not be judged count as written)");
    }
    if unjudged.lost_faults > 0 {
        source += &format!(" ({} faults were lost: it may be more)", unjudged.lost_faults);
    }
    Expected { copied_bytes: unjudged.at_most(profile) * page_bytes, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_footprint_could_not_judge_is_expected_to_be_copied() {
        let profile = ApplicationProfile::of_pages(1000, 100);
        let of = |pages, lost_faults| {
            expected(Path::new("runs/x"), &profile, Unjudged { pages, lost_faults }, 4096)
        };
        let plain = of(0, 0);
        assert_eq!(plain.copied_bytes, 100 * 4096);
        assert_eq!(plain.source, "the footprint of runs/x");
        assert_eq!(of(50, 0).copied_bytes, 150 * 4096);
        assert!(of(50, 0).source.contains("50 pages that could not be judged"));
        assert_eq!(of(5000, 0).copied_bytes, 1000 * 4096);
        assert!(of(0, 3).source.contains("3 faults were lost"));
    }
}
