// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answer, and what to do next: a screen for a process, one for the machine.

use cowlab_machine::Facts;
use cowlab_machine::capability::Capability;
use cowlab_machine::verdict::Level;
use cowlab_model::application::Children;
use cowlab_report::fmt::{bytes, time};
use cowlab_report::{Block, Document, Rows, Section};
use cowlab_schema::Command;

use super::Patient;
use crate::next_stop::NextStop;
use crate::profile_file::usual_costs;

fn available(facts: &Facts) -> String {
    let available = facts.memory.as_ref().and_then(|memory| memory.available_bytes);
    available.map_or_else(
        || "available memory not known".to_owned(),
        |available| format!("{} available", bytes(available)),
    )
}

/// What the next fork of a process meets.
pub fn of_process(facts: &Facts, of: &Patient) -> Document {
    let (pid, fork) = (of.pid, &of.fork);
    let title = format!(
        "{} ({pid}) on {}, Linux {}, {}",
        of.name,
        facts.host,
        facts.kernel,
        available(facts)
    );
    let Some(worker) = &of.worker else {
        let mut document = Document::new(title, format!("• {}", fork.sentence));
        let mut row = |name: &str, value: String| document.facts.push((name.to_owned(), value));
        let worst = &fork.findings[0];
        row(
            "refused?",
            match worst.level {
                Level::WillFail => format!("yes: {}", worst.what),
                Level::Ok | Level::Warning => fork.promise.clone() + warned(facts, of),
            },
        );
        let most = bytes(fork.worst_case_bytes);
        row(
            "copies",
            match fork.expected_bytes {
                Some(expected) => {
                    format!("{} are expected, {most} if every page is written", bytes(expected))
                }
                None => format!("at most {most}, if every page is written while the child lives"),
            },
        );
        if fork.expected_bytes.is_none() {
            row("", format!("{}: how much is", Command::FootprintForks.of(pid)));
        }
        let why = of.no_stop.as_deref().unwrap_or_default();
        row("stop", of.stop_ns.as_ref().map_or_else(|| format!("not known: {why}"), stop));
        match of.last_fork_ns {
            Some(last) => row(
                "",
                format!(
                    "{} at its last fork, as the server measured it (latest_fork_usec)",
                    time(last as f64)
                ),
            ),
            None if !of.asked && Children::of(&of.name) == Children::Save => {
                let ask = Command::DoctorRedis.at(of.server_address.as_deref());
                row("", format!("{ask}: what the server measured"))
            }
            None => {}
        }
        row(
            "children",
            match of.children {
                Some(0) => "none now".to_owned(),
                Some(count) => format!("{count} now"),
                None => "not known: they may not be looked at".to_owned(),
            },
        );
        row("do now", to_do(of));
        row("all", format!("each thing that was looked at: {}", Command::DoctorTables.of(pid)));
        return document;
    };
    Document::new(title, format!("• {worker}"))
}

/// Redis and Valkey warn of this setting in their log when they start.
fn warned(facts: &Facts, of: &Patient) -> &'static str {
    match facts.overcommit.memory {
        Some(0) if Children::of(&of.name) == Children::Save => {
            " (the server warns of this setting when it starts: older kernels refused more)"
        }
        _ => "",
    }
}

/// A stop that nobody notices.
const SHORT_NS: f64 = 1e6;

/// The one thing to do next.
fn to_do(of: &Patient) -> String {
    let worst = &of.fork.findings[0];
    let is_short = of.stop_ns.as_ref().is_some_and(|stop| stop.value < SHORT_NS)
        && of.last_fork_ns.is_none_or(|last| (last as f64) < SHORT_NS);
    match worst.level {
        Level::WillFail | Level::Warning if !worst.what_to_do.is_empty() => {
            format!("{}: {}", worst.what, worst.what_to_do)
        }
        _ if is_short => "nothing: the stop is short, and the copies fit".to_owned(),
        _ => {
            let advise = match &of.footprint {
                Some(run) => Command::Advise.of(run.display()),
                None => Command::Advise.of(of.pid),
            };
            format!("{advise}: what would shorten the stop, and by how much")
        }
    }
}

fn stop(of: &NextStop) -> String {
    let [value, low, high] = [of.value, of.low, of.high].map(time);
    let by = if of.is_calibrated { "by the machine profile".to_owned() } else { usual_costs() };
    format!("{value} ({low} to {high}), {by}")
}

/// The machine in a line.
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
        ("prices in ms", Command::Advise, Ok(prices)),
        ("measure this machine", Command::Calibrate, here("a quiet machine")),
    ]
}

/// What can be had on this machine.
pub fn of_machine(facts: &Facts, capabilities: &[Capability]) -> Document {
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
        0 => "Everything that an operator needs can be had here.".to_owned(),
        lacks => format!("{} of 6 things that an operator needs can be had here.", 6 - lacks),
    };
    let missing = capabilities.iter().filter(|of| !of.available).count();
    let blocks = vec![
        Block::Table(table),
        Block::Text(format!(
            "{missing} of {} things that cowlab can use are missing, most of them for measurements \
             alone: `{}` lists each. For one process: `{}`.",
            capabilities.len(),
            Command::DoctorMachine,
            Command::Doctor
        )),
    ];
    let mut document = Document::new(title, format!("• {answer}"));
    document.sections.push(Section::new("here", "What can be done here", blocks));
    document
}
