// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `doctor`: what can be measured here, and whether a fork of a process would fail.

use std::path::Path;

use anyhow::{Result, bail};
use cowlab_analysis::application::Unjudged;
use cowlab_bench::redis::{ServerProcess, replication_of};
use cowlab_machine::capability::{self, Capability};
use cowlab_machine::verdict::{Expected, Level, Verdict, fork_expecting};
use cowlab_machine::{Facts, ProcessFacts, Root};
use cowlab_model::application::ApplicationProfile;
use cowlab_observe::Target;
use cowlab_report::{Block, Cell, Column, Document, Finding, Section, Table};
use cowlab_store::{Missing, Run};
use serde::Serialize;

use crate::application::of_run;
use crate::args::DoctorArgs;
use crate::output;

#[derive(Serialize)]
struct DoctorSummary<'a> {
    facts: &'a Facts,
    capabilities: &'a [Capability],
    #[serde(skip_serializing_if = "Option::is_none")]
    fork: Option<&'a Verdict>,
}

/// Run the verb.
pub fn run(json: bool, args: &DoctorArgs) -> Result<()> {
    let root = Root::default();
    let facts = Facts::probe(&root);
    let capabilities = capability::list(&facts);
    let judged = judge(&root, &facts, args)?;
    let verdict = judged.as_ref().map(|(_, verdict)| verdict);
    if json {
        let missing: Vec<Missing> = capabilities
            .iter()
            .filter(|capability| !capability.available)
            .map(|capability| Missing {
                metric: capability.name.clone(),
                reason: capability.needs.clone().unwrap_or_default(),
            })
            .collect();
        return output::json_of(
            DoctorSummary { facts: &facts, capabilities: &capabilities, fork: verdict },
            &[],
            &missing,
        );
    }
    let mut document = Document::new("Doctor", format!("{}, Linux {}", facts.host, facts.kernel));
    if let Some((pid, verdict)) = &judged {
        document.sections.push(fork_section(verdict, *pid));
    }
    document.sections.push(capability_section(&facts, &capabilities));
    output::text(&document)
}

/// The process that the flags name, and what its next fork meets.
fn judge(root: &Root, facts: &Facts, args: &DoctorArgs) -> Result<Option<(i32, Verdict)>> {
    let asked = args.redis.as_deref().map(replication_of).transpose()?;
    let pid = match (&args.target, &asked) {
        (Some(target), _) => target.only()?,
        (None, Some((Some(server), _))) => local_pid(server)?,
        (None, Some((None, _))) => bail!("the server does not say its pid: give it as well: PID"),
        (None, None) => return Ok(None),
    };
    let process = ProcessFacts::probe(root, pid)?;
    let replication = asked.map(|(_, replication)| replication);
    let last_cow = replication.as_ref().and_then(|of| of.last_cow_bytes);
    let expected = match (&args.footprint, last_cow) {
        (Some(run), _) => {
            let page_bytes = facts.page_size_bytes;
            let profile = of_run(run, None, page_bytes)?.profile;
            let unjudged = Unjudged::of(&Run::read(run)?.samples, None)?;
            Some(expected(run, &profile, unjudged, page_bytes))
        }
        (None, Some(copied_bytes)) => {
            Some(Expected { copied_bytes, source: "rdb_last_cow_size".to_owned() })
        }
        (None, None) => None,
    };
    let verdict = fork_expecting(facts, &process, expected.as_ref(), replication.as_ref());
    Ok(Some((pid, verdict)))
}

/// The process here with the server's own number, if it has run for as long: in a container or on
/// another machine that number is somebody else's.
fn local_pid(server: &ServerProcess) -> Result<i32> {
    let age_s = || -> Option<u64> {
        let target = Target::open(i32::try_from(server.pid).ok()?).ok()?;
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let uptime_s: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        let started_s = target.start_ticks() / rustix::param::clock_ticks_per_second();
        Some((uptime_s as u64).saturating_sub(started_s))
    };
    let pid = server.pid;
    match age_s() {
        Some(age_s) if age_s.abs_diff(server.uptime_s) <= SAME_AGE_S => Ok(pid as i32),
        _ => bail!(
            "the server calls itself process {pid}, and no process {pid} here has run for as long: \
             it is in a container or on another machine; name it by its number here"
        ),
    }
}

/// How far two accounts of one process's age may be apart: it reads its configuration first.
const SAME_AGE_S: u64 = 10;

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

fn capability_section(facts: &Facts, capabilities: &[Capability]) -> Section {
    let columns = vec![
        Column::text("what"),
        Column::text("here"),
        Column::text("used for"),
        Column::text("what to do"),
    ];
    let mut table = Table::new("capabilities", "", columns);
    for capability in capabilities {
        table.push(vec![
            Cell::text(&capability.name),
            Cell::text(if capability.available { "yes" } else { "no" }),
            Cell::text(capability.used_for),
            Cell::text(capability.needs.as_deref().unwrap_or("")),
        ]);
    }
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(facts.problems.iter().map(|problem| Block::Note(problem.clone())));
    Section::new("capabilities", "What can be measured here", blocks)
}

fn fork_section(verdict: &Verdict, pid: i32) -> Section {
    let columns = vec![
        Column::text("level"),
        Column::text("what"),
        Column::text("why"),
        Column::text("what to do"),
    ];
    let mut table = Table::new("fork", format!("A fork of process {pid}"), columns);
    for finding in &verdict.findings {
        table.push(vec![
            Cell::text(match finding.level {
                Level::Ok => "ok",
                Level::Warning => "warning",
                Level::WillFail => "will fail",
            }),
            Cell::text(&finding.what),
            Cell::text(&finding.why),
            Cell::text(&finding.what_to_do),
        ]);
    }
    let columns = vec![Column::text("what"), Column::number("size")];
    let mut sizes = Table::new("fork-memory", "Memory that the fork may take", columns);
    for (what, bytes) in [
        ("page tables, copied at fork", Some(verdict.page_table_bytes)),
        ("private memory, shared until it is written", Some(verdict.private_bytes)),
        ("expected: what is known to be written copied", verdict.expected_bytes),
        ("worst case: every private page copied", Some(verdict.worst_case_bytes)),
    ] {
        let size = match bytes {
            Some(bytes) => Cell::number(bytes as f64, "bytes"),
            None => Cell::Missing("needs --footprint RUN or --redis ADDRESS".to_owned()),
        };
        sizes.push(vec![Cell::text(what), size]);
    }
    let verdict = Finding { headline: verdict.sentence.clone(), ..Finding::default() };
    Section::new(
        "fork",
        format!("Would a fork of process {pid} fail?"),
        vec![Block::Finding(verdict), Block::Table(table), Block::Table(sizes)],
    )
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
