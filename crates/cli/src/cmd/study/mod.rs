// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `study`: the main job. Measures everything in rounds, fits, compares, and writes one report.

pub mod casper;
pub mod ccow;
pub mod next_page;

use anyhow::Result;
use cowlab_analysis::study::Study;
use cowlab_bench::guest::Guests;
use cowlab_bench::sweep::Extent;
use cowlab_bench::{Rounds, Task, calibrate, faults, points, sweep, table};

use crate::args::StudyArgs;
use crate::calibration;
use crate::context::{Context, rounds_within};
use crate::lab::guests;
use crate::measure::isolation_tasks;
use crate::run_life::{Report, RunLife};
use next_page::KernelStudy;

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
    // Before anything is measured: what it lacks is known at once.
    let kernel = args.kernel.then(|| KernelStudy::prepare(common, &args.guest)).transpose()?;
    let context = Context::new(common, None)?;
    let scope = context.scope()?;
    let mut life = RunLife::begin(common, "study", context.facts.environment())?;
    calibration::note_missing(&context, &mut life);
    let plan = Plan::of(args);
    let tasks = tasks(&context, &plan, &mut life)?;
    let mut samples = context.measure(&tasks, plan.rounds)?;
    samples.append(&mut context.cold_touch.borrow_mut());
    samples.extend(calibrate::derived(&samples, scope));
    life.run.samples = samples;
    let mut ended = Ok(());
    if let Some(kernel) = kernel {
        let mut guests = Guests::beside(life.run.info.environments.clone());
        ended = kernel.measure(plan.kernel_rounds, &mut guests);
        guests::bring(guests, &ended, &mut life.run);
    }
    let kept = life.end(ended, |run| {
        let study = Study::of(run)?;
        let report = Report::new(
            cowlab_report::study::document(&study),
            cowlab_report::study::summary(&study),
        )?;
        Ok(Report { profile: Some(study.profile.clone()), ..report })
    })?;
    kept.print()?;
    let page = kept.file("report.html")?;
    context.say(&format!("the report is file://{}", page.display()));
    Ok(())
}

/// Everything that a study measures here; what cannot be is added to `missing`.
fn tasks(context: &Context, plan: &Plan, life: &mut RunLife) -> Result<Vec<Task>> {
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

    if let Err(reason) = huge {
        life.lacks("fork-sweep, cow-faults and cow-check over THP", reason);
    }
    if !other_cpus {
        life.lacks("everything with another running thread", "needs a second CPU".to_owned());
    }
    if scope.largest_bytes < 1 << 30 {
        let reason = format!("needs more free memory: heaps end at {} bytes", scope.largest_bytes);
        life.lacks("heaps up to 1 GiB", reason);
    }
    Ok(tasks)
}
