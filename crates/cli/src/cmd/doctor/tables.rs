// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that was looked at, as tables.

use cowlab_machine::Facts;
use cowlab_machine::capability::Capability;
use cowlab_machine::verdict::{Level, Verdict};
use cowlab_report::{Block, Cell, Column, Document, Finding, Section, Table};

use super::Patient;

/// All of it.
pub fn document(facts: &Facts, capabilities: &[Capability], patients: &[Patient]) -> Document {
    let mut document = Document::new("Doctor", format!("{}, Linux {}", facts.host, facts.kernel));
    let forks = patients.iter().map(|of| fork_section(&of.fork, of.pid));
    document.sections.extend(forks);
    document.sections.push(capability_section(facts, capabilities));
    document
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
