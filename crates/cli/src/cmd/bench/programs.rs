// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench footprints`: what real programs write; `bench forecast`: what their forks cost, predicted
//! and measured.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use cowlab_analysis::figures::figures;
use cowlab_analysis::{application, machine};
use cowlab_bench::programs::{FOOTPRINTS, FORECAST, Program, Programs, forecast, look};
use cowlab_bench::{Rounds, calibrate};
use cowlab_machine::{Facts, Root};
use cowlab_model::profile::MachineProfile;
use cowlab_schema::footprint::{COMMAND, MAPPING, METHOD, Mapping, WHAT};
use cowlab_store::{Missing, Sample};

use crate::args::{Common, FootprintsArgs, ForecastArgs};
use crate::context::Context;
use crate::output;
use crate::profile_file::ProfileFile;
use crate::run_life::{Report, RunLife};
use crate::usage::WrongUsage;

fn programs(args: &FootprintsArgs) -> Result<Programs> {
    let own: PathBuf = std::env::current_exe().context("cannot find this program itself")?;
    Programs::read(&args.programs, &args.names, own)
}

/// What a run of programs gathers.
struct Gathered {
    samples: Vec<Sample>,
    missing: Vec<Missing>,
    /// The machine's, where it was predicted from.
    profile: Option<MachineProfile>,
}

/// Look at each program; one that fails is missing, with its reason, and the others go on.
fn gather<'a>(
    programs: &'a Programs,
    mut each: impl FnMut(&'a Program, &mut Gathered) -> Result<()>,
) -> Result<Gathered> {
    let mut gathered = Gathered { samples: Vec::new(), missing: Vec::new(), profile: None };
    for program in &programs.all {
        output::say(&format!("{}: {}", program.name, program.what));
        if let Err(error) = each(program, &mut gathered) {
            let reason = format!("{error:#}");
            output::say(&reason);
            gathered.missing.push(Missing { metric: program.name.clone(), reason });
        }
    }
    if gathered.samples.is_empty() {
        let reasons = gathered.missing.iter().map(|of| of.reason.as_str());
        bail!("no program could be looked at: {}", reasons.collect::<Vec<_>>().join("; "));
    }
    Ok(gathered)
}

/// Run `bench footprints`.
pub fn footprints(common: &Common, args: &FootprintsArgs) -> Result<()> {
    let programs = programs(args)?;
    finish(common, FOOTPRINTS, || {
        gather(&programs, |program, gathered| {
            let (mut samples, missing) = look(&programs, program)?;
            gathered.missing.extend(missing);
            name(&programs, program, &mut samples);
            gathered.samples.append(&mut samples);
            Ok(())
        })
    })
}

/// How a row is made belongs to it.
fn name(programs: &Programs, program: &Program, samples: &mut [Sample]) {
    for Sample { params, .. } in samples.iter_mut() {
        if let (Some(Mapping::All), Some(method)) = (MAPPING.of(params), METHOD.of(params)) {
            WHAT.put(params, &program.what);
            COMMAND.put(params, &programs.footprint_command(program, method.name()));
        }
    }
}

/// Run `bench forecast`.
pub fn forecasts(common: &Common, args: &ForecastArgs) -> Result<()> {
    let given = args.profile.as_deref().map(ProfileFile::read).transpose()?;
    if given.is_none() && args.rounds < 2 {
        return Err(
            WrongUsage("a calibration takes two rounds: --rounds 2, or --profile".into()).into()
        );
    }
    let mut programs = programs(&args.what)?;
    if args.what.names.is_empty() {
        programs.all.retain(|of| !of.measure.is_empty());
    }
    if let Some(unmeasured) = programs.all.iter().find(|of| of.measure.is_empty()) {
        bail!("{} has no measuring command: the list says which have", unmeasured.name);
    }
    let programs = Rc::new(programs);
    finish(common, FORECAST, || {
        let mut applications = Vec::new();
        let mut gathered = gather(&programs, |program, gathered| {
            let (mut samples, _) = look(&programs, program)?;
            let (application, _) = application::profile_of(&samples, Some(&program.program))?;
            applications.push((program, application));
            name(&programs, program, &mut samples);
            gathered.samples.append(&mut samples);
            Ok(())
        })?;
        let context = Context::new(common, None)?;
        let scope = context.scope()?;
        let failures = Rc::new(RefCell::new(Vec::new()));
        let mut tasks = if given.is_none() { calibrate::tasks(scope) } else { Vec::new() };
        for (program, _) in &applications {
            let failures = Rc::clone(&failures);
            let pairs = args.pairs.unwrap_or(program.pairs);
            tasks.push(forecast::task(
                &programs,
                program,
                pairs,
                args.rounds,
                move |name, error| {
                    let reason = format!("{error:#}");
                    output::say(&reason);
                    failures.borrow_mut().push(Missing { metric: name.to_owned(), reason });
                },
            ));
        }
        // What is compared is measured in the same rounds, and in memory as warm.
        let mut measured = context.measure(&tasks, Rounds::exactly(args.rounds))?;
        measured.extend(calibrate::derived(&measured, scope));
        let profile = match &given {
            Some(file) => file.profile.clone(),
            None => machine::profile_of(&measured, scope.page_size_bytes, scope.huge_page_bytes)?,
        };
        for (program, application) in &applications {
            let (forecast, mut lacks) = forecast::predicted(&profile, program, application)?;
            measured.extend(forecast);
            gathered.missing.append(&mut lacks);
        }
        gathered.samples.append(&mut measured);
        gathered.missing.append(&mut failures.borrow_mut());
        gathered.profile = Some(profile);
        Ok(gathered)
    })
}

fn finish(common: &Common, name: &str, work: impl FnOnce() -> Result<Gathered>) -> Result<()> {
    let facts = Facts::probe(&Root::default());
    let mut life = RunLife::begin(common, &format!("bench-{name}"), facts.environment())?;
    let gathered = work()?;
    life.run.samples = gathered.samples;
    life.run.info.missing = gathered.missing;
    let kept = life.end(Ok(()), |run| {
        let document = cowlab_report::programs::document(run).context("no program was seen")?;
        let report = Report::new(document, figures(&run.samples))?;
        Ok(Report { profile: gathered.profile, ..report })
    })?;
    kept.show()
}
