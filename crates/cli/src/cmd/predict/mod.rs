// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `predict`: a machine profile times an application's numbers.

mod policies;

use std::path::Path;

use anyhow::{Result, bail};
use cowlab_model::cost::{Deferred, Predicted, Prediction, Question, deferred, predict};
use cowlab_model::profile::MachineProfile;
use cowlab_observe::watch::Wanted;
use cowlab_report::{Block, Cell, Document, Rows, Section, Table};
use cowlab_schema::{Command, Policy, predict as names};
use cowlab_store::{Params, Sample};
use serde::Serialize;

use crate::application::of_run;
use crate::args::{PredictArgs, PredictWhat};
use crate::calibration::priced;
use crate::output;
use crate::profile_file::Priced;
use crate::usage::WrongUsage;

#[derive(Serialize)]
struct Answer {
    write_fraction: f64,
    question: Question,
    prediction: Prediction,
    /// Of base pages, on a kernel that leaves page tables for after fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    deferred: Option<Deferred>,
}

impl Answer {
    fn of(
        profile: &MachineProfile,
        question: Question,
        write_fraction: f64,
        kept_pages: u64,
    ) -> Result<Answer> {
        let prediction = predict(profile, &question)?;
        let is_base = question.page_size_bytes == profile.page_size_bytes;
        let deferred = is_base.then(|| deferred(profile, &question, kept_pages, 0)).transpose()?;
        Ok(Answer { write_fraction, question, prediction, deferred })
    }

    /// The writes then, at most.
    fn most_write_ns(&self, deferred: &Deferred) -> Predicted {
        let (now, more) = (self.prediction.write_ns, deferred.tables_ns);
        Predicted { value: now.value + more.value, low: now.low, high: now.high + more.high }
    }
}

/// Run the verb.
pub fn run(json: bool, args: &PredictArgs) -> Result<()> {
    if let Some(PredictWhat::Policies(args)) = &args.what {
        return policies::run(json, args);
    }
    if let Some(word) = args.target.as_deref().filter(|run| !run.exists()).and_then(Path::to_str)
        && Wanted::parse(word).is_ok_and(|wanted| wanted.find().is_ok())
    {
        bail!(WrongUsage(format!(
            "{word} is a process, and predict takes the run of a footprint: `{}`",
            Command::Advise.of(word)
        )));
    }
    let Priced { profile, by } = priced(json, &args.profile)?;
    let answers = match &args.target {
        Some(run) => of_footprint(args, run, &profile)?,
        None => answers(args, &profile)?,
    };
    if json {
        return output::json_of(&answers, &samples(&answers, profile.page_size_bytes), &[]);
    }
    let mut document = Document::new("Prediction", by);
    let mut blocks = vec![Block::Table(table(&answers, profile.page_size_bytes))];
    let mut notes: Vec<&String> = answers
        .iter()
        .flat_map(|a| a.prediction.reasons.iter().chain(&a.prediction.notes))
        .collect();
    notes.sort();
    notes.dedup();
    blocks.extend(notes.into_iter().map(|note| Block::Note(note.clone())));
    document.sections.push(Section::new("prediction", "What the fork costs", blocks));
    document.sections.extend(of_deferral(&answers, profile.page_size_bytes));
    output::text(&document)
}

/// The forks of a footprint, with each number of threads and each size of pages.
fn of_footprint(args: &PredictArgs, run: &Path, profile: &MachineProfile) -> Result<Vec<Answer>> {
    let base = profile.page_size_bytes;
    let mut application = of_run(run, args.program.as_deref(), base)?;
    let pages = application.profile.pages;
    application.profile.written_before =
        (pages as f64 * args.written_before_fraction).ceil() as u64;
    let page_sizes =
        if args.page_size_bytes.is_empty() { vec![base] } else { args.page_size_bytes.clone() };
    let mut answers = Vec::new();
    for &threads in &args.threads {
        application.profile.threads = threads;
        for &page_size_bytes in &page_sizes {
            let question = application.profile.question(base, page_size_bytes);
            let of = &application.profile;
            let mut answer = Answer::of(profile, question, of.write_fraction(), of.kept_pages())?;
            answer.prediction.notes.extend(application.notes.iter().cloned());
            answers.push(answer);
        }
    }
    Ok(answers)
}

fn answers(args: &PredictArgs, profile: &MachineProfile) -> Result<Vec<Answer>> {
    let base = profile.page_size_bytes;
    let sizes = args.size_bytes.iter().map(|bytes| bytes.div_ceil(base));
    let page_sizes =
        if args.page_size_bytes.is_empty() { vec![base] } else { args.page_size_bytes.clone() };
    let of = |pages: u64, fraction: f64| (pages as f64 * fraction).ceil() as u64;
    let mut answers = Vec::new();
    for pages in sizes {
        if pages > u64::MAX / base / 4 {
            bail!(WrongUsage(format!(
                "--size-bytes: {pages} pages are more than any address space holds"
            )));
        }
        for &fraction in &args.write_fraction {
            for &threads in &args.threads {
                for &page_size_bytes in &page_sizes {
                    let question = Question {
                        pages,
                        written: of(pages, fraction),
                        written_before: of(pages, args.written_before_fraction),
                        writer: args.writer,
                        threads,
                        page_size_bytes,
                        split_pages: None,
                        among_work: args.among_work,
                        cpu_ns_per_copy: None,
                        nearby_share: None,
                        vmas: None,
                    };
                    answers.push(Answer::of(profile, question, fraction, 0)?);
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
    names::THREADS.put(&mut params, question.threads);
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
        .count("threads", |(of, _)| of.question.threads.into())
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
        .count("threads", |of| of.question.threads.into())
        .figure("page size", |of| bytes(of.question.page_size_bytes))
        .figure("stop at fork", predicted(|of| of.fork_ns))
        .figure("writes", predicted(|of| of.write_ns))
        .figure("in all (95% prediction interval)", predicted(|of| of.elapsed_ns))
        .figure("extra memory", |of| bytes(of.prediction.extra_bytes))
        .table()
}
