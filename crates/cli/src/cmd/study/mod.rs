// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `study`: the main job. Measures everything in rounds, fits, compares, and writes one report.

mod ccow;
mod fork_sections;
mod next_page;
mod running;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cowlab_analysis::precision::FEWEST_ROUNDS;
use cowlab_analysis::study::Study;
use cowlab_bench::fork_sweep::Extent;
use cowlab_bench::guest::Guests;
use cowlab_bench::{
    Rounds, Task, calibrate, cow_check, cow_faults, fork_sweep, fork_table, points,
};
use cowlab_lab::Variant;
use cowlab_machine::{Facts, Root, thp};
use cowlab_report::study;
use cowlab_schema::cow_check::CowCheck;
use cowlab_store::Accelerator;

use crate::args::{Common, Paper, StudyArgs};
use crate::calibration;
use crate::context::Context;
use crate::lab::plan::Measurement;
use crate::lab::{Lab, guests};
use crate::measure;
use crate::run_life::{Report, RunLife};
use crate::usage::WrongUsage;

struct StudyPlan {
    extent: Extent,
    rounds: Rounds,
    /// Of the points which check the model.
    point_rounds: u32,
    table_iterations: u64,
}

impl StudyPlan {
    fn of(args: &StudyArgs) -> StudyPlan {
        let plan = StudyPlan::usual(args);
        match args.rounds {
            Some(rounds) => StudyPlan { rounds: Rounds::exactly(rounds), ..plan },
            None => plan,
        }
    }

    fn usual(args: &StudyArgs) -> StudyPlan {
        // Three minutes with all that comes before and after.
        let quick = StudyPlan {
            extent: Extent::Short,
            rounds: Rounds { least: 4, most: 6, within: Duration::from_secs(163) },
            point_rounds: 3,
            table_iterations: 200,
        };
        if args.full {
            let within = Duration::from_secs(12 * 60);
            let rounds = Rounds { least: FEWEST_ROUNDS as u32, most: 1000, within };
            StudyPlan { rounds, point_rounds: u32::MAX, ..quick }
        } else if args.quick || args.paper.is_none() {
            quick
        } else {
            StudyPlan {
                extent: Extent::Paper,
                rounds: Rounds::exactly(fork_table::PAPER_RUNS),
                table_iterations: fork_table::PAPER_ITERATIONS,
                ..quick
            }
        }
    }
}

pub fn run(json: bool, args: &StudyArgs) -> Result<()> {
    let common = &args.run.common(json, args.set_mthp);
    match args.paper {
        Some(Paper::ForkSections) => fork_sections::run(common, args),
        Some(Paper::NextPage) => next_page::run(common, args),
        Some(Paper::Ccow) => ccow::run(common, args),
        Some(Paper::SmithMaguire | Paper::Tlpi) | None => on_this_machine(common, args),
    }
}

/// What needs no kernel of its own: of one paper, or everything.
fn on_this_machine(common: &Common, args: &StudyArgs) -> Result<()> {
    if let Some(set) = args.set.first() {
        bail!(WrongUsage(format!("--set {set}: this study takes no settings")));
    }
    if args.rounds == Some(1) {
        bail!(WrongUsage("--rounds: a calibration takes two at least".to_owned()));
    }
    let context =
        Context::new(common, thp::Thp::read(&Root::default()).and_then(|of| of.pmd_size_bytes))?;
    let scope = context.scope()?;
    let name = match args.paper {
        Some(Paper::SmithMaguire) => "study-smith-maguire",
        Some(_) => "study-tlpi",
        None => "study",
    };
    let mut life = RunLife::begin(common, name, context.facts.environment())?;
    calibration::note_missing(&context, &mut life);
    let plan = StudyPlan::of(args);
    let beside = args.paper.is_none().then(|| running::samples(&context.facts));
    let tasks = match args.paper {
        Some(paper) => paper_tasks(&context, paper, &plan)?,
        None => tasks(&context, &plan, &mut life)?,
    };
    let mut samples = context.measure(&tasks, plan.rounds)?;
    samples.append(&mut context.cold_touch.borrow_mut());
    samples.extend(calibrate::derived(&samples, scope));
    samples.extend(beside.into_iter().flatten());
    life.run.samples = samples;
    let kept = life.end(Ok(()), |run| {
        let study = Study::of(run)?;
        let report = Report::new(study::document(&study), study::summary(&study))?;
        Ok(Report { profile: Some(study.profile.clone()), ..report })
    })?;
    kept.print_findings(args.tables)
}

/// What one of the papers measured, and what the machine profile needs.
fn paper_tasks(context: &Context, paper: Paper, plan: &StudyPlan) -> Result<Vec<Task>> {
    let page = context.page();
    let fits = |settings: &_| context.fits(settings);
    let mut tasks = calibrate::tasks(context.scope()?);
    if paper == Paper::Tlpi {
        tasks.extend(fork_table::document_table(plan.table_iterations));
    } else {
        tasks.extend(fork_sweep::document_sweep(plan.extent, page, fits));
        tasks.extend(fork_sweep::single_forks(page, fits));
        tasks.extend(fork_sweep::growing_numbers(page));
    }
    Ok(tasks)
}

/// A measurement, the kernels that are booted for it, how often, and by whom if that is not asked.
type InGuests<'a> = (Measurement, &'a [Variant], u32, Option<Accelerator>);

/// The same study in a guest.
fn in_guest(args: &StudyArgs, paper: &str) -> Measurement {
    args.set.iter().fold(Measurement::new("study", paper), |study, set| study.with("set", set))
}

/// Measure in guests, as a run with the report of bench `name`.
fn in_guests(
    common: &Common,
    args: &StudyArgs,
    name: &str,
    measurements: &[InGuests<'_>],
) -> Result<()> {
    let lab = Lab::open(common.json)?;
    let mut variants: Vec<Variant> = measurements.iter().flat_map(|one| one.1).copied().collect();
    variants.dedup();
    let guest = &args.guest.settings;
    let wanted = guests::ready(&lab, guest.accelerator, &variants)
        .context("this kernel lacks the paper's policy, and so a guest is needed")?;
    let host = Facts::probe(&Root::default()).environment();
    let mut life = RunLife::begin(common, &format!("study-{name}"), host)?;
    let mut guests = Guests::default();
    let measure = |(measurement, variants, boots, accelerator): &InGuests<'_>, guests: &mut _| {
        let plan = guests::GuestRuns {
            measurement: measurement.clone(),
            variants,
            boots: *boots,
            accelerator: accelerator.unwrap_or(wanted),
            guest,
        };
        plan.measure(&lab, common, guests)
    };
    let ended = measurements.iter().try_for_each(|one| measure(one, &mut guests));
    if guests.samples.is_empty() {
        ended?;
        bail!("the guests measured nothing");
    }
    guests::bring(guests, &ended, &mut life.run);
    life.end(ended, |run| measure::of_guests(name, run))?.print_findings(args.tables)
}

/// Everything that a study measures here; what cannot be is added to `missing`.
fn tasks(context: &Context, plan: &StudyPlan, life: &mut RunLife) -> Result<Vec<Task>> {
    let page = context.page();
    let scope = context.scope()?;
    let seed = context.common.seed;
    let (other_cpus, huge) = (context.other_cpus(), context.huge_page());
    let huge_page = huge.as_ref().ok().copied();
    let fits = |settings: &_| context.fits(settings);

    let mut tasks = calibrate::tasks(scope);
    tasks.extend(fork_sweep::document_sweep(plan.extent, page, fits));
    tasks.extend(fork_sweep::single_forks(page, fits));
    tasks.extend(fork_sweep::growing_numbers(page));
    tasks.extend(fork_sweep::variant_tasks(page, other_cpus, huge_page, fits));
    let folios = context.folios();
    let sizes: Vec<u64> =
        [folios.as_ref().ok().copied(), huge_page].into_iter().flatten().collect();
    tasks.extend(fork_sweep::stop_tasks(&sizes, context.common.set_mthp, fits));
    tasks.extend(fork_table::document_table(plan.table_iterations));
    tasks.extend(cow_faults::document_workloads(page, other_cpus, huge_page, seed));
    let points = points::points(seed, page, other_cpus, scope.largest_bytes);
    tasks.extend(points::tasks(points).into_iter().map(|task| task.at_most(plan.point_rounds)));
    let sizes: Vec<u64> = [Some(page), huge_page].into_iter().flatten().collect();
    let checks = sizes.into_iter().flat_map(|page_size_bytes| {
        let of = move |children| CowCheck {
            children,
            page_size_bytes,
            size_bytes: 4 << 20,
            ..CowCheck::default()
        };
        (1..=8).map(of)
    });
    tasks.extend(cow_check::tasks(checks));

    if let Err(reason) = huge {
        life.lacks("fork-sweep, cow-faults and cow-check over THP", reason);
    }
    if let Err(reason) = folios {
        life.lacks("fork-sweep over pages of 64 KiB", reason);
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
