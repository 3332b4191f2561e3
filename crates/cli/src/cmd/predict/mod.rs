// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `predict`: what forks of a size, or those of a footprint, cost on the machine of a profile.

mod run;

use std::path::Path;

use anyhow::{Result, bail};
use cowlab_machine::{Facts, Root};
use cowlab_model::advice::Advice;
use cowlab_model::application::ApplicationProfile;
use cowlab_model::cost::{Deferred, Predicted, Prediction, Question, deferred, predict};
use cowlab_model::profile::MachineProfile;
use cowlab_observe::watch::Wanted as Processes;
use cowlab_report::{Block, Cell, Document, Rows, Section, Table};
use cowlab_schema::units::parse_bytes;
use cowlab_schema::{Command, Policy, predict as names};
use cowlab_store::{Params, Sample};
use serde::Serialize;

use crate::args::PredictArgs;
use crate::diagnosis::choices;
use crate::output;
use crate::profile_file::Priced;
use crate::usage::WrongUsage;
pub use run::{Footprint, Wanted};

#[derive(Serialize)]
struct Answer {
    write_fraction: f64,
    question: Question,
    prediction: Prediction,
    /// Of base pages, on a kernel that leaves page tables for after fork, if it is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    deferred: Option<Deferred>,
}

#[derive(Serialize, Default)]
#[serde(default)]
struct PredictSummary<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<&'a [Answer]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentence: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    application: Option<&'a ApplicationProfile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'a [Advice]>,
}

impl Answer {
    /// The writes under deferral, at most.
    fn most_write_ns(&self, deferred: &Deferred) -> Predicted {
        let (now, more) = (self.prediction.write_ns, deferred.tables_ns);
        Predicted { value: now.value + more.value, low: now.low, high: now.high + more.high }
    }
}

pub fn run(json: bool, args: &PredictArgs) -> Result<()> {
    let is_run = |word: &&String| Path::new(word).exists() || word.contains('/');
    let (runs, sizes): (Vec<&String>, Vec<&String>) = args.what.iter().partition(is_run);
    if json && !runs.is_empty() && args.what.len() > 1 {
        bail!(WrongUsage("--json takes one run, or sizes: run predict once for each".to_owned()));
    }
    let sizes: Vec<u64> = sizes.into_iter().map(|word| size(word)).collect::<Result<_>>()?;
    let Priced { profile, by } = Priced::find(&args.profile)?;
    if !sizes.is_empty() {
        print_sizes(json, args, &sizes, &profile, &by)?;
    }
    let machine = Facts::probe(&Root::default());
    let threads = args.threads.first().copied();
    let policies = args.policy.iter().map(Policy::to_string).collect();
    let wanted = Wanted { program: args.program.as_deref(), threads, policies };
    let priced = runs.iter().map(|run| {
        let footprint = Footprint::read(Path::new(run), &wanted, &profile, &machine)?;
        if json {
            let summary = PredictSummary {
                sentence: Some(&footprint.sentence),
                application: Some(&footprint.costs.application),
                advice: Some(&footprint.costs.choices),
                ..PredictSummary::default()
            };
            output::json_of(summary, &[], &choices::missing(&footprint.costs))?;
            return Ok(None);
        }
        Ok(Some(footprint.document(run, &by, args.tables)))
    });
    let (documents, errors) = output::parted(priced);
    output::texts(documents.into_iter().flatten())?;
    output::errors(errors)
}

/// A size; of what is a process, what to type for it.
fn size(word: &str) -> Result<u64> {
    let message = match parse_bytes(word) {
        Ok(bytes) => return Ok(bytes),
        Err(_) if Processes::parse(word).is_ok_and(|of| of.find().is_ok()) => format!(
            "{word} is a process, and predict takes the run of a footprint or a size: `{}`",
            Command::Explain.of(word)
        ),
        Err(why) => format!("{why}, and no run is at {word}: runs are below runs/"),
    };
    bail!(WrongUsage(message))
}

fn print_sizes(
    json: bool,
    args: &PredictArgs,
    sizes: &[u64],
    profile: &MachineProfile,
    by: &str,
) -> Result<()> {
    if let Some(policy) = args.policy.iter().find(|policy| **policy != Policy::Defer) {
        bail!(WrongUsage(format!(
            "--policy {policy} depends on which pages are written: give the run of a footprint"
        )));
    }
    let answers = answers(args, sizes, profile)?;
    let base = profile.page_size_bytes;
    if json {
        let summary = PredictSummary { answers: Some(&answers), ..PredictSummary::default() };
        return output::json_of(summary, &samples(&answers, base), &[]);
    }
    let mut document = Document::new("Prediction", by);
    let mut blocks = vec![Block::Table(table(&answers, base))];
    let mut notes: Vec<&String> = answers
        .iter()
        .flat_map(|a| a.prediction.reasons.iter().chain(&a.prediction.notes))
        .collect();
    notes.sort();
    notes.dedup();
    blocks.extend(notes.into_iter().map(|note| Block::Note(note.clone())));
    document.sections.push(Section::new("prediction", "What the fork costs", blocks));
    document.sections.extend(of_deferral(&answers, base));
    output::text(&document)
}

/// Each size with each share of writes and number of threads, of base pages and of huge pages: of a program that
/// works between its forks, all of whose memory was written before.
fn answers(args: &PredictArgs, sizes: &[u64], profile: &MachineProfile) -> Result<Vec<Answer>> {
    let base = profile.page_size_bytes;
    let page_sizes = std::iter::once(base).chain(profile.huge_page_bytes);
    let mut answers = Vec::new();
    for bytes in sizes {
        let pages = bytes.div_ceil(base);
        if pages > u64::MAX / base / 4 {
            bail!(WrongUsage(format!("{pages} pages are more than any address space holds")));
        }
        for &write_fraction in &args.write_fraction {
            let written = (pages as f64 * write_fraction).ceil() as u64;
            for &threads in if args.threads.is_empty() { &[0][..] } else { &args.threads } {
                for page_size_bytes in page_sizes.clone() {
                    let question = Question {
                        threads: f64::from(threads),
                        page_size_bytes,
                        split_pages: None,
                        ..ApplicationProfile::of_pages(pages, written).question(base, base)
                    };
                    let is_deferred = page_size_bytes == base && !args.policy.is_empty();
                    answers.push(Answer {
                        write_fraction,
                        question,
                        prediction: predict(profile, &question)?,
                        deferred: is_deferred
                            .then(|| deferred(profile, &question, 0, 0))
                            .transpose()?,
                    });
                }
            }
        }
    }
    Ok(answers)
}

fn params(answer: &Answer, base: u64) -> Params {
    let question = &answer.question;
    let mut params = Params::new();
    names::PAGES.put(&mut params, question.pages);
    names::SIZE_BYTES.put(&mut params, question.pages * base);
    names::WRITE_FRACTION.put(&mut params, answer.write_fraction);
    names::WRITTEN_BEFORE_PAGES.put(&mut params, question.written_before);
    names::WRITER.put(&mut params, question.writer);
    names::THREADS.put(&mut params, question.threads as u32);
    names::PAGE_SIZE_BYTES.put(&mut params, question.page_size_bytes);
    names::POLICY.put(&mut params, Policy::Stock);
    if question.among_work {
        names::AMONG_WORK.put(&mut params, true);
    }
    params
}

fn samples(answers: &[Answer], base: u64) -> Vec<Sample> {
    let mut samples = Vec::new();
    for answer in answers {
        let p = &answer.prediction;
        for (metric, value) in [
            (names::ELAPSED_NS, p.elapsed_ns.value),
            (names::ELAPSED_LOW_NS, p.elapsed_ns.low),
            (names::ELAPSED_HIGH_NS, p.elapsed_ns.high),
            (names::FORK_NS, p.fork_ns.value),
            (names::FORK_LOW_NS, p.fork_ns.low),
            (names::FORK_HIGH_NS, p.fork_ns.high),
            (names::WRITE_NS, p.write_ns.value),
            (names::EXTRA_BYTES, p.extra_bytes as f64),
        ] {
            samples.push(Sample::of(metric, params(answer, base), value));
        }
        let Some(then) = &answer.deferred else { continue };
        let mut params = params(answer, base);
        names::POLICY.put(&mut params, Policy::Defer);
        for (metric, value) in [
            (names::FORK_NS, then.fork_ns.value),
            (names::FORK_LOW_NS, then.fork_ns.low),
            (names::FORK_HIGH_NS, then.fork_ns.high),
            (names::FIRST_WRITE_NS, then.first_write_ns.value),
            (names::WRITE_NS, answer.most_write_ns(then).value),
        ] {
            samples.push(Sample::of(metric, params.clone(), value));
        }
    }
    samples
}

/// The same forks where page tables are copied after them; none of huge pages alone.
fn of_deferral(answers: &[Answer], base: u64) -> Option<Section> {
    let all: Vec<(&Answer, &Deferred)> =
        answers.iter().filter_map(|answer| Some((answer, answer.deferred.as_ref()?))).collect();
    let cell = |p: Predicted| Cell::estimate(p.value, p.low, p.high, "ns");
    let table = Rows::of("deferral", "Predicted for the patched kernel", &all)
        .figure("memory", |(of, _)| Cell::number((of.question.pages * base) as f64, "bytes"))
        .count("written pages", |(of, _)| of.question.written)
        .count("threads", |(of, _)| of.question.threads as u64)
        .figure("stop at fork", |(_, then)| cell(then.fork_ns))
        .figure("first write to a page table", |(_, then)| cell(then.first_write_ns))
        .figure("writes, at most", |(of, then)| cell(of.most_write_ns(then)))
        .table();
    let note = "This is what the patched kernel would do with vm.cow_defer, not what this kernel does: \
                fork marks page tables, and the first write to each copies it. The writes are the \
                most if the written pages lie side by side, or a footprint knew where they are: the \
                child copies some of the page tables before them";
    let blocks = vec![Block::Table(table), Block::Note(note.into())];
    (!all.is_empty())
        .then(|| Section::new("deferral", "If fork left page tables for later", blocks))
}

fn table(answers: &[Answer], base: u64) -> Table {
    let bytes = |bytes: u64| Cell::number(bytes as f64, "bytes");
    let predicted = |of: fn(&Prediction) -> Predicted| {
        move |answer: &Answer| {
            let Predicted { value, low, high } = of(&answer.prediction);
            Cell::estimate(value, low, high, "ns")
        }
    };
    Rows::of("prediction", "Predicted", answers)
        .figure("memory", |of| bytes(of.question.pages * base))
        .count("written pages", |of| of.question.written)
        .count("threads", |of| of.question.threads as u64)
        .figure("page size", |of| bytes(of.question.page_size_bytes))
        .figure("stop at fork", predicted(|of| of.fork_ns))
        .figure("writes", predicted(|of| of.write_ns))
        .figure("in all (95% prediction interval)", predicted(|of| of.elapsed_ns))
        .figure("extra memory", |of| bytes(of.prediction.extra_bytes))
        .table()
}
