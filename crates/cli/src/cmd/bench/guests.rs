// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench NAME --kernel`: the same in guests, and what they measured as an ordinary run.

use anyhow::{Context as _, Result};
use clap::ArgMatches;
use cowlab_bench::guest::Guests;
use cowlab_lab::AcceleratorChoice;
use cowlab_machine::{Facts, Root};

use crate::args::{Bench, BenchArgs, GuestSettings};
use crate::lab::guests::{self, GuestRuns};
use crate::lab::plan::Measurement;
use crate::lab::{Lab, check_policies};
use crate::measure;
use crate::run_life::RunLife;
use crate::usage::WrongUsage;

pub fn run(json: bool, args: &BenchArgs, matches: &ArgMatches) -> Result<()> {
    check(args)?;
    let guest = &args.shared.kernels.guest.settings;
    let kernels = &args.shared.kernels.kernel;
    let (name, own) = matches.subcommand().context("which measurement?")?;
    let mut measurement = Measurement::of_matches(name, own);
    check_policies(&measurement.policies(), kernels)?;
    let common = &args.shared.run.common(json, args.shared.set_mthp);
    let lab = Lab::open(json)?.of(&args.shared.kernels.source);
    let host = Facts::probe(&Root::default()).environment();
    let mut life = RunLife::begin(common, &format!("bench-{name}"), host)?;
    measurement.flags.extend(args.shared.set_mthp.then(|| "--set-mthp".to_owned()));
    let plan = GuestRuns {
        measurement,
        variants: kernels,
        boots: guest.boots.unwrap_or(if kernels.len() > 1 { 2 } else { 1 }),
        accelerator: guests::ready(&lab, guest.accelerator, kernels)?,
        guest,
    };
    let mut guests = Guests::default();
    let ended = plan.measure(&lab, common, &mut guests);
    guests::bring(guests, &ended, &mut life.run);
    life.end(ended, |run| measure::of_guests(name, run))?.show()
}

/// Combinations that make no sense, before anything is built.
fn check(args: &BenchArgs) -> Result<()> {
    let refuse = |why: String| Err(WrongUsage(why).into());
    let guest = &args.shared.kernels.guest.settings;
    let counting = guest.accelerator == AcceleratorChoice::Icount;
    if counting && guest.cpus.is_some_and(|cpus| cpus > 1) {
        return refuse("accelerator=icount counts on one CPU: leave cpus out".to_owned());
    }
    if counting && matches!(args.bench, Bench::Snapshot(_) | Bench::Redis(_)) {
        return refuse(format!(
            "bench {} is of stops and rates, and a clock that counts instructions has none: leave \
             accelerator=icount out",
            args.bench.name()
        ));
    }
    for (at, kernel) in args.shared.kernels.kernel.iter().enumerate() {
        if args.shared.kernels.kernel[..at].contains(kernel) {
            return refuse(format!(
                "--kernel names {kernel} twice; --guest boots=2 boots it again"
            ));
        }
    }
    Ok(())
}

/// Refuse what is said of guests where none is booted.
pub fn check_unused(args: &BenchArgs) -> Result<()> {
    if args.shared.kernels.guest.settings != GuestSettings::default()
        || args.shared.kernels.source.source.is_some()
    {
        let why = "--guest and --source are of kernels that --kernel boots: add --kernel patched";
        return Err(WrongUsage(why.to_owned()).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Verb};

    fn checked(line: &str) -> Result<(), String> {
        let words = format!("cowlab bench --kernel patched {line}");
        let cli = Cli::try_parse_from(words.split_whitespace()).map_err(|e| e.to_string())?;
        match cli.verb {
            Some(Verb::Bench(args)) => check(&args).map_err(|error| error.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_measures_rates_is_not_counted_in_instructions() {
        assert_eq!(checked("cow-faults --guest accelerator=icount"), Ok(()));
        for bench in ["snapshot", "redis"] {
            assert_eq!(checked(&format!("{bench} --guest accelerator=tcg")), Ok(()));
            let why = checked(&format!("{bench} --guest accelerator=icount")).unwrap_err();
            assert!(why.contains(bench) && why.contains("leave accelerator=icount out"), "{why}");
        }
    }
}
