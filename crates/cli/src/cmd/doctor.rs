// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `doctor`: what can be measured here, and whether a fork of a process would fail.

use anyhow::Result;
use cowlab_machine::capability::{self, Capability};
use cowlab_machine::verdict::{Level, Verdict, fork_of};
use cowlab_machine::{Facts, ProcessFacts, Root};
use cowlab_report::{Block, Cell, Column, Document, Section, Table};
use cowlab_store::{FORMAT, Missing};
use serde::Serialize;

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
    let verdict = match args.pid {
        Some(pid) => Some(fork_of(&facts, &ProcessFacts::probe(&root, pid)?)),
        None => None,
    };
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
            summary: Summary { facts: &facts, capabilities: &capabilities, fork: verdict.as_ref() },
            missing: &missing,
        });
    }
    let mut document = Document::new("Doctor", format!("{}, Linux {}", facts.host, facts.kernel));
    if let (Some(verdict), Some(pid)) = (&verdict, args.pid) {
        let section = fork_section(verdict, pid);
        document.sections.push(section);
    }
    document.sections.push(capability_section(&facts, &capabilities));
    output::text(&document)
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
        ("page tables, copied at fork", verdict.page_table_bytes),
        ("private memory, shared until it is written", verdict.private_bytes),
        ("worst case: every private page copied", verdict.worst_case_bytes),
    ] {
        sizes.push(vec![Cell::text(what), Cell::number(bytes as f64, "bytes")]);
    }
    Section::new(
        "fork",
        format!("Would a fork of process {pid} fail?"),
        vec![Block::Table(table), Block::Table(sizes)],
    )
}
