// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answer, and what to do next: a screen for a process, one for the machine.

use cowlab_machine::Facts;
use cowlab_machine::capability::Capability;
use cowlab_machine::verdict::Level;
use cowlab_report::fmt::{estimate, quantity};
use cowlab_report::{Block, Cell, Column, Document, Section, Table};
use cowlab_schema::Command;

use super::{Patient, Stop};

fn ram_left(facts: &Facts) -> String {
    let left = facts.memory.as_ref().and_then(|memory| memory.available_bytes);
    left.map_or_else(
        || "RAM left not known".to_owned(),
        |bytes| format!("{} of RAM left", quantity(bytes as f64, "bytes")),
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
        ram_left(facts)
    );
    let Some(worker) = &of.worker else {
        let mut document = Document::new(title, format!("• {}", fork.sentence));
        let mut row = |name: &str, value: String| document.facts.push((name.to_owned(), value));
        let worst = &fork.findings[0];
        row(
            "refused?",
            match worst.level {
                Level::WillFail => format!("yes: {}", worst.what),
                Level::Ok | Level::Warning => fork.promise.clone(),
            },
        );
        let most = quantity(fork.worst_case_bytes as f64, "bytes");
        row(
            "copies",
            match fork.expected_bytes {
                Some(bytes) => {
                    let expected = quantity(bytes as f64, "bytes");
                    format!("{expected} are expected, {most} if every page is written")
                }
                None => format!("at most {most}, if every page is written while the child lives"),
            },
        );
        if fork.expected_bytes.is_none() {
            let measure = Command::FootprintForks.of(pid);
            row("unknown", format!("how much is written: {measure} measures it"));
        }
        let why = of.no_stop.as_deref().unwrap_or_default();
        row("stop", of.stop_ns.as_ref().map_or_else(|| format!("not known: {why}"), stop));
        row(
            "children",
            match of.children {
                Some(0) => "none now".to_owned(),
                Some(count) => format!("{count} now"),
                None => "not known: they may not be looked at".to_owned(),
            },
        );
        let mut steps = Vec::new();
        if worst.level == Level::WillFail {
            steps.push(worst.what_to_do.clone());
        }
        if of.no_tend.is_none() {
            let tend = Command::TendDryRun.of(pid);
            steps.push(format!("{tend}: how much shorter huge pages would make the stop"));
        }
        steps.push(format!("{}: what each choice would change", Command::Advise.of(pid)));
        steps.push(format!("{}: what its next fork copies", Command::FootprintForks.of(pid)));
        for (number, step) in steps.into_iter().take(3).enumerate() {
            let name = if number == 0 { "do now" } else { "" };
            row(name, format!("{}. {step}", number + 1));
        }
        row("all", format!("each thing that was looked at: {}", Command::DoctorTables.of(pid)));
        return document;
    };
    Document::new(title, format!("• {worker}"))
}

fn stop(of: &Stop) -> String {
    let figure = estimate(of.value, of.low, of.high, "ns");
    match of.is_calibrated {
        true => format!("{figure}, by the machine profile"),
        false => format!(
            "{figure}, by usual costs, half to twice: {} measures this machine's",
            Command::Calibrate
        ),
    }
}

/// What can be had on this machine.
pub fn of_machine(facts: &Facts, capabilities: &[Capability]) -> Document {
    let thp = facts.thp.as_ref().and_then(|thp| thp.enabled.as_deref());
    let title = format!(
        "{}, Linux {}, {} CPUs, {}, huge pages: {}",
        facts.host,
        facts.kernel,
        facts.cpu.allowed.len(),
        ram_left(facts),
        thp.unwrap_or("none")
    );
    let is_there = |name: &str| {
        capabilities.iter().find(|of| of.name.starts_with(name)).map(|of| match &of.needs {
            None => "yes".to_owned(),
            Some(needs) => format!("no: {needs}"),
        })
    };
    let here = |name: &str| is_there(name).unwrap_or_else(|| "no: this kernel has none".to_owned());
    let rows = [
        ("look at a process", Command::FootprintForks, here("processes of other users")),
        ("see each fork and its stop", Command::Watch, here("perf and BPF")),
        ("see each copy", Command::FootprintForks, here("perf and BPF")),
        ("huge pages from outside", Command::TendDryRun, here("THP of")),
        ("prices in ms", Command::Advise, format!("after `{}`, once", Command::Calibrate)),
        ("measure this machine", Command::Calibrate, here("a quiet machine")),
    ];
    let columns = ["what", "by", "here"].map(Column::text).to_vec();
    let mut table = Table::new("doctor", "", columns);
    let lacks = rows.iter().filter(|(.., here)| here.starts_with("no:")).count();
    for (what, by, here) in rows {
        table.push(vec![Cell::text(what), Cell::text(by.to_string()), Cell::text(here)]);
    }
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
