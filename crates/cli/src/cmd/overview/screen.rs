// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same for people, on one screen.

use cowlab_machine::Facts;
use cowlab_report::fmt::{bytes, several, time};
use cowlab_report::{Block, Cell, Column, Document, Rows, Section};
use cowlab_schema::Command;

use super::{Ability, How, NO_TIME, OverviewSummary, Program};
use crate::cmd::doctor::machine_title;
use crate::diagnosis::Source;
use crate::profile_file::USUAL_COSTS;

pub fn document(facts: &Facts, of: &OverviewSummary) -> Document {
    let mut document = Document::new(machine_title(facts), format!("• {}", answer(of)));
    let mut row = |name: &str, value: String| document.facts.push((name.to_owned(), value));
    let can: Vec<&str> =
        of.abilities.iter().filter(|of| of.needs.is_none()).map(|of| of.what).collect();
    row("here", can.join(", "));
    let lacking = lacking(&of.abilities);
    if !lacking.is_empty() {
        row("not here", lacking);
    }
    if let Some(not_seen) = &of.not_seen {
        row("not seen", not_seen.clone());
    }
    let is_usual =
        |of: &Program| of.stop_ns.as_ref().is_some_and(|stop| stop.source == Source::Usual);
    if of.programs.iter().any(is_usual) {
        row("stops", format!("by {USUAL_COSTS}; `{}` measures this machine's", Command::Calibrate));
    }
    if !of.programs.is_empty() {
        document.sections.push(Section::new("programs", "Programs that fork", programs(of)));
    }
    let title = match of.programs.first() {
        Some(worst) => format!("More about {} ({})", worst.name, worst.pid),
        None => "What to do next".to_owned(),
    };
    let table = Rows::of("next", "", &of.commands)
        .text("type", |next| &next.command)
        .text("to learn", |next| {
            format!("{}{}", next.what, if next.needs_root { "; needs root" } else { "" })
        })
        .table();
    document.sections.push(Section::new("next", title, vec![Block::Table(table)]));
    document
}

fn answer(of: &OverviewSummary) -> String {
    let Some(worst) = of.programs.first() else {
        return "No running program was seen to fork.".to_owned();
    };
    let subject = format!("{} ({})", worst.name, worst.pid);
    let Some(stop) = stop(worst) else {
        return format!("{subject} forks. How long its next fork would stop it is not known.");
    };
    let about = if worst.is_surveyed { "about " } else { "" };
    let rank = match worst.how {
        How::Programs => {
            "the longest below. No program was seen to share its memory: these only start others"
        }
        How::Workers | How::Save => "the longest of the programs that share their memory by fork",
    };
    let is_alone = of.programs.len() == 1 && worst.alike.is_empty();
    let rank = if is_alone { String::new() } else { format!(", {rank}") };
    format!("The next fork of {subject} is predicted to stop it for {about}{stop}{rank}.")
}

/// What cannot be had, by what it needs.
fn lacking(abilities: &[Ability]) -> String {
    let mut by_need: Vec<(&str, Vec<&str>)> = Vec::new();
    for (what, needs) in abilities.iter().filter_map(|of| Some((of.what, of.needs.as_deref()?))) {
        match by_need.iter_mut().find(|(known, _)| *known == needs) {
            Some((_, all)) => all.push(what),
            None => by_need.push((needs, vec![what])),
        }
    }
    let told = |(needs, what): (&str, Vec<&str>)| format!("{}: needs {needs}", what.join(", "));
    by_need.into_iter().map(told).collect::<Vec<_>>().join("; ")
}

fn stop(of: &Program) -> Option<String> {
    let roughly = if of.is_surveyed { "" } else { "roughly " };
    of.stop_ns.as_ref().map(|stop| format!("{roughly}{}", time(stop.value)))
}

fn children(of: &Program) -> String {
    match of.how {
        How::Save if of.workers == 0 => "saves by fork".to_owned(),
        How::Save => format!("{} now, saves by fork", of.workers),
        // Only the name says so.
        How::Workers if !of.may_look => format!("{} of its name", of.workers),
        How::Workers => several(of.workers as u64, "shares memory", "share memory"),
        How::Programs if of.executed == 0 => "have ended".to_owned(),
        How::Programs => several(of.executed as u64, "program", "programs"),
    }
}

fn programs(of: &OverviewSummary) -> Vec<Block> {
    let shared = |of: &Program, size: Option<u64>| match size {
        Some(size) => Cell::text(bytes(size)),
        None if of.is_late() => Cell::Missing(NO_TIME.to_owned()),
        None => Cell::text(""),
    };
    let name = |of: &Program| match of.alike.len() {
        0 => format!("{} ({})", of.name, of.pid),
        more => format!("{} ({}) and {more} more", of.name, of.pid),
    };
    let table = Rows::of("programs", "", &of.programs)
        .text("program", name)
        .text("children", children)
        .text("memory", |of| of.anonymous_bytes.map_or_else(|| "–".to_owned(), bytes))
        .text("next stop, predicted", |of| stop(of).unwrap_or_else(|| "not known".to_owned()))
        .column(Column::text("their own"), |of| shared(of, of.own_bytes))
        .column(Column::text("saved"), |of| shared(of, of.saved_bytes))
        .table();
    let mut blocks = vec![Block::Table(table)];
    let starts = of.programs.iter().any(|of| of.how == How::Programs);
    let notes = [
        (of.left_out > 0).then(|| format!("{} more processes fork, and cost less.", of.left_out)),
        starts.then(|| {
            "Programs that only start others are last: by vfork or posix_spawn they are hardly stopped."
                .to_owned()
        }),
        of.programs.iter().any(|of| of.saved_bytes.is_some()).then(|| {
            format!(
                "Their own: what the children no longer share. Saved: what sharing saves. `{}` has each child.",
                Command::Sharing
            )
        }),
    ];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    if !notes.is_empty() {
        blocks.push(Block::Text(notes.join(" ")));
    }
    blocks
}
