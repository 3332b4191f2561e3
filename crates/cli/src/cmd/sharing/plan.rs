// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sharing --plan`: what a warm-up of the parent would save its workers.

use anyhow::{Context, Result};
use cowlab_analysis::plan::{Plan, Requests, Seen, Warmup};
use cowlab_report::{Block, Cell, Column, Document, Rows, Section, Table};
use cowlab_schema::fmt::{bytes, count, percent, quantity};
use cowlab_schema::plan as names;
use cowlab_store::stacks::CopyStacks;
use cowlab_store::{Missing, Params, Run, Sample};
use serde::Serialize;

use crate::args::PlanRun;
use crate::output;
use crate::usage::WrongUsage;

/// A worker that copies so much of what its fork shared has next to nothing of the fork.
const ALL: f64 = 0.9;

#[derive(Serialize)]
struct Summary<'a> {
    sentences: Vec<String>,
    program: &'a str,
    requests: u64,
    warmups: &'a [Warmup],
    runs: &'a [Seen],
}

/// Reads the runs and says what follows from them.
pub fn run(json: bool, wanted: &[PlanRun]) -> Result<()> {
    let mut runs = Vec::new();
    for of in wanted {
        let run = Run::read(&of.run)?;
        let stacks = CopyStacks::read(&of.run)?;
        let requests = Requests { warmed: of.warmed, served: of.served };
        let seen = Seen::of(&run, stacks.as_ref(), requests);
        runs.push(seen.with_context(|| of.run.display().to_string())?);
    }
    // Which runs belong together is the caller's to say.
    let plan = Plan::of(runs).map_err(|error| WrongUsage(error.to_string()))?;
    let program = plan.runs.first().map_or("", |of| of.program.as_str());
    let sentences = sentences(&plan);
    if json {
        let summary = Summary {
            sentences,
            program,
            requests: plan.served,
            warmups: &plan.warmups,
            runs: &plan.runs,
        };
        return output::json_of(summary, &samples(&plan, program), &missing(&plan));
    }
    output::text(&page(&plan, program, sentences))
}

fn page(plan: &Plan, program: &str, sentences: Vec<String>) -> Document {
    let mut said = sentences.into_iter();
    let answer = said.next().unwrap_or_default();
    let mut document = Document::new(format!("Warming up {program}"), format!("• {answer}"));
    let mut blocks = vec![Block::Table(warmups(plan)), Block::Table(runs(plan))];
    blocks.extend(said.map(Block::Text));
    document.sections.push(Section::new("plan", "", blocks));
    document
}

/// What each warm-up saves.
fn warmups(plan: &Plan) -> Table {
    Rows::of("warmups", "", &plan.warmups)
        .count("parent serves", |of| of.requests.warmed)
        .count("then a worker", |of| of.requests.served)
        .column(Column::number("saves each worker"), |of| Cell::text(range(of, Saved)))
        .column(Column::number("stays its own"), |of| Cell::text(range(of, Kept)))
        .text("known by", |of| if of.is_measured { "measured" } else { "bounds" })
        .table()
}

/// What each run says of a worker.
fn runs(plan: &Plan) -> Table {
    let figure = |value: Option<f64>, why: &str| match value {
        Some(value) => Cell::number(value, "bytes"),
        None => Cell::Missing(why.to_owned()),
    };
    let mut rows = Rows::of("runs", "What the runs say of a worker:", &plan.runs)
        .count("parent served", |of| of.requests.warmed)
        .count("worker", |of| of.requests.served)
        .count("workers", |of| of.workers)
        .column(Column::number("copied"), |of| Cell::number(of.copied_bytes, "bytes"));
    if plan.runs.iter().any(|of| of.common_bytes.is_some()) {
        rows = rows.column(Column::number("as another"), move |of| {
            figure(of.common_bytes, "needs two workers and each copy")
        });
    }
    if plan.runs.iter().any(|of| of.new_bytes.is_some()) {
        rows = rows
            .column(Column::number("made new"), move |of| figure(of.new_bytes, "not counted"))
            .column(Column::number("forked with"), move |of| {
                figure(of.forked_bytes, "not counted")
            });
    }
    rows.table()
}

enum Which {
    Saved,
    Kept,
}
use Which::{Kept, Saved};

/// `4.00 MiB to 21.0 MiB`, or what was measured.
fn range(of: &Warmup, which: Which) -> String {
    let (low, high) = match which {
        Saved => (of.saved_least_bytes, of.saved_most_bytes),
        Kept => (of.own_bytes - of.saved_most_bytes, of.own_bytes - of.saved_least_bytes),
    };
    if of.is_measured || low >= high {
        return quantity(low, "bytes");
    }
    format!("{} to {}", quantity(low, "bytes"), quantity(high, "bytes"))
}

/// The answer, the most wanted first.
fn sentences(plan: &Plan) -> Vec<String> {
    let Some((longest, chosen)) = plan.longest().zip(plan.chosen()) else {
        return Vec::new();
    };
    let mut all = vec![answer(plan, longest, chosen)];
    all.extend(first_written_late(plan, chosen));
    all.extend(not_in_common(longest));
    all.extend(whether_forking_pays(longest));
    all.extend(how_to_measure(plan, chosen));
    all
}

fn answer(plan: &Plan, longest: &Seen, chosen: &Warmup) -> String {
    let (own, served) = (size(longest.own_bytes()), times(plan.served));
    let has = has(longest);
    if plan.known().all(Warmup::is_nothing) {
        let warmups: Vec<String> = plan.known().map(|of| count(of.requests.warmed)).collect();
        let how = if chosen.is_measured { ", as measured" } else { "" };
        return format!(
            "No warm-up pays: after {} requests of the parent each worker still {has} {own} in {served}{how}.",
            warmups.join(" or ")
        );
    }
    let (least, most) = (chosen.saved_least_bytes, chosen.saved_most_bytes);
    let saved = match chosen.is_measured {
        true => size(most),
        false if least < 0.01 * longest.own_bytes() => format!("at most {}", size(most)),
        false => format!("{} to {}", size(least), size(most)),
    };
    let how = if chosen.is_measured { ", as measured" } else { "" };
    let mut text = format!(
        "Warming the parent with {} saves each worker {saved} of the {own} that it {has} in {served}{how}",
        times(chosen.requests.warmed)
    );
    let more = plan.known().filter(|of| of.requests.warmed > chosen.requests.warmed);
    if let Some(more) = more.last() {
        let warmed = count(more.requests.warmed);
        text += &match more.saved_most_bytes - most > 0.01 * longest.own_bytes() {
            true if more.is_measured => format!("; {warmed} save {}", size(more.saved_most_bytes)),
            true => format!("; {warmed} save at most {}", size(more.saved_most_bytes)),
            false => format!("; {warmed} save no more"),
        };
    }
    text + "."
}

/// What no warm-up of this length can save, whatever is written again.
fn first_written_late(plan: &Plan, chosen: &Warmup) -> Option<String> {
    let rest = chosen.own_bytes - chosen.saved_most_bytes;
    let is_bound = !chosen.is_measured && rest > 0.01 * chosen.own_bytes;
    is_bound.then(|| {
        format!(
            "At least {} stay a worker's own in {}, whatever it writes again.",
            size(rest),
            times(plan.served)
        )
    })
}

fn not_in_common(longest: &Seen) -> Option<String> {
    let common = longest.common_bytes?;
    Some(format!(
        "Two workers copy {} at the same addresses. What only one of them copies depends on its requests, and no \
         warm-up saves it.",
        size(common)
    ))
}

/// How much of what a fork shares is left.
fn whether_forking_pays(longest: &Seen) -> Option<String> {
    let forked = longest.forked_bytes.filter(|forked| *forked > 0.0)?;
    let share = longest.copied_bytes / forked;
    let served = times(longest.requests.served);
    let (copied, forked) = (size(longest.copied_bytes), size(forked));
    Some(match share >= ALL {
        true => format!(
            "Forking hardly pays without a warm-up: after {served} a worker has copied {copied} of the {forked} \
             that it was forked with ({}).",
            percent(share)
        ),
        false => format!(
            "Forking pays: after {served} a worker still shares {} of the {forked} that it was forked with.",
            percent(1.0 - share)
        ),
    })
}

fn how_to_measure(plan: &Plan, chosen: &Warmup) -> Option<String> {
    if chosen.is_measured {
        return None;
    }
    let warmed = chosen.requests.warmed;
    Some(format!(
        "A page is copied once, so these runs do not say which pages later requests write again. To measure it, have \
         the parent serve {} before it forks, make the run of {} again, and add it as RUN:{warmed}+{}.",
        times(warmed),
        times(plan.served),
        plan.served
    ))
}

fn has(of: &Seen) -> &'static str {
    if of.new_bytes.is_some() { "copies or makes new" } else { "copies" }
}

fn size(value: f64) -> String {
    bytes(value.round() as u64)
}

fn times(requests: u64) -> String {
    match requests {
        1 => "1 request".to_owned(),
        several => format!("{} requests", count(several)),
    }
}

fn missing(plan: &Plan) -> Vec<Missing> {
    let row = |metric: &str, reason: &str| Missing { metric: metric.into(), reason: reason.into() };
    let mut missing = Vec::new();
    if plan.runs.iter().all(|of| of.new_bytes.is_none()) {
        missing.push(row(
            names::NEW_BYTES.name,
            "blame counts copies alone: runs of `footprint` count new memory and what the fork shared as well",
        ));
    }
    if plan.longest().is_some_and(|of| of.common_bytes.is_none()) {
        missing.push(row(
            names::COMMON_BYTES.name,
            "needs runs of `blame` with --every 1 of two workers or more",
        ));
    }
    missing
}

/// The figures as rows.
fn samples(plan: &Plan, program: &str) -> Vec<Sample> {
    let mut rows = Vec::new();
    let mut add = |requests: Requests, metric, value: Option<f64>| {
        let mut params = Params::new();
        names::PROGRAM.put(&mut params, program);
        names::WARMED_REQUESTS.put(&mut params, requests.warmed);
        names::REQUESTS.put(&mut params, requests.served);
        rows.extend(value.map(|value| Sample::of(metric, params, value)));
    };
    for of in &plan.runs {
        add(of.requests, names::COPIED_BYTES, Some(of.copied_bytes));
        add(of.requests, names::NEW_BYTES, of.new_bytes);
        add(of.requests, names::FORKED_BYTES, of.forked_bytes);
        add(of.requests, names::COMMON_BYTES, of.common_bytes);
    }
    for of in &plan.warmups {
        add(of.requests, names::SAVED_LEAST_BYTES, Some(of.saved_least_bytes));
        add(of.requests, names::SAVED_MOST_BYTES, Some(of.saved_most_bytes));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(warmed: u64, served: u64, mib: f64) -> Seen {
        Seen {
            requests: Requests { warmed, served },
            verb: "footprint",
            program: "server".to_owned(),
            workers: 4,
            copied_bytes: mib * 1048576.0,
            new_bytes: Some(0.0),
            forked_bytes: Some(32.0 * 1048576.0),
            common_bytes: None,
        }
    }

    fn said(runs: &[(u64, u64, f64)]) -> String {
        let runs = runs.iter().map(|(warmed, served, mib)| seen(*warmed, *served, *mib));
        sentences(&Plan::of(runs.collect()).unwrap()).join("\n")
    }

    #[test]
    fn bounds_are_called_so_and_the_next_run_is_named() {
        let text = said(&[(0, 1, 20.0), (0, 10, 27.0), (0, 100, 30.0)]);
        assert_eq!(
            text,
            "Warming the parent with 10 requests saves each worker at most 27.0 MiB of the 30.0 MiB that it \
             copies or makes new in 100 requests; 100 save at most 30.0 MiB.\n\
             At least 3.00 MiB stay a worker's own in 100 requests, whatever it writes again.\n\
             Forking hardly pays without a warm-up: after 100 requests a worker has copied 30.0 MiB of the 32.0 MiB \
             that it was forked with (93.8%).\n\
             A page is copied once, so these runs do not say which pages later requests write again. To measure \
             it, have the parent serve 10 requests before it forks, make the run of 100 requests again, and add it \
             as RUN:10+100."
        );
    }

    #[test]
    fn what_was_measured_is_the_answer() {
        let text = said(&[(0, 1, 9.0), (0, 100, 16.0), (1, 100, 8.0), (10, 100, 7.95)]);
        let answer = "Warming the parent with 1 request saves each worker 8.00 MiB of the 16.0 MiB that it copies or \
                      makes new in 100 requests, as measured; 10 save no more.";
        assert_eq!(text.lines().next(), Some(answer), "{text}");
        assert!(
            text.contains("Forking pays: after 100 requests a worker still shares 50.0%"),
            "{text}"
        );
        assert!(!text.contains("RUN:"), "{text}");
        let text = said(&[(0, 100, 16.0), (10, 100, 16.1)]);
        assert!(
            text.starts_with(
                "No warm-up pays: after 10 requests of the parent each worker still copies"
            ),
            "{text}"
        );
    }
}
