// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `doctor`: what can be measured on this machine, and what is set against it.

use anyhow::Result;
use cowlab_machine::capability::{self, Capability};
use cowlab_machine::{Facts, Root};
use cowlab_report::fmt::bytes;
use cowlab_report::{Block, Document, Rows, Section};
use cowlab_schema::Command;
use cowlab_store::Missing;
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::output;

#[derive(Serialize)]
struct DoctorSummary<'a> {
    facts: &'a Facts,
    capabilities: &'a [Capability],
}

pub fn run(json: bool, args: &DoctorArgs) -> Result<()> {
    let facts = Facts::probe(&Root::default());
    let capabilities = capability::list(&facts);
    if json {
        let missing = capabilities.iter().filter(|capability| !capability.available);
        let missing: Vec<Missing> = missing
            .map(|capability| Missing {
                metric: capability.name.clone(),
                reason: capability.needs.clone().unwrap_or_default(),
            })
            .collect();
        let summary = DoctorSummary { facts: &facts, capabilities: &capabilities };
        return output::json_of(summary, &[], &missing);
    }
    output::text(&match args.tables {
        true => everything(&facts, &capabilities),
        false => screen(&facts, &capabilities),
    })
}

fn everything(facts: &Facts, capabilities: &[Capability]) -> Document {
    let mut document = Document::new("Doctor", format!("{}, Linux {}", facts.host, facts.kernel));
    let table = Rows::of("capabilities", "", capabilities)
        .text("what", |of| &of.name)
        .text("here", |of| if of.available { "yes" } else { "no" })
        .text("used for", |of| of.used_for)
        .text("what to do", |of| of.needs.as_deref().unwrap_or(""))
        .table();
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(facts.problems.iter().map(|problem| Block::Note(problem.clone())));
    document.sections = vec![Section::new("capabilities", "What can be measured here", blocks)];
    document
}

fn available(facts: &Facts) -> String {
    let available = facts.memory.as_ref().and_then(|memory| memory.available_bytes);
    available.map_or_else(
        || "available memory not known".to_owned(),
        |available| format!("{} available", bytes(available)),
    )
}

pub fn machine_title(facts: &Facts) -> String {
    let thp = facts.thp.as_ref().and_then(|thp| thp.enabled.as_deref());
    format!(
        "{}, Linux {}, {} CPUs, {}, huge pages: {}",
        facts.host,
        facts.kernel,
        facts.cpu.allowed.len(),
        available(facts),
        thp.unwrap_or("none")
    )
}

/// What an operator needs, the command that does it, and what is missing for it here.
pub fn abilities(
    capabilities: &[Capability],
) -> [(&'static str, Command, Result<String, String>); 6] {
    let here = |name: &str| match capabilities.iter().find(|of| of.name.starts_with(name)) {
        Some(of) => of.needs.clone().map_or_else(|| Ok("yes".to_owned()), Err),
        None => Err("this kernel has none".to_owned()),
    };
    // Of this machine's memory none can be huge, or none of another program's.
    let may_tend = here("THP of").and_then(|_| here("huge pages of other programs"));
    let prices = format!("roughly; well after `{}`", Command::Calibrate);
    [
        ("look at a process", Command::FootprintForks, here("processes of other users")),
        ("see each fork and its stop", Command::Watch, here("perf and BPF")),
        ("see each copy", Command::FootprintForks, here("perf and BPF")),
        ("huge pages from outside", Command::TendDryRun, may_tend),
        ("prices in ms", Command::ExplainQuick, Ok(prices)),
        ("measure this machine", Command::Calibrate, here("a quiet machine")),
    ]
}

fn screen(facts: &Facts, capabilities: &[Capability]) -> Document {
    let title = machine_title(facts);
    let rows = abilities(capabilities);
    let lacks = rows.iter().filter(|(.., here)| here.is_err()).count();
    let table = Rows::of("doctor", "", &rows)
        .text("what", |(what, ..)| *what)
        .text("by", |(_, by, _)| by.to_string())
        .text("here", |(.., here)| match here {
            Ok(yes) => yes.clone(),
            Err(needs) => format!("no: {needs}"),
        })
        .table();
    let answer = match lacks {
        0 => "All 6 features work on this machine.".to_owned(),
        lacks => format!("{} of 6 features work on this machine.", 6 - lacks),
    };
    let missing = capabilities.iter().filter(|of| !of.available).count();
    let blocks = vec![
        Block::Table(table),
        Block::Text(format!(
            "{missing} of {} things that cowlab can use are missing, most of them for measurements \
             alone: `{}` lists each. For one process: `{}`.",
            capabilities.len(),
            Command::DoctorMachine,
            Command::Explain
        )),
    ];
    let mut document = Document::new(title, format!("• {answer}"));
    document.sections.push(Section::new("here", "What can be done here", blocks));
    document
}
