// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `doctor`: what can be measured here, and whether a fork of a process would fail.

use anyhow::{Result, bail};
use cowlab_bench::redis::replication_of;
use cowlab_machine::capability::{self, Capability};
use cowlab_machine::verdict::{Expected, Level, Verdict, fork_expecting};
use cowlab_machine::{Facts, ProcessFacts, Root};
use cowlab_report::{Block, Cell, Column, Document, Finding, Section, Table};
use cowlab_store::{FORMAT, Missing};
use serde::Serialize;

use crate::application::of_run;
use crate::args::{Common, DoctorArgs};
use crate::output::{self, JsonDocument};

#[derive(Serialize)]
struct Summary<'a> {
    facts: &'a Facts,
    capabilities: &'a [Capability],
    #[serde(skip_serializing_if = "Option::is_none")]
    fork: Option<&'a Verdict>,
}

/// Run the verb.
pub fn run(common: &Common, args: &DoctorArgs) -> Result<()> {
    let root = Root::default();
    let facts = Facts::probe(&root);
    let capabilities = capability::list(&facts);
    let judged = judge(&root, &facts, args)?;
    let verdict = judged.as_ref().map(|(_, verdict)| verdict);
    if common.json {
        let missing: Vec<Missing> = capabilities
            .iter()
            .filter(|capability| !capability.available)
            .map(|capability| Missing {
                metric: capability.name.clone(),
                reason: capability.needs.clone().unwrap_or_default(),
            })
            .collect();
        return output::json(&JsonDocument {
            format: FORMAT,
            run: None,
            samples: &[],
            summary: Summary { facts: &facts, capabilities: &capabilities, fork: verdict },
            missing: &missing,
        });
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
    let own_pid = asked.as_ref().and_then(|(pid, _)| *pid).and_then(|pid| i32::try_from(pid).ok());
    let Some(pid) = args.pid.or(own_pid) else {
        if args.redis.is_some() {
            bail!("the server does not say its pid: give --pid as well");
        }
        return Ok(None);
    };
    let process = ProcessFacts::probe(root, pid)?;
    let replication = asked.map(|(_, replication)| replication);
    let last_cow = replication.as_ref().and_then(|of| of.last_cow_bytes);
    let expected = match (&args.footprint, last_cow) {
        (Some(run), _) => Some(Expected {
            copied_bytes: of_run(run, None, facts.page_size_bytes)?.profile.written
                * facts.page_size_bytes,
            source: format!("the footprint of {}", run.display()),
        }),
        (None, Some(copied_bytes)) => {
            Some(Expected { copied_bytes, source: "rdb_last_cow_size".to_owned() })
        }
        (None, None) => None,
    };
    let verdict = fork_expecting(facts, &process, expected.as_ref(), replication.as_ref());
    Ok(Some((pid, verdict)))
}

fn capability_section(facts: &Facts, capabilities: &[Capability]) -> Section {
    let columns = vec![
        Column::text("what"),
        Column::text("here"),
        Column::text("used for"),
        Column::text("what to do"),
    ];
    let mut table = Table::new("capabilities", "What can be measured here", columns);
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
