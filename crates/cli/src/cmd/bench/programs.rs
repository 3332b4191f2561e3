// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench footprints`: what real programs write.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use cowlab_analysis::figures::figures;
use cowlab_bench::programs::{FOOTPRINTS, Program, Programs, look};
use cowlab_machine::{Facts, Root};
use cowlab_schema::footprint::{COMMAND, MAPPING, METHOD, Mapping, WHAT};
use cowlab_store::{Missing, Run, Sample};

use crate::args::{Common, FootprintsArgs};
use crate::output;
use crate::run_life::{Report, RunLife};

/// Look at each program; one that fails is missing, with its reason, and the others go on.
pub fn footprints(common: &Common, args: &FootprintsArgs) -> Result<()> {
    let own: PathBuf = std::env::current_exe().context("cannot find this program itself")?;
    let programs = Programs::read(&args.programs, &args.names, own)?;
    let facts = Facts::probe(&Root::default());
    let mut life = RunLife::begin(common, &format!("bench-{FOOTPRINTS}"), facts.environment())?;
    for program in &programs.all {
        output::say(&format!("{}: {}", program.name, program.what));
        if let Err(error) = add(&programs, program, &mut life.run) {
            let reason = format!("{error:#}");
            output::say(&reason);
            life.run.info.missing.push(Missing { metric: program.name.clone(), reason });
        }
    }
    if life.run.samples.is_empty() {
        let reasons: Vec<_> = life.run.info.missing.iter().map(|of| of.reason.as_str()).collect();
        bail!("no program could be looked at: {}", reasons.join("; "));
    }
    let kept = life.end(Ok(()), |run| {
        let document = cowlab_report::programs::document(run).context("no program was seen")?;
        Report::new(document, figures(&run.samples))
    })?;
    kept.show()
}

fn add(programs: &Programs, program: &Program, run: &mut Run) -> Result<()> {
    let (mut samples, missing) = look(programs, program)?;
    run.info.missing.extend(missing);
    for Sample { params, .. } in samples.iter_mut() {
        // How a row is made belongs to it.
        if let (Some(Mapping::All), Some(method)) = (MAPPING.of(params), METHOD.of(params)) {
            WHAT.put(params, &program.what);
            COMMAND.put(params, &programs.footprint_command(program, method.name()));
        }
    }
    run.samples.append(&mut samples);
    Ok(())
}
