// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program's footprint, by each of its methods, as rows of one run.

use std::fs;

use anyhow::{Context, Result, bail};
use cowlab_schema::footprint;
use cowlab_store::{Missing, Run, Sample};

use super::{Program, Programs};

/// The name of this benchmark on the command line; its samples are those of `footprint`, each with
/// the parameter `name`.
pub const FOOTPRINTS: &str = "footprints";

impl Programs {
    /// The command that looks at a program by a method, as anyone can repeat it in the list's
    /// folder.
    pub fn footprint_command(&self, of: &Program, method: &str) -> String {
        let look = format!("cowlab footprint --method {method}");
        if of.looks_itself {
            return of.command.join(" ").replace("{footprint}", &look);
        }
        let mark = of.mark.as_ref().map_or_else(String::new, |mark| format!(" --mark {mark}"));
        format!("{look}{mark} -- {}", of.command.join(" "))
    }
}

/// Looks at `program` by each of its methods; of `a|b` by the first that works.
pub fn look(programs: &Programs, program: &Program) -> Result<(Vec<Sample>, Vec<Missing>)> {
    let mut samples = Vec::new();
    let mut missing = Vec::new();
    for methods in &program.methods {
        let mut refused = Vec::new();
        let mut lacks = |reason: String| {
            missing.push(Missing { metric: format!("{} by {methods}", program.name), reason });
        };
        let seen = methods.split('|').find_map(|method| {
            look_by(programs, program, method).map_err(|error| refused.push(error)).ok()
        });
        let why = refused.first().map(|error| format!("{error:#}"));
        match seen {
            None => bail!(why.unwrap_or_default()),
            Some(seen) if seen.is_empty() => {
                lacks(format!("no span {} of {} was seen", program.span, program.program));
            }
            Some(seen) => samples.extend(seen),
        }
        why.into_iter().for_each(lacks);
    }
    Ok((samples, missing))
}

fn look_by(programs: &Programs, program: &Program, method: &str) -> Result<Vec<Sample>> {
    let output = tempfile::tempdir_in(programs.scratch.path())?;
    let mut words = vec![
        programs.cowlab.to_string_lossy().into_owned(),
        "footprint".to_owned(),
        "--output".to_owned(),
        output.path().to_string_lossy().into_owned(),
        "--method".to_owned(),
        method.to_owned(),
    ];
    if let Some(mark) = &program.mark {
        words.extend(["--mark".to_owned(), mark.clone()]);
    }
    let command = programs.words(&program.command);
    if program.looks_itself {
        let each = command.iter().flat_map(|word| match word.as_str() {
            "{footprint}" => words.clone(),
            _ => vec![word.clone()],
        });
        words = each.collect();
    } else {
        words.push("--".to_owned());
        words.extend(command);
    }
    programs.run(&program.name, &words)?;
    let folder = fs::read_dir(output.path())?.flatten().next();
    let folder = folder.context("the footprint left no run")?.path();
    let meant = Run::read(&folder)?.samples.into_iter().filter(|s| is_meant(s, program));
    let named = meant.map(|mut sample| {
        footprint::NAME.put(&mut sample.params, &program.name);
        sample
    });
    Ok(named.collect())
}

/// Its own spans, and policies replayed over them.
fn is_meant(sample: &Sample, program: &Program) -> bool {
    let is = |key: &str, value: &str| sample.params.get(key).is_none_or(|of| of == value);
    let has = |key: &str| sample.params.contains_key(key);
    let (of_program, of_policy) = (footprint::PROGRAM.name(), footprint::POLICY.name());
    sample.bench == footprint::BENCH.name
        && is(of_program, &program.program)
        && is(footprint::SPAN.name(), &program.span)
        && (has(of_program) || has(of_policy))
}
