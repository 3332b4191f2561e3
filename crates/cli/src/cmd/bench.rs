// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench NAME`: one measurement over the product of its parameters.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cowlab_analysis::figures::figures;
use cowlab_bench::{
    Recorder, Rounds, Task, command, faults, fork_sections as sections, precopy, sweep, table,
};
use cowlab_probes::{CowCheck, unix_ns};
use cowlab_report::figures::table as figure_table;
use cowlab_report::{Block, Document, Section, csv, emulated, html};
use cowlab_schema::cow_faults::CowFaults;
use cowlab_schema::fork_sweep::DoFork;
use cowlab_schema::fork_table::ForkTable;
use cowlab_schema::{Policy, Reap, Writer};
use cowlab_store::{Missing, Run, RunFolder, RunInfo};

use crate::args::{
    Bench, BenchArgs, CellArgs, CommandArgs, Common, CowCheckArgs, ForkSectionsArgs, PreCopyArgs,
    base_page_bytes,
};
use crate::cmd::{
    bench_ccow, bench_observe, bench_programs, bench_redis, bench_snapshot, bench_tend,
    bench_trace, cross_check,
};
use crate::context::Context;
use crate::output;
use crate::usage::WrongUsage;

/// Run the verb.
pub fn run(json: bool, args: &BenchArgs) -> Result<()> {
    let common = &args.run.common(json, args.set_mthp);
    match &args.bench {
        Bench::ForkSweep(args) => fork_sweep(common, args),
        Bench::ForkTable(args) => fork_table(common, args),
        Bench::CowFaults(args) => cow_faults(common, args),
        Bench::PreCopy(args) => pre_copy(common, args),
        Bench::Redis(args) => bench_redis::run(common, args),
        Bench::Ccow(args) => bench_ccow::run(common, args),
        Bench::Snapshot(args) => bench_snapshot::run(common, args),
        Bench::Footprints(args) => bench_programs::footprints(common, args),
        Bench::Forecast(args) => bench_programs::forecasts(common, args),
        Bench::Tend(args) => bench_tend::run(common, args),
        Bench::Command(args) => program(common, args),
        Bench::CowCheck(args) => cow_check(common, args),
        Bench::CrossCheck(args) => cross_check::run(common, args),
        Bench::ForkSections(args) => fork_sections(common, args),
        Bench::Observe(args) => bench_observe::run(common, args),
        Bench::Trace(args) => bench_trace::run(common, args),
    }
}

/// Measure `tasks`, keep the run and print it.
pub fn finish(context: &Context, name: &str, tasks: &[Task], rounds: Rounds) -> Result<()> {
    finish_lacking(context, name, tasks, rounds, Vec::new())
}

/// The same of a measurement that cannot have all here.
pub fn finish_lacking(
    context: &Context,
    name: &str,
    tasks: &[Task],
    rounds: Rounds,
    missing: Vec<Missing>,
) -> Result<()> {
    let mut info =
        RunInfo::begin(&format!("bench-{name}"), context.common.seed, context.facts.environment());
    info.missing = missing;
    let folder = RunFolder::create(&context.common.output, &info)?;
    let began = Instant::now();
    let mut run = Run { info, samples: Vec::new() };
    let ended = measure_into(&mut run, &folder, context, tasks, rounds);
    if run.samples.is_empty() && ended.is_err() {
        return ended;
    }
    run.info.duration_s = Some(began.elapsed().as_secs_f64());
    let summary = figures(&run.samples);
    let table = figure_table(name, name, &summary);
    folder.write_run(&run)?;
    folder.write(&format!("tables/{name}.csv"), csv::table_csv(&table).as_bytes())?;
    // Some have a report of their own.
    let own = cowlab_report::of_bench(&run);
    if let Some(document) = &own {
        for (file, contents) in csv::tables(document) {
            folder.write(&format!("tables/{file}"), contents.as_bytes())?;
        }
        folder.write("report.html", html::render(document).as_bytes())?;
    }
    let written = folder.commit()?;
    ended.with_context(|| kept(&written))?;
    context.say(&format!("the run is {}", written.display()));
    if context.common.json {
        return output::json_of_run(&run, &summary);
    }
    let document = own.unwrap_or_else(|| {
        let mut document = Document::new(name, run.info.environments[0].host.clone());
        document.sections.push(Section::new(name, "Figures", vec![Block::Table(table)]));
        emulated::label_document(&mut document, emulated::label_of(&run.info.environments));
        document
    });
    output::text(&document)
}

/// How often the rounds so far are written down, at most: a short run is over before.
const KEPT_EACH: Duration = Duration::from_secs(10);

/// Measure into `run`. What ends it, SIGKILL and the end of a guest among that, loses no whole round:
/// they are in the unfinished folder, as a run that can be read.
fn measure_into(
    run: &mut Run,
    folder: &RunFolder,
    context: &Context,
    tasks: &[Task],
    rounds: Rounds,
) -> Result<()> {
    let (known, mut made, mut last) = (run.info.missing.len(), 0, Instant::now());
    let result = context.measure_rounds(tasks, rounds, |mut round| {
        run.samples.append(&mut round);
        made += 1;
        if made < rounds.most && last.elapsed() >= KEPT_EACH {
            run.info.missing.push(fewer_rounds(made, rounds, "it was killed"));
            folder.write_run(run)?;
            run.info.missing.truncate(known);
            last = Instant::now();
        }
        Ok(())
    });
    if let Err(error) = &result {
        run.info.missing.push(fewer_rounds(made, rounds, &format!("{error:#}")));
    }
    result
}

fn fewer_rounds(made: u32, rounds: Rounds, why: &str) -> Missing {
    let reason = format!("{made} of {} were made: {why}", rounds.most);
    Missing { metric: "rounds".to_owned(), reason }
}

/// Where what was measured before an error is, for its message.
pub fn kept(written: &Path) -> String {
    format!("{} has what was measured before", written.display())
}

/// The page sizes asked for, or the base page; refused if a program does not get them here.
pub fn page_sizes(context: &Context, asked: &[u64]) -> Result<Vec<u64>> {
    let sizes = if asked.is_empty() { vec![context.page()] } else { asked.to_vec() };
    for size in &sizes {
        context.check_page_size(*size)?;
    }
    Ok(sizes)
}

fn fork_sections(common: &Common, args: &ForkSectionsArgs) -> Result<()> {
    let context = Context::new(common, None)?;
    for &size_bytes in &args.size_bytes {
        context.check_fits(size_bytes, 0, 1, context.page())?;
    }
    let tasks = sections::tasks(args.forks, &args.size_bytes);
    finish(&context, sections::BENCH, &tasks, args.rounds.exactly())
}

fn fork_sweep(common: &Common, args: &CellArgs<DoFork>) -> Result<()> {
    let base = DoFork { page_size_bytes: base_page_bytes(), ..DoFork::default() };
    let mut cells = args.cells.product(base)?;
    let context = Context::of_pages(common, cells.iter().map(|cell| cell.page_size_bytes))?;
    context.size_flag.set("--heap-bytes");
    for cell in &mut cells {
        if cell.scattered {
            if cell.page_size_bytes > context.page() {
                let why = "--set scattered=true would split huge pages and folios before the first \
                           fork that is measured: leave --page-size-bytes out";
                return Err(WrongUsage(why.into()).into());
            }
            if cell.scatter_bytes == 0 {
                cell.scatter_bytes = context.scatter_bytes()?;
            }
            // All of it is copied once, before the forks that are measured.
            context.check_fits(cell.heap_bytes, cell.heap_bytes, 1, context.page())?;
        }
        let written = (cell.heap_bytes as f64 * cell.write_fraction) as u64;
        let children = match cell.reap {
            Reap::Each => 1,
            Reap::AtMost(alive) => alive,
            // They overlap as the scheduler likes: as many as there are CPUs write at a time.
            Reap::Never => context.facts.cpu.allowed.len() as u64 + 1,
        };
        context.check_fits(cell.heap_bytes, written, children, context.page())?;
    }
    finish(&context, sweep::BENCH, &sweep::tasks(cells), args.rounds.exactly())
}

fn fork_table(common: &Common, args: &CellArgs<ForkTable>) -> Result<()> {
    let context = Context::new(common, None)?;
    let cells = args.cells.product(ForkTable::default())?;
    for cell in &cells {
        context.check_fits(cell.size_bytes, 0, 1, context.page())?;
    }
    finish(&context, table::BENCH, &table::tasks(cells), args.rounds.exactly())
}

fn cow_faults(common: &Common, args: &CellArgs<CowFaults>) -> Result<()> {
    let base =
        CowFaults { page_size_bytes: base_page_bytes(), seed: common.seed, ..CowFaults::default() };
    let mut cells = args.cells.product(base)?;
    let context = Context::of_pages(common, cells.iter().map(|cell| cell.page_size_bytes))?;
    let policies: Vec<Policy> = cells.iter().map(|cell| cell.policy).collect();
    for cell in &mut cells {
        cell.pinned &= cell.children == 1;
        cell.counting = faults::counting(&context.facts);
        cell.repetitions = faults::repetitions_of(cell.pattern, cell.counting);
        cell.unmeasured = faults::unmeasured(cell.writer, &policies);
    }
    check_cow_faults(&context, &cells)?;
    let guard = context.policies(&policies)?;
    finish(&context, faults::BENCH, &faults::tasks(cells, guard), args.rounds.exactly())
}

pub fn check_cow_faults(context: &Context, cells: &[CowFaults]) -> Result<()> {
    for cell in cells {
        let written = cell.pages_written(context.page()) * context.page();
        let copies = if cell.writer == Writer::Child { u64::from(cell.children) } else { 1 };
        context.check_fits(cell.size_bytes, written, copies, context.page())?;
    }
    Ok(())
}

fn pre_copy(common: &Common, args: &PreCopyArgs) -> Result<()> {
    let context = Context::new(common, None)?;
    let counting = faults::counting(&context.facts);
    let cells =
        precopy::plan(context.page(), &args.depths, context.other_cpus(), counting, common.seed);
    check_cow_faults(&context, &cells)?;
    let policies: Vec<Policy> = cells.iter().map(|cell| cell.policy).collect();
    let guard = context.policies(&policies)?;
    finish(&context, precopy::NAME, &faults::tasks(cells, guard), Rounds::exactly(args.rounds))
}

fn program(common: &Common, args: &CommandArgs) -> Result<()> {
    let context = Context::new(common, None)?;
    let guard = context.policies(&args.policy)?;
    let tasks = command::tasks(&args.command, &args.policy, guard);
    finish(&context, command::BENCH, &tasks, Rounds::exactly(args.rounds))
}

/// The isolation checks for numbers of children and page sizes.
pub fn isolation_tasks(
    children: &[u32],
    sizes: &[u64],
    size_bytes: u64,
    broken: bool,
) -> Vec<Task> {
    let mut tasks = Vec::new();
    for &page_size_bytes in sizes {
        for &children in children {
            let check = CowCheck { size_bytes, children, page_size_bytes, broken };
            tasks.push(
                Task::new(format!("cow-check: {children} children"), move |runner, rep| {
                    let params = [
                        ("children".to_owned(), check.children.to_string()),
                        ("page_size_bytes".to_owned(), check.page_size_bytes.to_string()),
                        ("size_bytes".to_owned(), check.size_bytes.to_string()),
                    ];
                    let mut out = Recorder::new("cow-check", params.into(), rep, unix_ns());
                    out.add("checked_pages", check.run(runner)? as f64);
                    Ok(out.finish())
                })
                .at_most(1),
            );
        }
    }
    tasks
}

fn cow_check(common: &Common, args: &CowCheckArgs) -> Result<()> {
    let context = Context::new(common, args.page_size_bytes.first().copied())?;
    let sizes = if args.page_size_bytes.is_empty() {
        [Some(context.page()), context.huge_page().ok()].into_iter().flatten().collect()
    } else {
        page_sizes(&context, &args.page_size_bytes)?
    };
    let most = args.children.iter().max().copied().unwrap_or(1);
    if args.size_bytes < context.page() * u64::from(most + 1) {
        bail!(WrongUsage(format!(
            "--size-bytes must hold a page for each of {} processes",
            most + 1
        )));
    }
    context.check_fits(args.size_bytes, args.size_bytes, u64::from(most), context.page())?;
    let tasks = isolation_tasks(&args.children, &sizes, args.size_bytes, args.broken);
    finish(&context, "cow-check", &tasks, Rounds::exactly(1))
}
