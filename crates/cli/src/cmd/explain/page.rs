// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page: plain words, and the command behind each.

use anyhow::Result;
use cowlab_machine::Facts;
use cowlab_machine::verdict::{Finding, Level};
use cowlab_model::advice::Choice;
use cowlab_model::application::Children;
use cowlab_report::fmt::{bytes, capital, count, percent, several, time};
use cowlab_report::{Block, Cell, Document, Rows, Section};
use cowlab_schema::Command;

use super::Explained;
use crate::args::ExplainArgs;
use crate::cmd::doctor::machine_title;
use crate::cmd::sharing;
use crate::diagnosis::{
    Copies, Costs, Finding as Found, Forks, Source, Weight, choices, trigger, words,
};

/// Places in the code that are named.
const PLACES: usize = 3;
/// Less is told by a row.
const MUCH_COPIED: f64 = 4e6;

/// All of it; with drawings for a page, without for a terminal.
pub fn document(
    machine: &Facts,
    subject: &Explained,
    by: &str,
    args: &ExplainArgs,
    is_page: bool,
) -> Result<Document> {
    let facts = &subject.facts;
    let title = format!("{} ({}), explained", facts.name, facts.pid);
    let bullet = if is_page { "" } else { "• " };
    let mut document = Document::new(title, format!("{bullet}{}", answer(subject)));
    let (is_whole, lives_on) = (is_page || args.tables, subject.lives_on());
    // One screen has no room for what the profile is, and how to make one.
    let by = if is_whole { by } else { by.split(';').next().unwrap_or(by) };
    let mut sections = Vec::new();
    let others = subject.diagnosis.findings.iter().filter(|one| Some(*one) != subject.told());
    let others: Vec<String> = others.map(sentence).collect();
    // Of little that is copied a row is enough, and so it is beside other findings.
    let has_copies =
        is_whole || (lives_on || others.is_empty()) && copied_bytes(subject) >= MUCH_COPIED;
    document.facts = rows(machine, subject, by, is_whole, has_copies)?;
    if !others.is_empty() {
        sections.push(("findings", "What stands out", texts(others)));
    }
    if !subject.is_quick && is_whole {
        sections.push(("forks", "How it forks", texts(how_it_forks(subject, true))));
    }
    if !subject.is_quick && has_copies {
        sections.push(("copies", "What it copies", copies(subject, is_page, is_whole)?));
    }
    // Of workers that come and go it says little.
    if let Some(figures) = subject.sharing.as_ref().filter(|_| is_whole || lives_on) {
        let mut sentences = sharing::text::sentences(figures);
        if lives_on {
            // It is the answer already.
            sentences.remove(0);
        }
        let section = ("sharing", "What its workers share", texts(sentences));
        // The memory of workers that live on comes first.
        sections.insert(if lives_on { 0 } else { sections.len() }, section);
    }
    if args.tables {
        sections.push(("fork", "What was looked at", findings(subject)));
    }
    sections.push(("advice", "What would help", help(subject, args.tables)));
    let section = |(id, title, blocks): (&str, &str, _)| Section::new(id, title, blocks);
    document.sections = sections.into_iter().map(section).collect();
    Ok(document)
}

/// What is wanted most: of one that may fail that, of workers that live on their memory, of others what a fork
/// takes, and what would help.
fn answer(subject: &Explained) -> String {
    let answer = match &subject.sharing {
        Some(figures) if subject.lives_on() => sharing::text::together(figures),
        _ => what_a_fork_takes(subject),
    };
    match (subject.told(), subject.diagnosis.verdict.level) {
        (Some(found), _) => format!("{}. {}. {answer}", found.seen, capital(&found.cause)),
        (None, Level::Ok) => answer,
        (None, _) => format!("{} {answer}", verdict(subject)),
    }
}

fn sentence(found: &Found) -> String {
    let text = format!("{}. {}.", found.seen, capital(&found.cause));
    match (found.what_to_do.as_str(), found.weight) {
        ("", _) => text,
        (help, Weight::Explains) => format!("{text} {}.", capital(help)),
        (help, _) => format!("{text} To do: {help}."),
    }
}

/// Whether the next fork fails.
pub fn verdict(subject: &Explained) -> String {
    let copies_by = subject.diagnosis.copied_bytes.source;
    words::verdict(&subject.facts.name, subject.facts.pid, &subject.diagnosis.verdict, copies_by)
}

/// The stop, the copies, and the best remedy.
pub fn what_a_fork_takes(subject: &Explained) -> String {
    let name = &subject.facts.name;
    let has_ended = subject.has_ended();
    if let Some(forks) = subject.forks().filter(|_| subject.only_spawns()) {
        let spawns = several(forks.spawns as u64, "program", "programs");
        let waits = forks
            .spawn_ns
            .map_or(String::new(), |ns| format!("; it waited {} for each to execute", time(ns)));
        return format!(
            "{name} started {spawns} by vfork or posix_spawn in {:.0} s, and forked none: nothing of it was \
             copied{waits}.",
            forks.duration_s
        );
    }
    let [stops, copies] = if has_ended { ["stopped", "copied"] } else { ["stops", "copies"] };
    let stopped = match subject.diagnosis.stop_ns() {
        Some(stop) => {
            let [value, low, high] = [stop.value, stop.low, stop.high].map(time);
            let forks = subject.forks().map_or(0, |forks| forks.forks);
            match (stop.source, has_ended) {
                (Source::Measured, _) if forks == 1 => {
                    format!("The one fork that was seen stopped {name} for {value}")
                }
                (Source::Measured, _) => {
                    format!("Each fork {stops} {name} for {value}, as measured")
                }
                (Source::Asked, _) => {
                    format!("Its last fork stopped {name} for {value}, as it measured itself")
                }
                (_, true) => format!(
                    "{name} has ended. A fork would have stopped it for about {value} ({low} to {high}), as predicted"
                ),
                (_, false) => {
                    format!(
                        "The next fork of {name} stops it for about {value} ({low} to {high}), as predicted"
                    )
                }
            }
        }
        None => format!("How long a fork {stops} {name} is not known"),
    };
    let copied = subject.diagnosis.copied_bytes;
    let value = bytes(copied.value as u64);
    let most = bytes(subject.diagnosis.verdict.worst_case_bytes);
    let copied = match copied.source {
        Source::Measured => format!("{copies} {value}"),
        Source::Assumed => format!("{copies} {most} at most"),
        _ => format!("the next one is expected to copy {value}"),
    };
    let costs = subject.diagnosis.costs.as_ref().ok();
    let remedy = costs
        .zip(subject.diagnosis.remedy())
        .and_then(|(costs, best)| words::remedy(costs, best, &subject.facts.word, false));
    let remedy = remedy.map_or_else(String::new, |remedy| format!(" {remedy}"));
    format!("{stopped}, and {copied}.{remedy}")
}

/// The figures of the next fork; with all sections some of them are there.
fn rows(
    machine: &Facts,
    subject: &Explained,
    by: &str,
    is_whole: bool,
    has_copies: bool,
) -> Result<Vec<(String, String)>> {
    let (facts, diagnosis) = (&subject.facts, &subject.diagnosis);
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
    row("machine", machine_title(machine));
    let is_scaled = diagnosis.costs.as_ref().is_ok_and(|costs| costs.is_scaled);
    let scaled = if is_scaled { "; scaled to the stop that is known" } else { "" };
    row("prices", format!("{by}{scaled}"));
    if subject.has_ended() {
        row("forks", how_it_forks(subject, subject.lives_on()).join(" "));
        return Ok(rows);
    }
    row("refused?", refused(machine, subject));
    // Of workers that live on the stop matters little.
    if !subject.lives_on() && !subject.only_spawns() {
        match (&diagnosis.costs, diagnosis.stop_ns()) {
            (_, Some(stop)) => {
                row("stop", words::stop(&stop));
                if let Some(parts) = made_of(subject, stop.value) {
                    row("", parts);
                }
            }
            (Err(why), _) => row("stop", format!("not known: {why}")),
            _ => {}
        }
        if Children::of(&facts.name) == Children::Save && facts.asked.is_none() {
            let ask = Command::ExplainRedis.at(facts.server_address.as_deref());
            row("", format!("{ask}: also what the server measured"));
        }
    }
    if !subject.only_spawns() {
        row("copies", words::copies(&diagnosis.copied_bytes, &diagnosis.verdict));
    }
    if diagnosis.copied_bytes.source == Source::Assumed && !subject.only_spawns() {
        row("", format!("{}: how much it is", Command::FootprintForks.of(facts.pid)));
    }
    if subject.is_quick || is_whole {
        row(
            "children",
            match facts.children {
                Some(0) => "none now".to_owned(),
                Some(count) => format!("{count} now"),
                None => "not known: they may not be looked at".to_owned(),
            },
        );
    } else {
        row("forks", how_it_forks(subject, subject.lives_on()).join(" "));
        if !has_copies && !subject.only_spawns() {
            row("code", code(subject)?);
        }
    }
    row("do now", to_do(subject));
    Ok(rows)
}

/// What a longer stop is made of, where its page tables make it.
fn made_of(subject: &Explained, stop_ns: f64) -> Option<String> {
    let diagnosis = &subject.diagnosis;
    let of = diagnosis.verdict.findings.iter().find_map(|one| match one {
        Finding::Entries { entries, huge_bytes, huge_page_bytes, base_bytes, .. } => {
            Some((*entries, (huge_bytes + base_bytes).div_ceil(*huge_page_bytes)))
        }
        _ => None,
    });
    let (entries, huge) = of.filter(|(entries, _)| *entries > 0)?;
    (!diagnosis.is_short() && !diagnosis.is_ruled_out()).then(|| {
        format!(
            "{} page-table entries, {} each with all that is beside them; huge pages would leave {}",
            count(entries),
            time(stop_ns / entries as f64),
            count(huge)
        )
    })
}

/// Redis and Valkey warn of this setting in their log when they start.
fn refused(machine: &Facts, subject: &Explained) -> String {
    let (verdict, by) = (&subject.diagnosis.verdict, subject.diagnosis.copied_bytes.source);
    let warned = match machine.overcommit.memory {
        Some(0) if Children::of(&subject.facts.name) == Children::Save => {
            " (the server warns of this setting when it starts: older kernels refused more)"
        }
        _ => "",
    };
    match (verdict.level, verdict.promise()) {
        (Level::WillFail, _) => format!("yes: {}", words::worded(&verdict.findings[0], by).what),
        (_, Some(promise)) if promise.level() == Level::Ok => {
            format!("no: {}{warned}", words::worded(promise, by).why)
        }
        (_, Some(promise)) => words::worded(promise, by).what,
        (_, None) => "not known".to_owned(),
    }
}

/// The one thing to do next.
fn to_do(subject: &Explained) -> String {
    let diagnosis = &subject.diagnosis;
    let worst = words::worded(&diagnosis.verdict.findings[0], diagnosis.copied_bytes.source);
    if let Some(found) = subject.told().filter(|found| !found.what_to_do.is_empty()) {
        return found.what_to_do.clone();
    }
    if worst.level != Level::Ok && !worst.what_to_do.is_empty() {
        return format!("{}: {}", worst.what, worst.what_to_do);
    }
    if subject.lives_on() {
        return format!(
            "{}: which code copies their pages",
            Command::Blame.of(&subject.facts.word)
        );
    }
    if subject.only_spawns() {
        return "nothing: it copies nothing to start a program".to_owned();
    }
    match diagnosis.remedy() {
        Some((one, _)) => format!("{}: {}", one.what, one.step),
        None if diagnosis.is_short() => "nothing: the stop is short, and the copies fit".to_owned(),
        None => "nothing: no setting would save a tenth of the stop".to_owned(),
    }
}

fn findings(subject: &Explained) -> Vec<Block> {
    let (verdict, by) = (&subject.diagnosis.verdict, subject.diagnosis.copied_bytes.source);
    let findings: Vec<_> = verdict.findings.iter().map(|one| words::worded(one, by)).collect();
    let table = Rows::of("fork", format!("A fork of process {}", subject.facts.pid), &findings)
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
        ("expected: what is known to be copied, and page tables", verdict.expected_bytes),
        ("worst case: every private page copied", Some(verdict.worst_case_bytes)),
    ];
    let sizes = Rows::of("fork-memory", "Memory that the fork may take", &sizes)
        .text("what", |(what, _)| *what)
        .figure("size", |(_, bytes)| match bytes {
            Some(bytes) => Cell::number(*bytes as f64, "bytes"),
            None => Cell::Missing("no fork was seen, and no server was asked".to_owned()),
        })
        .table();
    vec![Block::Text(self::verdict(subject)), Block::Table(table), Block::Table(sizes)]
}

fn texts(all: Vec<String>) -> Vec<Block> {
    all.into_iter().map(Block::Text).collect()
}

/// With the stops, where no row has them.
fn how_it_forks(subject: &Explained, has_stops: bool) -> Vec<String> {
    let (name, pid) = (&subject.facts.name, subject.facts.pid);
    // One that is about to execute another program is none.
    let executes = subject.forks().is_some_and(Forks::execute);
    let sharing = subject.sharing.as_ref().filter(|_| !executes);
    let workers = sharing.map_or(0, |figures| figures.forked().count());
    let mut all = vec![match (workers, subject.facts.children) {
        (1, _) => format!("{name} has 1 worker, which it forked and which shares its memory."),
        (2.., _) => {
            format!("{name} has {workers} workers, which it forked and which share its memory.")
        }
        _ if subject.facts.forked > 0 => format!(
            "{name} had {} when cowlab first looked, forked from it and sharing its memory.",
            several(subject.facts.forked as u64, "child", "children")
        ),
        (_, Some(0)) if subject.facts.unreaped > 0 => format!(
            "{name} has {} that ended and that it has not waited for.",
            several(subject.facts.unreaped as u64, "child", "children")
        ),
        (_, Some(0)) => format!("{name} had no child when it was looked at."),
        (_, Some(children)) => format!(
            "{name} has {} now, which executed another program.",
            several(children as u64, "child", "children")
        ),
        (_, None) => format!("cowlab may not see whether {name} has children."),
    }];
    all.push(match subject.facts.observed.as_ref().map(|observed| &observed.forks) {
        Ok(Ok(seen)) => frequency(seen, pid, subject.has_ended(), has_stops),
        Ok(Err(why)) => format!("How often it forks was not seen: {why}."),
        Err(why) => format!(
            "How often it forks was not seen ({why}). As root: `{}`.",
            Command::Watch.of(pid)
        ),
    });
    all
}

fn frequency(seen: &Forks, pid: i32, has_ended: bool, has_stops: bool) -> String {
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
        _ if !has_stops => String::new(),
        1 => format!(", which stopped it for {}", time(stop_ns)),
        _ => format!(
            ", and each fork stopped it for {} (median; the longest: {})",
            time(stop_ns),
            time(longest)
        ),
    };
    format!("{during}, {}{stops}.{executed}{spawns}", times(seen.forks))
}

fn times(count: usize) -> String {
    if count == 1 { "it forked once".to_owned() } else { format!("it forked {count} times") }
}

/// Copied while it was watched.
fn copied_bytes(subject: &Explained) -> f64 {
    subject.copies().map_or(0.0, |copies| copies.blamed.summary().copied_bytes)
}

/// Of few copies the place that makes most.
fn code(subject: &Explained) -> Result<String> {
    let blame = Command::Blame.of(subject.facts.pid);
    Ok(match subject.facts.observed.as_ref().map(|observed| &observed.copies) {
        Ok(Ok(_)) if copied_bytes(subject) == 0.0 => nothing_copied(subject),
        Ok(Ok(Copies { blamed, run })) => {
            let subtitle = blamed.document(run)?.subtitle;
            let answer = subtitle.split_inclusive(". ").next().unwrap_or("");
            let executes = subject.forks().is_some_and(Forks::execute);
            let answer = match executes {
                true => answer.replace("workers of", "children of"),
                false => answer.to_owned(),
            };
            format!("{answer}{blame}: all places")
        }
        Ok(Err(why)) => format!("not seen: {why}"),
        Err(_) => format!("not seen; as root: {blame}"),
    })
}

/// Of the copies' report the answer, and the places that copy most.
fn copies(subject: &Explained, is_page: bool, is_whole: bool) -> Result<Vec<Block>> {
    let pid = subject.facts.pid;
    let Copies { blamed, run } =
        match subject.facts.observed.as_ref().map(|observed| &observed.copies) {
            Ok(Ok(copies)) => copies,
            Ok(Err(why)) => return Ok(vec![Block::Text(format!("Not seen: {why}."))]),
            Err(_) => {
                let text = format!(
                    "Not seen, for the same reason. As root: `{}`.",
                    Command::Blame.of(pid)
                );
                return Ok(vec![Block::Text(text)]);
            }
        };
    let report = blamed.document(run)?;
    let blocks = || report.sections.iter().flat_map(|section| &section.blocks);
    let places = if is_whole { PLACES } else { 1 };
    let findings = blocks().filter(|block| matches!(block, Block::Finding(_))).take(places);
    let notes = blocks().filter(|block| is_whole && matches!(block, Block::Note(_)));
    let copied = blamed.summary().copied_bytes;
    let before = (own_bytes(subject) as f64 > 10.0 * copied).then(|| copied_before(subject));
    if copied == 0.0 {
        return Ok(texts([Some(nothing_copied(subject)), before].into_iter().flatten().collect()));
    }
    // On one screen the first place says what the rows do not.
    let subtitle = is_whole.then(|| Block::Text(report.subtitle.clone()));
    let mut all: Vec<Block> = subtitle.into_iter().collect();
    all.extend(findings.chain(notes).cloned());
    let is_seen = |block: &&Block| matches!(block, Block::Drawing(_) | Block::Table(_));
    match is_page {
        true => all.extend(blocks().filter(is_seen).cloned()),
        false => {
            let more = format!("`{}`: all places, and a flame graph.", Command::Blame.of(pid));
            let texts = [Some(more), before].into_iter().flatten().collect::<Vec<_>>();
            all.push(Block::Text(texts.join(" ")));
            return Ok(all);
        }
    }
    all.extend(before.map(Block::Text));
    Ok(all)
}

/// Why nothing was seen, and what to do to see it.
fn nothing_copied(subject: &Explained) -> String {
    match subject.forks().map_or(0, |forks| forks.forks) {
        0 if subject.has_ended() => "Nothing was copied before it ended.".to_owned(),
        0 => format!(
            "Nothing was copied: it did not fork while cowlab watched. To see a fork, {} while `{}` \
             runs, or start a second one with `{}`.",
            trigger(&subject.facts.name, subject.sharing.is_some()),
            Command::BlameLong.of(subject.facts.pid),
            Command::BlameCommand
        ),
        _ => "Nothing was copied after the forks that were seen.".to_owned(),
    }
}

/// Of code that copied earlier nothing can be told.
fn copied_before(subject: &Explained) -> String {
    let own = bytes(own_bytes(subject));
    format!(
        "Its workers had copied or allocated {own} before that; cowlab sees which code copies only while it happens."
    )
}

/// What its workers share no longer.
fn own_bytes(subject: &Explained) -> u64 {
    subject.sharing.as_ref().map_or(0, |figures| figures.forked().map(|one| one.own_bytes).sum())
}

/// Of workers that live on: what would keep their copies from being made.
fn for_workers(subject: &Explained, costs: &Costs) -> Vec<String> {
    let pid = subject.facts.pid;
    let workers =
        subject.sharing.as_ref().map_or(1, |figures| figures.forked().count().max(1)) as u64;
    let is_seen = subject.copies().is_some_and(|copies| copies.blamed.summary().copied_bytes > 0.0);
    let code = if is_seen { " Other remedies depend on the code above." } else { "" };
    let mut all = vec![format!(
        "It forks rarely and its workers live long, so their {} matter more than the stop. One worker fewer, or a \
         thread in its place, saves {}.{}",
        bytes(own_bytes(subject)),
        bytes(own_bytes(subject) / workers),
        code
    )];
    let freeze = costs.choices.iter().find(|one| one.choice == Choice::Freeze);
    let freeze = freeze.filter(|_| costs.application.has_collector);
    all.extend(freeze.map(|freeze| {
        match (&freeze.forecast, costs.application.collector_share) {
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
                trigger(&subject.facts.name, true),
                Command::BlameLong.of(pid)
            ),
        }
    }));
    all.push(format!("What would shorten the stop: `{}`.", Command::ExplainTables.of(pid)));
    all
}

fn help(subject: &Explained, tables: bool) -> Vec<Block> {
    match &subject.diagnosis.costs {
        Ok(_) if subject.only_spawns() && !tables => texts(vec![
            "vfork and posix_spawn are the cheapest that there is: the memory is not copied."
                .to_owned(),
        ]),
        Ok(costs) if tables => choices::all(costs),
        Ok(costs) if subject.lives_on() && subject.told().is_none() => {
            texts(for_workers(subject, costs))
        }
        // What is recommended then is no choice of the table.
        Ok(_) if subject.told().is_some() || subject.diagnosis.remedy().is_none() => {
            let tables = Command::ExplainTables.of(subject.facts.pid);
            texts(vec![format!("`{tables}`: what each choice would change.")])
        }
        Ok(costs) => choices::first(costs, &subject.facts.pid.to_string(), false),
        Err(why) => vec![Block::Text(format!("Not known: {why}."))],
    }
}
