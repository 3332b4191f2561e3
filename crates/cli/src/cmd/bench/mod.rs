// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench NAME`: one measurement over the product of its parameters.

mod guests;
mod redis;
mod snapshot;

use anyhow::{Result, bail};
use clap::ArgMatches;
use cowlab_bench::{
    Rounds, command, cow_check as checks, cow_faults, fork_sections as sections, fork_sweep,
    fork_table,
};
use cowlab_schema::command::Commanded;
use cowlab_schema::cow_check::CowCheck;
use cowlab_schema::cow_faults::CowFaults;
use cowlab_schema::fork_sections::ForkSections;
use cowlab_schema::fork_sweep::DoFork;
use cowlab_schema::fork_table::ForkTable;
use cowlab_schema::{Policy, Reap};

use crate::args::{Bench, BenchArgs, CellArgs, Cells, CommandArgs, Common, base_page_bytes};
use crate::context::Context;
use crate::measure::{check_cow_faults, finish};
use crate::usage::WrongUsage;

pub fn run(json: bool, args: &BenchArgs, matches: &ArgMatches) -> Result<()> {
    if !args.shared.kernels.kernel.is_empty() {
        return guests::run(json, args, matches);
    }
    guests::check_unused(args)?;
    let common = &args.shared.run.common(json, args.shared.set_mthp);
    match &args.bench {
        Bench::ForkSweep(args) => fork_sweep(common, args),
        Bench::ForkTable(args) => fork_table(common, args),
        Bench::CowFaults(args) => cow_faults(common, args),
        Bench::Redis(args) => redis::run(common, args),
        Bench::Snapshot(args) => snapshot::run(common, args),
        Bench::Command(args) => program(common, args),
        Bench::CowCheck(args) => cow_check(common, args),
        Bench::ForkSections(args) => fork_sections(common, args),
    }
}

fn fork_sections(common: &Common, args: &CellArgs<ForkSections>) -> Result<()> {
    let cells = args.cells.product(ForkSections::default())?;
    let context = Context::new(common, None)?;
    for cell in &cells {
        context.check_fits(cell.size_bytes, 0, 1)?;
    }
    finish(&context, sections::BENCH, &sections::tasks(cells), args.rounds.exactly())
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
                // As much as a calibration's.
                cell.scatter_bytes = context.scope()?.largest_bytes;
            }
            // All of it is copied once, before the forks that are measured.
            context.check_fits(cell.heap_bytes, cell.heap_bytes, 1)?;
        }
        let written = (cell.heap_bytes as f64 * cell.write_fraction) as u64;
        let children = match cell.reap {
            Reap::Each => 1,
            Reap::AtMost(alive) => alive,
            // They overlap as the scheduler likes: as many as there are CPUs write at a time.
            Reap::Never => context.facts.cpu.allowed.len() as u64 + 1,
        };
        context.check_fits(cell.heap_bytes, written, children)?;
    }
    let guard = context.policies(cells.iter().map(|cell| cell.policy))?;
    let tasks = fork_sweep::under_policies(cells, guard);
    finish(&context, fork_sweep::BENCH, &tasks, args.rounds.exactly())
}

fn fork_table(common: &Common, args: &CellArgs<ForkTable>) -> Result<()> {
    let context = Context::new(common, None)?;
    let cells = args.cells.product(ForkTable::default())?;
    for cell in &cells {
        context.check_fits(cell.size_bytes, 0, 1)?;
    }
    finish(&context, fork_table::BENCH, &fork_table::tasks(cells), args.rounds.exactly())
}

fn cow_faults(common: &Common, args: &CellArgs<CowFaults>) -> Result<()> {
    let base =
        CowFaults { page_size_bytes: base_page_bytes(), seed: common.seed, ..CowFaults::default() };
    let mut cells = args.cells.product(base)?;
    let context = Context::of_pages(common, cells.iter().map(|cell| cell.page_size_bytes))?;
    let policies: Vec<Policy> = cells.iter().map(|cell| cell.policy).collect();
    for cell in &mut cells {
        cell.pinned &= cell.children == 1;
        cell.counting = cow_faults::counting(&context.facts, cell.policy);
        cell.repetitions = cow_faults::repetitions_of(cell.pattern, cell.counting);
        cell.unmeasured = cow_faults::unmeasured(cell.writer, &policies);
    }
    check_cow_faults(&context, &cells)?;
    let guard = context.policies(policies)?;
    finish(&context, cow_faults::BENCH, &cow_faults::tasks(cells, guard), args.rounds.exactly())
}

fn program(common: &Common, args: &CommandArgs) -> Result<()> {
    let cells = args.cells.product(Commanded::default())?;
    let context = Context::new(common, None)?;
    let guard = context.policies(cells.iter().map(|cell| cell.policy))?;
    let tasks = command::tasks(&args.command, cells, guard);
    finish(&context, command::BENCH, &tasks, args.rounds.exactly())
}

fn cow_check(common: &Common, args: &Cells<CowCheck>) -> Result<()> {
    let of_pages =
        |page_size_bytes| args.product(CowCheck { page_size_bytes, ..CowCheck::default() });
    let mut cells = of_pages(base_page_bytes())?;
    let context = Context::of_pages(common, cells.iter().map(|cell| cell.page_size_bytes))?;
    // The same again where page sizes were given.
    for cell in context.huge_page().map_or(Ok(Vec::new()), of_pages)? {
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    for cell in &cells {
        let processes = u64::from(cell.children) + 1;
        if cell.size_bytes < context.page() * processes {
            let why = format!("--size-bytes must hold a page for each of {processes} processes");
            bail!(WrongUsage(why));
        }
        let children = u64::from(cell.children);
        context.check_fits(cell.size_bytes, cell.size_bytes, children)?;
    }
    finish(&context, checks::BENCH, &checks::tasks(cells), Rounds::exactly(1))
}
