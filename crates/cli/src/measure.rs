// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures tasks in rounds as a run; checks that several verbs make before they measure.

use std::time::{Duration, Instant};

use anyhow::Result;
use cowlab_analysis::figures::figures;
use cowlab_bench::redis::load::{RECORD_BYTES, Request};
use cowlab_bench::{Rounds, Task};
use cowlab_report::figures::table as figure_table;
use cowlab_report::{Block, Document, Section, csv, emulated, of_bench};
use cowlab_schema::Writer;
use cowlab_schema::cow_faults::CowFaults;
use cowlab_store::{Missing, Run};

use crate::context::Context;
use crate::run_life::{Report, RunLife};
use crate::usage::WrongUsage;

/// Measure `tasks` of a bench, keep the run and print it.
pub fn finish(context: &Context, name: &str, tasks: &[Task], rounds: Rounds) -> Result<()> {
    finish_as(&format!("bench-{name}"), context, name, tasks, rounds, Vec::new())
}

/// Like `finish`, with a name of its own for the run, and what cannot be measured here.
pub fn finish_as(
    run_name: &str,
    context: &Context,
    name: &str,
    tasks: &[Task],
    rounds: Rounds,
    missing: Vec<Missing>,
) -> Result<()> {
    let mut life = RunLife::begin(&context.common, run_name, context.facts.environment())?;
    life.run.info.missing = missing;
    let ended = measure_into(&mut life, context, tasks, rounds);
    life.end(ended, |run| report(name, run))?.show()
}

/// A bench's own report, or a table of all figures.
pub fn report(name: &str, run: &Run) -> Result<Report> {
    let summary = figures(&run.samples);
    let table = figure_table(name, name, &summary);
    let file = (format!("tables/{name}.csv"), csv::table_csv(&table).into_bytes());
    let document = of_bench(run).unwrap_or_else(|| {
        let environments = &run.info.environments;
        let places: Vec<String> =
            environments.iter().map(|of| format!("{}, Linux {}", of.host, of.kernel)).collect();
        let mut document = Document::new(name, places.join("; "));
        let mut blocks = vec![Block::Table(table)];
        blocks.extend(run.info.missing.iter().map(|missing| {
            Block::Note(format!("not available: {}: {}", missing.metric, missing.reason))
        }));
        document.sections.push(Section::new(name, "Figures", blocks));
        emulated::label_document(&mut document, emulated::label_of(environments));
        document
    });
    Ok(Report { files: vec![file], ..Report::new(document, &summary)? })
}

/// The report of guests' samples, which may be of kernels under policies.
pub fn of_guests(name: &str, run: &Run) -> Result<Report> {
    match (of_bench(run), cowlab_report::next_page::document(run)) {
        (None, Some(document)) => Report::new(document, figures(&run.samples)),
        _ => report(name, run),
    }
}

/// Completed rounds are written at most this often; a short run ends earlier.
const KEPT_EACH: Duration = Duration::from_secs(10);

/// Measure into a run. SIGKILL or the end of a guest loses no completed round: they are in the
/// unfinished folder, as a readable run.
fn measure_into(
    life: &mut RunLife,
    context: &Context,
    tasks: &[Task],
    rounds: Rounds,
) -> Result<()> {
    let (known, mut made, mut last) = (life.run.info.missing.len(), 0, Instant::now());
    let result = context.measure_rounds(tasks, rounds, |mut round| {
        life.run.samples.append(&mut round);
        made += 1;
        if made < rounds.most && last.elapsed() >= KEPT_EACH {
            life.lacks("rounds", fewer_rounds(made, rounds, "it was killed"));
            life.keep_so_far()?;
            life.run.info.missing.truncate(known);
            last = Instant::now();
        }
        Ok(())
    });
    if let Err(error) = &result {
        life.lacks("rounds", fewer_rounds(made, rounds, &format!("{error:#}")));
    }
    result
}

fn fewer_rounds(made: u32, rounds: Rounds, why: &str) -> String {
    format!("{made} of {} were made: {why}", rounds.most)
}

/// Whether the memory of each cell of `cow-faults`, and the copies of it, fit.
pub fn check_cow_faults(context: &Context, cells: &[CowFaults]) -> Result<()> {
    for cell in cells {
        let written = cell.pages_written(context.page()) * context.page();
        let copies = if cell.writer == Writer::Child { u64::from(cell.children) } else { 1 };
        context.check_fits(cell.size_bytes, written, copies)?;
    }
    Ok(())
}

/// The records of a Redis of this size, and the updates of a phase, if both fit in memory.
pub fn redis_amount(
    context: &Context,
    size_bytes: u64,
    turnovers: f64,
    pipeline: u32,
) -> Result<(u64, u64)> {
    let records = size_bytes / RECORD_BYTES;
    let updates = (records as f64 * turnovers) as u64;
    if records < 2 || updates == 0 {
        return Err(WrongUsage(format!(
            "{} must hold two records of {RECORD_BYTES} bytes at least, and the turnovers make an \
             update of them",
            context.size_flag.get()
        ))
        .into());
    }
    // Besides the records: their snapshot, which a guest keeps in memory, and each request's times, in
    // total and per client.
    let requests = updates / u64::from(pipeline);
    let own_bytes = 2 * size_bytes + 2 * requests * size_of::<Request>() as u64;
    context.check_fits(own_bytes, size_bytes.min(own_bytes), 1)?;
    Ok((records, updates))
}
