// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything that was looked at, as tables.

use cowlab_machine::Facts;
use cowlab_machine::capability::Capability;
use cowlab_machine::verdict::{Level, Verdict};
use cowlab_report::{Block, Cell, Document, Finding, Rows, Section};

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
    let table = Rows::of("capabilities", "", capabilities)
        .text("what", |of| &of.name)
        .text("here", |of| if of.available { "yes" } else { "no" })
        .text("used for", |of| of.used_for)
        .text("what to do", |of| of.needs.as_deref().unwrap_or(""))
        .table();
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(facts.problems.iter().map(|problem| Block::Note(problem.clone())));
    Section::new("capabilities", "What can be measured here", blocks)
}

fn fork_section(verdict: &Verdict, pid: i32) -> Section {
    let table = Rows::of("fork", format!("A fork of process {pid}"), &verdict.findings)
        .text("level", |of| match of.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::WillFail => "will fail",
        })
        .text("what", |of| &of.what)
        .text("why", |of| &of.why)
        .text("what to do", |of| &of.what_to_do)
        .table();
    let sizes = [
        ("page tables, copied at fork", Some(verdict.page_table_bytes)),
        ("private memory, shared until it is written", Some(verdict.private_bytes)),
        ("expected: what is known to be written copied", verdict.expected_bytes),
        ("worst case: every private page copied", Some(verdict.worst_case_bytes)),
    ];
    let sizes = Rows::of("fork-memory", "Memory that the fork may take", &sizes)
        .text("what", |(what, _)| *what)
        .figure("size", |(_, bytes)| match bytes {
            Some(bytes) => Cell::number(*bytes as f64, "bytes"),
            None => Cell::Missing("needs --footprint RUN or --redis ADDRESS".to_owned()),
        })
        .table();
    let verdict = Finding { headline: verdict.sentence.clone(), ..Finding::default() };
    Section::new(
        "fork",
        format!("Would a fork of process {pid} fail?"),
        vec![Block::Finding(verdict), Block::Table(table), Block::Table(sizes)],
    )
}
