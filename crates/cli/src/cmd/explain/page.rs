// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page: plain words, and the command behind each.

use anyhow::Result;
use cowlab_machine::Facts;
use cowlab_machine::verdict::Level;
use cowlab_model::advice::{Advice, Choice, best};
use cowlab_model::application::Children;
use cowlab_report::fmt::{bytes, capital, percent, several, time};
use cowlab_report::{Block, Document, Section};
use cowlab_schema::Command;

use super::{Copies, Explained, SeenForks, Watched};
use crate::application::{Application, trigger};
use crate::cmd::advise::{self, Seen};
use crate::cmd::doctor::screen::machine_title;
use crate::cmd::sharing;

/// Places in the code that are named.
const PLACES: usize = 3;

/// All of it; with drawings for a page, without for a terminal.
pub fn document(facts: &Facts, of: &Explained, is_page: bool) -> Result<Document> {
    let patient = &of.patient;
    let title = format!("{} ({}), explained", patient.name, patient.pid);
    let bullet = if is_page { "" } else { "• " };
    let mut document = Document::new(title, format!("{bullet}{}", answer(of)));
    document.facts.push(("machine".to_owned(), machine_title(facts)));
    document.facts.push(("prices".to_owned(), of.by.clone()));
    let mut section = |id: &str, title: &str, blocks: Vec<Block>| {
        document.sections.push(Section::new(id, title, blocks));
    };
    let lives_on = of.lives_on();
    let mut told: Vec<(&str, &str, Vec<Block>)> = vec![
        ("forks", "How it forks", texts(how_it_forks(of))),
        ("stop", "Its next fork", texts(next_fork(of))),
        ("copies", "What it copies", copies(of, is_page)?),
    ];
    if of.has_ended() {
        told.retain(|(id, ..)| *id != "stop");
    }
    if let Some(figures) = &of.sharing {
        let mut sentences = sharing::text::sentences(figures);
        if lives_on {
            // It is the answer already.
            sentences.remove(0);
        }
        told.push(("sharing", "What its workers share", texts(sentences)));
    }
    if lives_on {
        // Their memory first.
        told.rotate_right(2);
        told.swap(0, 1);
    }
    told.into_iter().for_each(|(id, title, blocks)| section(id, title, blocks));
    section("advice", "What would help", help(of));
    Ok(document)
}

/// What is wanted most: of one that may fail that, of workers that live on their memory, of others what a fork
/// takes, and what would help.
fn answer(of: &Explained) -> String {
    let fork = &of.patient.fork;
    let answer = match &of.sharing {
        Some(figures) if of.lives_on() => sharing::text::together(figures),
        _ => what_a_fork_takes(of),
    };
    match fork.level() {
        Level::Ok => answer,
        Level::Warning | Level::WillFail => format!("{} {answer}", fork.sentence),
    }
}

fn what_a_fork_takes(of: &Explained) -> String {
    let name = &of.patient.name;
    let seen = of.watched.as_ref().map_or_else(|_| Seen::default(), Watched::seen);
    let has_ended = of.has_ended();
    let [stops, copies] = if has_ended { ["stopped", "copied"] } else { ["stops", "copies"] };
    let forks = of.seen_forks().filter(|seen| seen.stop_ns.is_some());
    let stop_ns = forks.and_then(|seen| seen.stop_ns);
    let server_ns = of.patient.last_fork_ns.map(|ns| time(ns as f64));
    let stopped = match (stop_ns, server_ns, &of.patient.stop_ns) {
        (Some(ns), ..) => match forks.map_or(0, |seen| seen.forks) {
            1 => format!("The one fork that was seen stopped {name} for {}", time(ns)),
            _ => format!("Each fork {stops} {name} for {}, as measured", time(ns)),
        },
        (None, Some(ns), _) => {
            format!("Its last fork stopped {name} for {ns}, as it measured itself")
        }
        (None, None, Some(stop)) => {
            let [value, low, high] = [stop.value, stop.low, stop.high].map(time);
            let would = match has_ended {
                true => format!("{name} has ended. A fork would have stopped it for"),
                false => format!("The next fork of {name} stops it for"),
            };
            format!("{would} some {value} ({low} to {high}), as predicted")
        }
        (None, None, None) => format!("How long a fork {stops} {name} is not known"),
    };
    let copied = match (seen.pages_per_fork, of.patient.fork.expected_bytes) {
        (Some(pages), _) => {
            format!("{copies} {}", bytes((pages * of.page_bytes as f64).round() as u64))
        }
        (None, Some(expected)) => format!("the next one is expected to copy {}", bytes(expected)),
        (None, None) => format!("{copies} {} at most", bytes(of.patient.fork.worst_case_bytes)),
    };
    format!("{stopped}, and {copied}.{}", what_helps(of).unwrap_or_default())
}

/// The best remedy, with its command, if it shortens the stop.
fn what_helps(of: &Explained) -> Option<String> {
    let (_, advice, _) = of.advised.as_ref().ok()?;
    let predicted_ns = advice[0].forecast.as_ref().ok()?.stop_ns.value;
    let seen_ns = of.seen_forks().and_then(|seen| seen.stop_ns);
    let now_ns = seen_ns.or(of.patient.last_fork_ns.map(|ns| ns as f64)).unwrap_or(predicted_ns);
    let (one, then) = best(advice)?;
    let left = then.stop_ns.value / now_ns;
    (left < 0.9).then(|| {
        let how = match one.choice {
            Choice::Tend => {
                format!("{}, kept running, would make", Command::Tend.of(&of.word))
            }
            _ => {
                let tables = Command::AdviseTables.of(&of.word);
                format!("{} ({tables} says how) would make", capital(&one.what))
            }
        };
        let less = (1.0 - left) * 100.0;
        format!(" {how} the stop {}, {less:.0}% less.", time(then.stop_ns.value))
    })
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
        _ if of.patient.forked > 0 => format!(
            "{name} had {} when cowlab first looked, forked from it and sharing its memory.",
            several(of.patient.forked as u64, "child", "children")
        ),
        (_, Some(0)) => format!("{name} had no child when it was looked at."),
        (_, Some(children)) => format!(
            "{name} has {} now, which executed another program.",
            several(children as u64, "child", "children")
        ),
        (_, None) => format!("cowlab may not see whether {name} has children."),
    }];
    all.push(match of.watched.as_ref().map(|watched| &watched.forks) {
        Ok(Ok(seen)) => frequency(seen, pid, of.has_ended()),
        Ok(Err(why)) => format!("How often it forks was not seen: {why}."),
        Err(why) => format!(
            "How often it forks was not seen ({why}). As root: `{}`.",
            Command::Watch.of(pid)
        ),
    });
    all
}

fn frequency(seen: &SeenForks, pid: i32, has_ended: bool) -> String {
    let during = format!("In the {:.0} s that it was watched", seen.duration_s);
    let spawns = match seen.spawns {
        0 => String::new(),
        count => format!(" It started {count} by vfork or posix_spawn, which copies nothing."),
    };
    let Some(stop_ns) = seen.stop_ns else {
        let forks = if seen.forks == 0 { "it did not fork".to_owned() } else { times(seen.forks) };
        if has_ended {
            return format!("{during}, {forks}.{spawns} Then it ended.");
        }
        let watch = Command::Watch.of(pid);
        return format!("{during}, {forks}.{spawns} `{watch}` waits for the next fork.");
    };
    let longest = seen.longest_stop_ns.map_or(stop_ns, |ns| ns as f64);
    let executed = match seen.executed {
        0 => String::new(),
        count => format!(" {count} of the children executed another program."),
    };
    let stops = match seen.forks {
        1 => format!("which stopped it for {}", time(stop_ns)),
        _ => format!(
            "and each fork stopped it for {} (median; the longest: {})",
            time(stop_ns),
            time(longest)
        ),
    };
    format!("{during}, {}, {stops}.{executed}{spawns}", times(seen.forks))
}

fn times(count: usize) -> String {
    if count == 1 { "it forked once".to_owned() } else { format!("it forked {count} times") }
}

fn next_fork(of: &Explained) -> Vec<String> {
    let (fork, pid) = (&of.patient.fork, of.patient.pid);
    let is_measured = of.seen_forks().is_some_and(|seen| seen.stop_ns.is_some());
    let mut all = Vec::new();
    // What was measured is told above, and of workers that live on the stop matters little.
    all.extend((!is_measured && !of.lives_on()).then(|| predicted_stop(of)));
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

fn predicted_stop(of: &Explained) -> String {
    match (&of.patient.stop_ns, &of.patient.no_stop) {
        (Some(stop), _) => {
            let [value, low, high] = [stop.value, stop.low, stop.high].map(time);
            let ask = match (of.patient.last_fork_ns, Children::of(&of.patient.name)) {
                (Some(ns), _) => format!(
                    " Its last fork took {}, as the server measured it (latest_fork_usec).",
                    time(ns as f64)
                ),
                (None, Children::Save) if !of.patient.asked => format!(
                    " `{}` asks the server what its last one took.",
                    Command::ExplainRedis.at(of.patient.server_address.as_deref())
                ),
                _ => String::new(),
            };
            format!("It is predicted to stop the program for {value} ({low} to {high}).{ask}")
        }
        (None, why) => {
            format!("How long it stops the program is not known: {}.", why.as_deref().unwrap_or(""))
        }
    }
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
            all.push(Block::Text(format!("`{}` draws a flame graph.", Command::Blame.of(pid))));
        }
    }
    all.extend(before.map(Block::Text));
    Ok(all)
}

/// Why nothing was seen, and what to do to see it.
fn nothing_copied(of: &Explained) -> String {
    match of.seen_forks().map_or(0, |seen| seen.forks) {
        0 if of.has_ended() => "Nothing was copied before it ended.".to_owned(),
        0 => format!(
            "Nothing was copied: it did not fork while cowlab watched. To see a fork, {} while `{}` \
             runs, or start a second one with `{}`.",
            trigger(&of.patient.name, of.sharing.is_some()),
            Command::BlameLong.of(of.patient.pid),
            Command::BlameCommand
        ),
        _ => "Nothing was copied after the forks that were seen.".to_owned(),
    }
}

/// Of code that copied earlier nothing can be told.
fn copied_before(of: &Explained) -> String {
    let own = bytes(own_bytes(of));
    format!(
        "Its workers had copied or allocated {own} before that; cowlab sees which code copies only while it happens."
    )
}

/// What its workers share no longer.
fn own_bytes(of: &Explained) -> u64 {
    of.sharing.as_ref().map_or(0, |figures| figures.forked().map(|one| one.own_bytes).sum())
}

/// Of workers that live on: what would keep their copies from being made.
fn for_workers(of: &Explained, application: &Application, advice: &[Advice]) -> Vec<String> {
    let pid = of.patient.pid;
    let workers = of.sharing.as_ref().map_or(1, |figures| figures.forked().count().max(1)) as u64;
    let is_seen = of.copies().is_some_and(|copies| copies.blamed.summary().copied_bytes > 0.0);
    let code = if is_seen { " Other remedies depend on the code above." } else { "" };
    let mut all = vec![format!(
        "It forks rarely and its workers live long, so their {} matter more than the stop. One worker fewer, or a \
         thread in its place, saves {}.{}",
        bytes(own_bytes(of)),
        bytes(own_bytes(of) / workers),
        code
    )];
    let freeze = advice.iter().find(|one| one.choice == Choice::Freeze);
    let freeze = freeze.filter(|_| application.profile.has_collector);
    all.extend(freeze.map(|freeze| {
        match (&freeze.forecast, application.profile.collector_share) {
            (Err(why), _) => format!("Freezing: {why}."),
            (Ok(_), Some(share)) => format!(
                "Freezing spares the {} of the copies that came from the collector, not more ({}): try it in one \
                 instance, and compare `{}` of both.",
                percent(share),
                freeze.step,
                Command::Sharing.of(pid)
            ),
            (Ok(_), None) => format!(
                "Freezing ({}): what it spares is not known, since no copy was seen. To see some, {} while `{}` runs.",
                freeze.step,
                trigger(&of.patient.name, true),
                Command::BlameLong.of(pid)
            ),
        }
    }));
    all.push(format!("What would shorten the stop of a fork: `{}`.", Command::Advise.of(pid)));
    all
}

fn help(of: &Explained) -> Vec<Block> {
    match &of.advised {
        Ok((application, advice, _)) if of.lives_on() => {
            texts(for_workers(of, application, advice))
        }
        Ok((application, advice, sentence)) => {
            let target = of.patient.pid.to_string();
            let screen = advise::screen(sentence, application, advice, &target);
            screen.into_iter().flat_map(|section| section.blocks).collect()
        }
        Err(why) => vec![Block::Text(format!("Not known: {why}."))],
    }
}
