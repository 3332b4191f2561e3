// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `study`: the main job. Measures everything in rounds, fits, compares, and writes one report.

use std::time::Instant;

use anyhow::{Context as _, Result};
use cowlab_analysis::study::Study;
use cowlab_bench::guest::Guests;
use cowlab_bench::sweep::Extent;
use cowlab_bench::{Rounds, Task, calibrate, faults, points, sweep, table};
use cowlab_store::{Missing, Run, RunFolder, RunInfo};

use crate::args::StudyArgs;
use crate::cmd::bench::{isolation_tasks, kept};
use crate::cmd::calibrate::missing;
use crate::cmd::kernel::{KernelStudy, guests};
use crate::context::{Context, rounds_within};
use crate::output;
use crate::profile_file::{PROFILE_FILE, ProfileFile};

/// Rounds that measure the points which check the model.
const POINT_ROUNDS: u32 = 3;

/// How much to measure.
struct Plan {
    extent: Extent,
    rounds: Rounds,
    table_iterations: u64,
    kernel_rounds: u32,
}

impl Plan {
    fn of(args: &StudyArgs) -> Plan {
        let plan = Plan::usual(args);
        match args.rounds {
            Some(rounds) => Plan { rounds: Rounds::exactly(rounds), ..plan },
            None => plan,
        }
    }

    fn usual(args: &StudyArgs) -> Plan {
        if args.paper {
            Plan {
                extent: Extent::Paper,
                rounds: Rounds::exactly(table::PAPER_RUNS),
                table_iterations: table::PAPER_ITERATIONS,
                kernel_rounds: 20,
            }
        } else if args.full {
            Plan {
                extent: Extent::Full,
                rounds: rounds_within(8, 12, 15 * 60),
                table_iterations: 2000,
                kernel_rounds: 10,
            }
        } else {
            // Three minutes with all that comes before and after.
            Plan {
                extent: Extent::Quick,
                rounds: rounds_within(4, 6, 163),
                table_iterations: 200,
                kernel_rounds: 4,
            }
        }
    }
}

/// Run the verb.
pub fn run(json: bool, args: &StudyArgs) -> Result<()> {
    let common = &args.run.common(json, false);
    let began = Instant::now();
    // Before anything is measured: what it lacks is known at once.
    let kernel = args.kernel.then(|| KernelStudy::prepare(common, &args.guest)).transpose()?;
    let context = Context::new(common, None)?;
    let scope = context.scope()?;
    let mut info = RunInfo::begin("study", common.seed, context.facts.environment());
    info.missing = missing(&context);
    let folder = RunFolder::create(&common.output, &info)?;

    let plan = Plan::of(args);
    let tasks = tasks(&context, &plan, &mut info.missing)?;
    let mut samples = context.measure(&tasks, plan.rounds)?;
    samples.append(&mut context.cold_touch.borrow_mut());
    samples.extend(calibrate::derived(&samples, scope));
    let mut ended = Ok(());
    if let Some(kernel) = kernel {
        let mut guests = Guests::beside(info.environments);
        ended = kernel.measure(plan.kernel_rounds, &mut guests);
        samples.append(&mut guests.samples);
        info.environments = guests.environments;
        info.missing.append(&mut guests.missing);
        info.missing.extend(ended.as_ref().err().map(guests::ended_early));
    }
    info.duration_s = Some(began.elapsed().as_secs_f64());
    let run = Run { info, samples };

    let study = Study::of(&run)?;
    let document = cowlab_report::study::document(&study);
    let profile = ProfileFile::bytes(&run.info.environments[0], &study.profile)?;
    folder.write(PROFILE_FILE, &profile)?;
    folder.write("report.html", cowlab_report::html::render(&document).as_bytes())?;
    for (file, contents) in cowlab_report::csv::tables(&document) {
        folder.write(&format!("tables/{file}"), contents.as_bytes())?;
    }
    folder.write_run(&run)?;
    let written = folder.commit()?;
    ended.with_context(|| kept(&written))?;
    if common.json {
        output::json_of_run(&run, cowlab_report::study::summary(&study))?;
    } else {
        output::text(&document)?;
    }
    let report = std::path::absolute(written.join("report.html")).context("the report's path")?;
    context.say(&format!("the report is file://{}", report.display()));
    Ok(())
}

/// Everything that a study measures here; what cannot be is added to `missing`.
fn tasks(context: &Context, plan: &Plan, missing: &mut Vec<Missing>) -> Result<Vec<Task>> {
    let page = context.page();
    let scope = context.scope()?;
    let seed = context.common.seed;
    let (other_cpus, huge) = (context.other_cpus(), context.huge_page());
    let huge_page = huge.as_ref().ok().copied();
    let fits = |settings: &_| context.fits(settings);

    let mut tasks = calibrate::tasks(scope);
    tasks.extend(sweep::document_sweep(plan.extent, page, fits));
    tasks.extend(sweep::single_forks(page, fits));
    tasks.extend(sweep::growing_numbers(page));
    tasks.extend(sweep::beyond_the_document(page, other_cpus, huge_page, fits));
    tasks.extend(table::document_table(plan.table_iterations));
    tasks.extend(faults::document_workloads(page, other_cpus, huge_page, seed));
    let points = points::points(seed, page, other_cpus, scope.largest_bytes);
    tasks.extend(points::tasks(points).into_iter().map(|task| task.at_most(POINT_ROUNDS)));
    let sizes: Vec<u64> = [Some(page), huge_page].into_iter().flatten().collect();
    let children: Vec<u32> = (1..=8).collect();
    tasks.extend(isolation_tasks(&children, &sizes, 4 << 20, false));

    let mut unavailable = |metric: &str, reason: String| {
        missing.push(Missing { metric: metric.to_owned(), reason });
    };
    if let Err(reason) = huge {
        unavailable("fork-sweep, cow-faults and cow-check over THP", reason);
    }
    if !other_cpus {
        unavailable("everything with another running thread", "needs a second CPU".to_owned());
    }
    if scope.largest_bytes < 1 << 30 {
        let reason = format!("needs more free memory: heaps end at {} bytes", scope.largest_bytes);
        unavailable("heaps up to 1 GiB", reason);
    }
    Ok(tasks)
}
