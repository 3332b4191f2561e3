// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a look says: in sentences and a table, or as JSON.

use anyhow::Result;
use cowlab_observe::sharing::{Figures, NAME, PID, Worker};
use cowlab_report::{Block, Cell, Column, Document, Section, Table};
use cowlab_schema::Command;
use cowlab_schema::fmt::{age, bytes, quantity};
use cowlab_schema::live::columns;
use cowlab_store::{Missing, Params, Sample};
use jiff::Timestamp;
use serde::Serialize;

use crate::output;
use crate::sinks::{json_line, samples as samples_of};

/// Workers that get a row on a page; of more, those with most of their own.
const ROWS: usize = 40;

#[derive(Serialize)]
struct Summary<'a> {
    sentences: Vec<String>,
    #[serde(flatten)]
    figures: &'a Figures,
}

pub fn only(json: bool, figures: &Figures, at: Timestamp) -> Result<()> {
    if !json {
        return output::text(&page(figures));
    }
    let summary = Summary { sentences: sentences(figures), figures };
    output::json_of(summary, &samples(figures, at), &missing(figures))
}

/// One of many: a line of JSON, or a page.
pub fn one_of_many(json: bool, figures: &Figures, at: Timestamp) -> Result<String> {
    if !json {
        return Ok(cowlab_report::terminal::render(&page(figures), None, false) + "\n");
    }
    let summary = Summary { sentences: sentences(figures), figures };
    json_line(summary, &samples(figures, at), &missing(figures))
}

fn page(figures: &Figures) -> Document {
    let sentences = sentences(figures);
    let title = format!("{} ({})", figures.name, figures.pid);
    let mut document = Document::new(title, format!("• {}", sentences[0]));
    let mut blocks = vec![Block::Table(table(figures))];
    blocks.extend(sentences.into_iter().skip(1).map(Block::Text));
    document.sections.push(Section::new("workers", "", blocks));
    document
}

fn table(figures: &Figures) -> Table {
    let mut shown = columns(Worker::FIGURES, &figures.workers);
    // A page has 100 columns: files, which nobody loses, make room for rates.
    if shown.iter().any(|(figure, _)| figure.key() == "erosion_bytes_per_s") {
        shown.retain(|(figure, _)| figure.key() != "file_bytes");
    }
    let heads = shown.iter().map(|(_, column)| Column::number(column.text));
    let heads = [Column::text("process")].into_iter().chain(heads).collect();
    let mut table = Table::new("workers", "", heads);
    let mut rows: Vec<&Worker> = figures.workers.iter().collect();
    if rows.len() > ROWS {
        rows[1..].sort_by_key(|one| std::cmp::Reverse(one.own_bytes));
        table.caption = format!("The parent and the {} workers with most of their own:", ROWS - 1);
    }
    for one in rows.into_iter().take(ROWS) {
        let role = if one.parent.is_none() { "parent" } else { "worker" };
        let mut row = vec![Cell::text(format!("{role} {}", one.pid))];
        row.extend(shown.iter().map(|(figure, column)| {
            let value = figure.value(one).map(|value| column.value(value));
            Cell::text(value.unwrap_or_else(|| "–".to_owned()))
        }));
        table.push(row);
    }
    table
}

fn a_minute(bytes_per_s: f64) -> String {
    quantity((bytes_per_s * 60.0).round(), "bytes")
}

/// The answer, the most wanted first.
pub fn sentences(of: &Figures) -> Vec<String> {
    let mut all = vec![together(of)];
    all.extend(lost(of));
    all.extend(restarts(of));
    if let Some(ksm @ 1..) = of.ksm_bytes {
        all.push(format!(
            "KSM merged {} of their pages; that is not counted as shared by fork, but at most as much \
             of what sharing saves is its doing.",
            bytes(ksm)
        ));
    }
    if let Some(swapped @ 1..) = of.swapped_bytes {
        all.push(format!("{} more are in swap.", bytes(swapped)));
    }
    all.extend(unseen(of));
    all
}

/// What they use, and what sharing saves.
pub fn together(of: &Figures) -> String {
    let count = of.forked().count();
    if let (0, unseen @ 1..) = (count, of.unseen.len()) {
        return format!(
            "Whether {} ({}) has workers cannot be said: {unseen} of its children may not \
                        be looked at.",
            of.name, of.pid
        );
    }
    if count == 0 {
        return format!(
            "{} ({}) has no worker: no child of its runs its program.",
            of.name, of.pid
        );
    }
    let who = if count == 1 {
        "1 worker and its parent".into()
    } else {
        format!("{count} workers and their parent")
    };
    let (Some(rss), Some(pss)) = (of.rss_bytes, of.pss_bytes) else {
        return format!("{who}: this kernel does not say what they use together.");
    };
    let mut text = format!(
        "{who} use {} together; ps adds up to {}: sharing saves {}",
        bytes(pss),
        bytes(rss),
        bytes(rss.saturating_sub(pss))
    );
    let saved = &of.saved;
    if let (Some(fork), Some(file), Some(shm)) =
        (saved.fork_bytes, saved.file_bytes, saved.shm_bytes)
    {
        text += &format!(", {} of it by fork, {} files", bytes(fork), bytes(file));
        if shm > 0 {
            text += &format!(", {} shared memory", bytes(shm));
        }
    }
    text + "."
}

/// Which worker is the first to share nothing, or how to find out.
fn lost(of: &Figures) -> Option<String> {
    of.forked().next()?;
    let rates = of.forked().filter_map(|one| Some((one, one.erosion_bytes_per_s?)));
    let ends_s = |one: &Worker| one.shared_ends_s.unwrap_or(f64::INFINITY);
    let Some((one, rate)) = rates.min_by(|a, b| ends_s(a.0).total_cmp(&ends_s(b.0))) else {
        let command = Command::SharingRate.of(of.pid);
        return Some(format!("How fast they lose it takes two looks: `{command}`."));
    };
    let (Some(shared), Some(ends_s)) = (one.shared_bytes, one.shared_ends_s) else {
        let so_far = || match rate > 0.0 && one.settles_at_bytes.is_none() {
            true => format!(
                "Worker {} loses {} a minute; it is too young to say for how long.",
                one.pid,
                a_minute(rate)
            ),
            false => "No worker loses shared memory now.".to_owned(),
        };
        return Some(settles(of).unwrap_or_else(so_far));
    };
    Some(format!(
        "Worker {} loses {} a minute: at this rate nothing of its {} is shared any more in {}.",
        one.pid,
        a_minute(rate),
        bytes(shared),
        age(ends_s)
    ))
}

/// What the worker that loses most comes to, where older ones have settled.
fn settles(of: &Figures) -> Option<String> {
    let settling =
        of.forked().filter_map(|one| Some((one, one.erosion_bytes_per_s?, one.settles_at_bytes?)));
    let (one, rate, level) = settling.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "Worker {} loses {} a minute. Older workers lose next to nothing any more, and have settled at {} of \
         their own: it has {}, and as much in {} at this rate.",
        one.pid,
        a_minute(rate),
        bytes(level),
        bytes(one.own_bytes),
        age((level - one.own_bytes) as f64 / rate)
    ))
}

/// What younger workers would save, as far as those that live say it.
fn restarts(of: &Figures) -> Option<String> {
    let Some((oldest, youngest)) = of.oldest_and_youngest() else {
        let age_s = of.forked().nth(1)?.age_s;
        return Some(format!(
            "All workers are about as old ({}): they do not tell what restarting them would save.",
            age(age_s)
        ));
    };
    let saves = of.restart_saves_bytes?;
    let ages = (oldest.age_s, youngest.age_s);
    let have = format!(
        "Worker {}, forked {} ago, has {} of its own; the youngest, {}, forked {} ago, has {}",
        oldest.pid,
        age(ages.0),
        bytes(oldest.own_bytes),
        youngest.pid,
        age(ages.1),
        bytes(youngest.own_bytes)
    );
    Some(match saves > of.pss_bytes.unwrap_or(0) / 100 {
        true => format!(
            "{have}: with every worker as young, {} less would be used, until they have grown again{}.",
            bytes(saves),
            of.restart_lasts_s().map_or_else(String::new, |s| format!(": in {} at most", age(s)))
        ),
        false => format!("{have}: restarting workers would save next to nothing."),
    })
}

fn unseen(of: &Figures) -> Option<String> {
    let count = of.unseen.len();
    let children = if count == 1 { "child" } else { "children" };
    (count > 0).then(|| {
        format!(
            "{count} more {children} may not be looked at: root, or CAP_SYS_PTRACE, would count them \
             as well."
        )
    })
}

fn missing(of: &Figures) -> Vec<Missing> {
    let row = |metric: &str, reason: String| Missing { metric: metric.into(), reason };
    let is_known = of.workers.iter().any(|one| one.erosion_bytes_per_s.is_some());
    let erosion =
        (!is_known).then(|| row("erosion_bytes_per_s", "needs two looks: --duration-s".into()));
    erosion.into_iter().chain(unseen(of).map(|reason| row("workers", reason))).collect()
}

/// The figures that are known, as rows.
fn samples(of: &Figures, at: Timestamp) -> Vec<Sample> {
    let mut rows = Vec::new();
    let start_unix_ns = at.as_nanosecond().try_into().unwrap_or(0);
    for one in &of.workers {
        let mut params = Params::new();
        PID.put(&mut params, one.pid.cast_unsigned());
        NAME.put(&mut params, &of.name);
        rows.extend(samples_of(Worker::FIGURES, one, &params, start_unix_ns));
    }
    rows
}

#[cfg(test)]
pub mod tests {
    use cowlab_observe::sharing::ByKind;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A server with three workers, for tests of all that shows one.
    pub fn example() -> Figures {
        let one = |pid, age_s, own: u64, rate: f64| Worker {
            pid,
            parent: Some(4700),
            slot: Some(pid as usize - 4711),
            age_s,
            rss_bytes: Some(220 * MIB),
            pss_bytes: Some((own + 30) * MIB),
            shared_bytes: Some((200 - own) * MIB),
            own_bytes: own * MIB,
            copied_bytes: Some(own * MIB / 2),
            file_bytes: Some(20 * MIB),
            shm_bytes: Some(0),
            ksm_bytes: Some(0),
            swapped_bytes: Some(0),
            erosion_bytes_per_s: Some(rate),
            shared_ends_s: (rate > 0.0).then(|| ((200 - own) * MIB) as f64 / rate),
            settles_at_bytes: None,
        };
        let parent =
            Worker { parent: None, slot: None, copied_bytes: None, ..one(4711, 90_000.0, 5, 0.0) };
        Figures {
            pid: 4700,
            name: "gunicorn".into(),
            rss_bytes: Some(890 * MIB),
            pss_bytes: Some(312 * MIB),
            saved: ByKind {
                fork_bytes: Some(521 * MIB),
                file_bytes: Some(57 * MIB),
                shm_bytes: Some(0),
            },
            ksm_bytes: Some(0),
            swapped_bytes: Some(0),
            restart_saves_bytes: Some(100 * MIB),
            unseen: Vec::new(),
            workers: vec![
                Worker { pid: 4700, ..parent },
                one(4711, 10_800.0, 80, 20_971.52),
                one(4712, 7_200.0, 60, 0.0),
                one(4713, 300.0, 20, 10.0),
            ],
        }
    }

    #[test]
    fn the_answer_comes_first_and_says_what_to_expect() {
        let text = sentences(&example()).join("\n");
        assert_eq!(
            text,
            "3 workers and their parent use 312 MiB together; ps adds up to 890 MiB: sharing saves \
             578 MiB, 521 MiB of it by fork, 57.0 MiB files.\n\
             Worker 4711 loses 1.20 MiB a minute: at this rate nothing of its 120 MiB is shared any \
             more in 1 h 40 min.\n\
             Worker 4711, forked 3 h ago, has 80.0 MiB of its own; the youngest, 4713, forked 5 min \
             ago, has 20.0 MiB: with every worker as young, 100 MiB less would be used, until they have \
             grown again: in 3 h at most."
        );
    }

    #[test]
    fn where_older_workers_have_settled_a_young_one_will() {
        let mut figures = example();
        for one in &mut figures.workers {
            (one.erosion_bytes_per_s, one.shared_ends_s) = (Some(0.0), None);
        }
        let youngest = &mut figures.workers[3];
        youngest.erosion_bytes_per_s = Some(MIB as f64);
        youngest.settles_at_bytes = Some(80 * MIB);
        let text = sentences(&figures);
        assert_eq!(
            text[1],
            "Worker 4713 loses 60.0 MiB a minute. Older workers lose next to nothing any more, and have \
             settled at 80.0 MiB of their own: it has 20.0 MiB, and as much in 60 s at this rate."
        );
        assert!(text[2].ends_with("until they have grown again: in 50 s at most."), "{}", text[2]);
    }

    #[test]
    fn what_one_look_cannot_tell_is_absent_everywhere() {
        let mut figures = example();
        for one in &mut figures.workers {
            (one.erosion_bytes_per_s, one.shared_ends_s) = (None, None);
        }
        figures.unseen = vec![1, 2];
        let text = one_of_many(false, &figures, Timestamp::UNIX_EPOCH).unwrap();
        for expected in
            ["cowlab sharing 4700 --duration-s 60", "2 more children", "CAP_SYS_PTRACE", "files"]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("loses/min") && !text.contains("swapped"), "{text}");
        let line = one_of_many(true, &figures, Timestamp::UNIX_EPOCH).unwrap();
        let document: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(document["summary"]["workers"][1]["erosion_bytes_per_s"].is_null());
        assert_eq!(document["missing"].as_array().unwrap().len(), 2);
        assert!(!document["samples"].to_string().contains("erosion"), "{line}");
    }

    #[test]
    fn workers_of_one_age_tell_nothing_of_restarts_and_nobody_is_no_family() {
        let mut figures = example();
        figures.workers.truncate(3);
        assert!(sentences(&figures)[2].contains("about as old (2 h)"));
        figures.workers.truncate(1);
        figures.restart_saves_bytes = None;
        assert_eq!(
            sentences(&figures),
            ["gunicorn (4700) has no worker: no child of its runs its program."]
        );
    }

    #[test]
    fn a_page_fits_in_a_hundred_columns_and_many_workers_are_cut() {
        let text = one_of_many(false, &example(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.contains("parent 4700") && text.contains("1 h 40 min"), "{text}");
        let mut figures = example();
        figures.workers = vec![figures.workers[1].clone(); 100];
        assert!(
            one_of_many(false, &figures, Timestamp::UNIX_EPOCH).unwrap().lines().count()
                < ROWS + 15
        );
    }
}
