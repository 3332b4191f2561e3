// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page: plain words, and the command behind each.

use anyhow::Result;
use cowlab_machine::Facts;
use cowlab_machine::verdict::Level;
use cowlab_model::advice::{Advice, Choice};
use cowlab_model::application::Children;
use cowlab_report::fmt::{bytes, time};
use cowlab_report::{Block, Document, Section};
use cowlab_schema::Command;

use super::{Copies, Explained, SeenForks};
use crate::cmd::doctor::screen::machine_title;
use crate::cmd::{advise, sharing};

/// Places in the code that are named.
const PLACES: usize = 3;

/// All of it; with drawings for a page, without for a terminal.
pub fn document(facts: &Facts, of: &Explained, is_page: bool) -> Result<Document> {
    let patient = &of.patient;
    let title = format!("{} ({}), explained", patient.name, patient.pid);
    let bullet = if is_page { "" } else { "• " };
    let mut document = Document::new(title, format!("{bullet}{}", patient.fork.sentence));
    document.facts.push(("machine".to_owned(), machine_title(facts)));
    document.facts.push(("prices".to_owned(), of.by.clone()));
    let mut section = |id: &str, title: &str, blocks: Vec<Block>| {
        document.sections.push(Section::new(id, title, blocks));
    };
    section("forks", "How it forks", texts(how_it_forks(of)));
    section("stop", "Its next fork", texts(next_fork(of)));
    section("copies", "What it copies", copies(of, is_page)?);
    if let Some(figures) = &of.sharing {
        section("sharing", "What its workers share", texts(sharing::text::sentences(figures)));
    }
    section("advice", "What would help", help(of));
    Ok(document)
}

fn texts(all: Vec<String>) -> Vec<Block> {
    all.into_iter().map(Block::Text).collect()
}

fn how_it_forks(of: &Explained) -> Vec<String> {
    let (name, pid) = (&of.patient.name, of.patient.pid);
    let workers = of.sharing.as_ref().map_or(0, |figures| figures.forked().count());
    let mut all = vec![match (workers, of.patient.children) {
        (1, _) => format!("{name} has 1 worker, which it forked and which shares its memory."),
        (2.., _) => {
            format!("{name} has {workers} workers, which it forked and which share its memory.")
        }
        (_, Some(0)) => format!("{name} had no child when it was looked at."),
        (_, Some(1)) => format!("{name} has 1 child now, which executed another program."),
        (_, Some(children)) => {
            format!("{name} has {children} children now, which executed other programs.")
        }
        (_, None) => format!("Whether {name} has children may not be looked at."),
    }];
    all.push(match of.watched.as_ref().map(|watched| &watched.forks) {
        Ok(Ok(seen)) => frequency(seen, pid),
        Ok(Err(why)) => format!("How often it forks was not seen: {why}."),
        Err(why) => format!(
            "How often it forks was not seen ({why}). As root: `{}`.",
            Command::Watch.of(pid)
        ),
    });
    all
}

fn frequency(seen: &SeenForks, pid: i32) -> String {
    let during = format!("In the {:.0} s that it was watched", seen.duration_s);
    let spawns = match seen.spawns {
        0 => String::new(),
        count => format!(" It started {count} by vfork or posix_spawn, which copies nothing."),
    };
    let Some(stop_ns) = seen.stop_ns else {
        let forks = if seen.forks == 0 { "it did not fork".to_owned() } else { times(seen.forks) };
        let watch = Command::Watch.of(pid);
        return format!("{during}, {forks}.{spawns} `{watch}` waits for the next fork.");
    };
    let longest = seen.longest_stop_ns.map_or(stop_ns, |ns| ns as f64);
    let executed = match seen.executed {
        0 => String::new(),
        count => format!(" {count} of the children executed another program."),
    };
    format!(
        "{during}, {}, and each fork stopped it for {} (median; the longest: {}).{executed}{spawns}",
        times(seen.forks),
        time(stop_ns),
        time(longest)
    )
}

fn times(count: usize) -> String {
    if count == 1 { "it forked once".to_owned() } else { format!("it forked {count} times") }
}

fn next_fork(of: &Explained) -> Vec<String> {
    let (fork, pid) = (&of.patient.fork, of.patient.pid);
    let mut all = vec![match (&of.patient.stop_ns, &of.patient.no_stop) {
        (Some(stop), _) => {
            let [value, low, high] = [stop.value, stop.low, stop.high].map(time);
            let seen = of.seen_forks().and_then(|seen| seen.stop_ns);
            let seen = seen
                .map_or_else(String::new, |ns| format!("; those that were seen took {}", time(ns)));
            let asks = of.seen_forks().is_none_or(|seen| seen.stop_ns.is_none())
                && Children::of(&of.patient.name) == Children::Save;
            let ask = match asks {
                true => {
                    format!(" `{}` asks the server what its last one took.", Command::DoctorRedis)
                }
                false => String::new(),
            };
            format!("It is predicted to stop the program for {value} ({low} to {high}){seen}.{ask}")
        }
        (None, why) => {
            format!("How long it stops the program is not known: {}.", why.as_deref().unwrap_or(""))
        }
    }];
    let worst = &fork.findings[0];
    all.push(match worst.level {
        Level::Ok => format!("Refused? {}.", fork.promise),
        Level::Warning | Level::WillFail => {
            format!("{}: {}. To do: {}.", worst.what, worst.why, worst.what_to_do)
        }
    });
    all.push(format!(
        "It copies at most {}, if every page is written while the child lives. `{}` has all that was \
         looked at.",
        bytes(fork.worst_case_bytes),
        Command::DoctorTables.of(pid)
    ));
    all
}

/// Of the copies' report the answer, and the places that copy most.
fn copies(of: &Explained, is_page: bool) -> Result<Vec<Block>> {
    let pid = of.patient.pid;
    let Copies { blamed, run } = match of.watched.as_ref().map(|watched| &watched.copies) {
        Ok(Ok(copies)) => copies,
        Ok(Err(why)) => return Ok(vec![Block::Text(format!("Not seen: {why}."))]),
        Err(_) => {
            let text =
                format!("Not seen, for the same reason. As root: `{}`.", Command::Blame.of(pid));
            return Ok(vec![Block::Text(text)]);
        }
    };
    let report = blamed.document(run)?;
    let blocks = || report.sections.iter().flat_map(|section| &section.blocks);
    let findings = blocks().filter(|block| matches!(block, Block::Finding(_))).take(PLACES);
    let notes = blocks().filter(|block| matches!(block, Block::Note(_)));
    let copied = blamed.summary().copied_bytes;
    let before = (own_bytes(of) as f64 > 10.0 * copied).then(|| copied_before(of));
    if copied == 0.0 {
        return Ok(texts([Some(nothing_copied(of)), before].into_iter().flatten().collect()));
    }
    let mut all = vec![Block::Text(report.subtitle.clone())];
    all.extend(findings.chain(notes).cloned());
    let is_seen = |block: &&Block| matches!(block, Block::Drawing(_) | Block::Table(_));
    match is_page {
        true => all.extend(blocks().filter(is_seen).cloned()),
        false => {
            all.push(Block::Text(format!("`{}` has the flame graph.", Command::Blame.of(pid))));
        }
    }
    all.extend(before.map(Block::Text));
    Ok(all)
}

/// Why nothing was seen, and what to do to see it.
fn nothing_copied(of: &Explained) -> String {
    match of.seen_forks().map_or(0, |seen| seen.forks) {
        0 => format!(
            "Nothing was copied while it was watched: no fork fell into that time. `{}` waits for one.",
            Command::Blame.of(of.patient.pid)
        ),
        _ => "Nothing was copied after the forks that were seen.".to_owned(),
    }
}

/// Of code that copied earlier nothing can be told.
fn copied_before(of: &Explained) -> String {
    format!(
        "Its workers copied, or made anew, {} before that. Which code did shows only as it happens: start a \
         second one with `{}`, or restart a worker while `{}` runs.",
        bytes(own_bytes(of)),
        Command::BlameCommand,
        Command::Blame.of(of.patient.pid)
    )
}

/// What its workers share no longer.
fn own_bytes(of: &Explained) -> u64 {
    of.sharing.as_ref().map_or(0, |figures| figures.forked().map(|one| one.own_bytes).sum())
}

/// Of workers that live on: what their copies take counts more than the stop of a fork now and then.
fn for_workers(of: &Explained, advice: &[Advice]) -> Option<Block> {
    let own = own_bytes(of);
    let forks = of.seen_forks().is_some_and(|seen| seen.forks > 0);
    let freeze = advice.iter().find(|one| one.choice == Choice::Freeze && one.forecast.is_ok())?;
    (own > 0 && !forks).then(|| {
        Block::Text(format!(
            "It forks rarely and its workers live on, so their {} count more than the stop. Freezing spares the \
             copies that a garbage collector makes ({}): try it in one instance, and compare `{}` of both.",
            bytes(own),
            freeze.step,
            Command::Sharing.of(of.patient.pid)
        ))
    })
}

fn help(of: &Explained) -> Vec<Block> {
    match &of.advised {
        Ok((application, advice, sentence)) => {
            let target = of.patient.pid.to_string();
            let screen = advise::screen(sentence, application, advice, &target);
            let blocks = screen.into_iter().flat_map(|section| section.blocks);
            for_workers(of, advice).into_iter().chain(blocks).collect()
        }
        Err(why) => vec![Block::Text(format!("Not known: {why}."))],
    }
}
