// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench NAME`: one measurement over the product of its parameters.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cowlab_analysis::figures::figures;
use cowlab_bench::{
    Recorder, Rounds, Task, command, faults, fork_sections as sections, precopy, sweep, table,
};
use cowlab_machine::Policy;
use cowlab_probes::{CowCheck, CowFaults, DoFork, ForkTable, Writer, unix_ns};
use cowlab_report::figures::table as figure_table;
use cowlab_report::{Block, Document, Section, csv, emulated, html};
use cowlab_store::{Missing, Run, RunFolder, RunInfo};

use crate::args::{
    Bench, BenchArgs, CommandArgs, Common, CowCheckArgs, CowFaultsArgs, ForkSectionsArgs,
    ForkSweepArgs, ForkTableArgs, PreCopyArgs,
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
    finish(&context, sections::BENCH, &tasks, Rounds::exactly(args.how.rounds))
}

fn fork_sweep(common: &Common, args: &ForkSweepArgs) -> Result<()> {
    let context = Context::new(common, args.page_size_bytes.first().copied())?;
    context.size_flag.set("--heap-bytes");
    let mut cells = vec![DoFork {
        reap: args.reap,
        populated: !args.untouched,
        scattered: args.scatter,
        scatter_bytes: if args.scatter { context.scatter_bytes()? } else { 0 },
        settled: args.settle,
        pinned: !args.how.no_pin,
        ..DoFork::new(1, 0, 0.0, context.page())
    }];
    let page_sizes = page_sizes(&context, &args.page_size_bytes)?;
    vary(&mut cells, &page_sizes, |cell, value| cell.page_size_bytes = value);
    vary(&mut cells, &args.heap_bytes, |cell, value| cell.heap_bytes = value);
    vary(&mut cells, &args.write_fraction, |cell, value| cell.write_fraction = value);
    vary(&mut cells, &args.method, |cell, value| cell.method = value);
    vary(&mut cells, &args.writer, |cell, value| cell.writer = value);
    vary(&mut cells, &args.threads, |cell, value| cell.threads = value);
    vary(&mut cells, &args.vmas_anon, |cell, value| cell.vmas_anon = value);
    vary(&mut cells, &args.vmas, |cell, value| cell.vmas = value);
    vary(&mut cells, &args.work_us, |cell, value| cell.work_us = value);
    vary(&mut cells, &args.forks, |cell, value| cell.forks = value);
    for cell in &cells {
        cell.check().map_err(WrongUsage)?;
        if cell.scattered {
            if cell.page_size_bytes > context.page() {
                let why = "--scatter would split huge pages and folios before the first fork that \
                           is measured: leave --page-size-bytes out";
                return Err(WrongUsage(why.into()).into());
            }
            // All of it is copied once, before the forks that are measured.
            context.check_fits(cell.heap_bytes, cell.heap_bytes, 1, context.page())?;
        }
        let written = (cell.heap_bytes as f64 * cell.write_fraction) as u64;
        let children = match cell.reap {
            cowlab_probes::Reap::Each => 1,
            cowlab_probes::Reap::AtMost(alive) => alive,
            // They overlap as the scheduler likes: as many as there are CPUs write at a time.
            cowlab_probes::Reap::Never => context.facts.cpu.allowed.len() as u64 + 1,
        };
        context.check_fits(cell.heap_bytes, written, children, context.page())?;
    }
    finish(&context, sweep::BENCH, &sweep::tasks(cells), Rounds::exactly(args.how.rounds))
}

/// Each of the cells with each of the values.
fn vary<T: Copy>(cells: &mut Vec<DoFork>, values: &[T], set: impl Fn(&mut DoFork, T)) {
    let each = |cell: &DoFork| {
        let with = |value: &T| {
            let mut cell = cell.clone();
            set(&mut cell, *value);
            cell
        };
        values.iter().map(with).collect::<Vec<_>>()
    };
    *cells = cells.iter().flat_map(each).collect();
}

fn fork_table(common: &Common, args: &ForkTableArgs) -> Result<()> {
    let context = Context::new(common, None)?;
    let (iterations, rounds) = if args.paper {
        (table::PAPER_ITERATIONS, table::PAPER_RUNS)
    } else {
        (args.iterations, args.how.rounds)
    };
    let mut cells = Vec::new();
    for touched in args.touched.map_or(vec![false, true], |touched| vec![touched]) {
        for &method in &args.method {
            for &size_bytes in &args.size_bytes {
                let pinned = !args.how.no_pin;
                cells.push(ForkTable { method, size_bytes, iterations, touched, pinned });
            }
        }
    }
    for cell in &cells {
        cell.check().map_err(WrongUsage)?;
        context.check_fits(cell.size_bytes, 0, 1, context.page())?;
    }
    finish(&context, table::BENCH, &table::tasks(cells), Rounds::exactly(rounds))
}

fn cow_faults(common: &Common, args: &CowFaultsArgs) -> Result<()> {
    let context = Context::new(common, args.page_size_bytes.first().copied())?;
    let counting = faults::counting(&context.facts);
    let mut cells = Vec::new();
    for page_size_bytes in page_sizes(&context, &args.page_size_bytes)? {
        for &pattern in &args.pattern {
            for &size_bytes in &args.size_bytes {
                for &writer in &args.writer {
                    for &children in &args.children {
                        for &threads in &args.threads {
                            for policy in or_stock(&args.policy) {
                                cells.push(CowFaults {
                                    pattern,
                                    size_bytes,
                                    writer,
                                    children,
                                    threads,
                                    page_size_bytes,
                                    pinned: !args.how.no_pin && children == 1,
                                    policy,
                                    counting,
                                    repetitions: faults::repetitions_of(pattern, counting),
                                    unmeasured: faults::unmeasured(writer, &args.policy),
                                    seed: common.seed,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    check_cow_faults(&context, &cells)?;
    let guard = context.policies(&args.policy)?;
    finish(&context, faults::BENCH, &faults::tasks(cells, guard), Rounds::exactly(args.how.rounds))
}

/// The policies asked for, or the kernel as it is.
pub fn or_stock(asked: &[Policy]) -> Vec<Option<Policy>> {
    if asked.is_empty() { vec![None] } else { asked.iter().copied().map(Some).collect() }
}

pub fn check_cow_faults(context: &Context, cells: &[CowFaults]) -> Result<()> {
    for cell in cells {
        cell.check().map_err(WrongUsage)?;
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
    let policies: Vec<Policy> = cells.iter().filter_map(|cell| cell.policy).collect();
    let guard = context.policies(&policies)?;
    finish(&context, precopy::NAME, &faults::tasks(cells, guard), Rounds::exactly(args.rounds))
}

fn program(common: &Common, args: &CommandArgs) -> Result<()> {
    let context = Context::new(common, None)?;
    let guard = context.policies(&args.policy)?;
    let tasks = command::tasks(&args.command, &or_stock(&args.policy), guard);
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
