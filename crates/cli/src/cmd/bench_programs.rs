// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench footprints`: what real programs write; `bench forecast`: what their forks cost, predicted
//! and measured.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use cowlab_bench::application::profile_of;
use cowlab_bench::programs::{FOOTPRINTS, FORECAST, Programs, forecast, look, measure};
use cowlab_machine::{Facts, Root};
use cowlab_probes::unix_ns;
use cowlab_report::figures::figures;
use cowlab_report::{csv, html, study};
use cowlab_store::{Missing, Run, RunFolder, RunInfo, Sample};

use crate::args::{Common, FootprintsArgs, ForecastArgs};
use crate::cmd::calibrate::ProfileFile;
use crate::output;

fn programs(args: &FootprintsArgs) -> Result<Programs> {
    let own: PathBuf = std::env::current_exe().context("cannot find this program itself")?;
    Programs::read(&args.programs, &args.names, own)
}

/// What a run of programs gathers.
struct Gathered {
    samples: Vec<Sample>,
    missing: Vec<Missing>,
}

/// Look at each program; one that fails is missing, with its reason, and the others go on.
fn gather(
    programs: &Programs,
    each: impl Fn(&cowlab_bench::programs::Program, &mut Gathered) -> Result<()>,
) -> Result<Gathered> {
    let mut gathered = Gathered { samples: Vec::new(), missing: Vec::new() };
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
fn name(programs: &Programs, program: &cowlab_bench::programs::Program, samples: &mut [Sample]) {
    for sample in samples.iter_mut().filter(|s| s.params.get("mapping").is_some_and(|m| m == "all"))
    {
        let method = sample.params.get("method").cloned().unwrap_or_default();
        sample.params.insert("what".to_owned(), program.what.clone());
        sample.params.insert("command".to_owned(), programs.footprint_command(program, &method));
    }
}

/// Run `bench forecast`.
pub fn forecasts(common: &Common, args: &ForecastArgs) -> Result<()> {
    let (_, file) = match &args.profile {
        Some(path) => (path.clone(), ProfileFile::read(path)?),
        None => ProfileFile::newest(&common.output)?,
    };
    let mut programs = programs(&args.what)?;
    if args.what.names.is_empty() {
        programs.all.retain(|of| !of.measure.is_empty());
    }
    if let Some(unmeasured) = programs.all.iter().find(|of| of.measure.is_empty()) {
        bail!("{} has no measuring command: the list says which have", unmeasured.name);
    }
    finish(common, FORECAST, || {
        gather(&programs, |program, gathered| {
            let start_unix_ns = unix_ns();
            let (samples, _) = look(&programs, program)?;
            let (application, _) = profile_of(&samples, Some(&program.program))?;
            let cost = measure(&programs, program, args.pairs.unwrap_or(0))?;
            let forecasts = forecast(&file.profile, program, &application, &cost, start_unix_ns)?;
            let mut samples = samples;
            name(&programs, program, &mut samples);
            gathered.samples.append(&mut samples);
            gathered.samples.extend(forecasts);
            Ok(())
        })
    })
}

fn finish(common: &Common, name: &str, work: impl FnOnce() -> Result<Gathered>) -> Result<()> {
    let facts = Facts::probe(&Root::default());
    let mut info = RunInfo::begin(&format!("bench-{name}"), common.seed, facts.environment());
    let folder = RunFolder::create(&common.output, &info)?;
    let began = Instant::now();
    let Gathered { samples, missing } = work()?;
    info.duration_s = Some(began.elapsed().as_secs_f64());
    info.missing = missing;
    let run = Run { info, samples };
    let document = study::programs::document(&run).context("no program was seen")?;
    folder.write_run(&run)?;
    for (file, contents) in csv::tables(&document) {
        folder.write(&format!("tables/{file}"), contents.as_bytes())?;
    }
    folder.write("report.html", html::render(&document).as_bytes())?;
    output::say(&format!("the run is {}", folder.commit()?.display()));
    if common.json {
        return output::json_of_run(&run, figures(&run.samples));
    }
    output::text(&document)
}
