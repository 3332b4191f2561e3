// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench NAME`: one measurement over the product of its parameters.

mod cross_check;
mod observe;
mod programs;
mod redis;
mod snapshot;
mod tend;
mod trace;

use anyhow::{Result, bail};
use cowlab_bench::{Rounds, command, faults, fork_sections as sections, sweep, table};
use cowlab_schema::cow_faults::CowFaults;
use cowlab_schema::fork_sweep::DoFork;
use cowlab_schema::fork_table::ForkTable;
use cowlab_schema::{Policy, Reap};

use crate::args::{
    Bench, BenchArgs, CellArgs, CommandArgs, Common, CowCheckArgs, ForkSectionsArgs,
    base_page_bytes,
};
use crate::context::Context;
use crate::measure::{check_cow_faults, finish, isolation_tasks};
use crate::usage::WrongUsage;

/// Run the verb.
pub fn run(json: bool, args: &BenchArgs) -> Result<()> {
    let common = &args.run.common(json, args.set_mthp);
    match &args.bench {
        Bench::ForkSweep(args) => fork_sweep(common, args),
        Bench::ForkTable(args) => fork_table(common, args),
        Bench::CowFaults(args) => cow_faults(common, args),
        Bench::Redis(args) => redis::run(common, args),
        Bench::Snapshot(args) => snapshot::run(common, args),
        Bench::Footprints(args) => programs::footprints(common, args),
        Bench::Forecast(args) => programs::forecasts(common, args),
        Bench::Tend(args) => tend::run(common, args),
        Bench::Command(args) => program(common, args),
        Bench::CowCheck(args) => cow_check(common, args),
        Bench::CrossCheck(args) => cross_check::run(common, args),
        Bench::ForkSections(args) => fork_sections(common, args),
        Bench::Observe(args) => observe::run(common, args),
        Bench::Trace(args) => trace::run(common, args),
    }
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

fn program(common: &Common, args: &CommandArgs) -> Result<()> {
    let context = Context::new(common, None)?;
    let guard = context.policies(&args.policy)?;
    let tasks = command::tasks(&args.command, &args.policy, guard);
    finish(&context, command::BENCH, &tasks, Rounds::exactly(args.rounds))
}

fn cow_check(common: &Common, args: &CowCheckArgs) -> Result<()> {
    let context = Context::new(common, args.page_size_bytes.first().copied())?;
    let sizes = if args.page_size_bytes.is_empty() {
        [Some(context.page()), context.huge_page().ok()].into_iter().flatten().collect()
    } else {
        context.page_sizes(&args.page_size_bytes)?
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
