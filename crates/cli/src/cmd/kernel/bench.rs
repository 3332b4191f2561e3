// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel bench`: this program's own `bench` in guests, and what they measured as an ordinary run.

use anyhow::{Context as _, Result};
use clap::ArgMatches;
use cowlab_bench::guest::Guests;
use cowlab_lab::AcceleratorChoice;
use cowlab_machine::{Facts, Root};

use super::check_policies;
use crate::args::{Bench, KernelBenchArgs};
use crate::lab::Lab;
use crate::lab::guests::{self, GuestRuns};
use crate::lab::plan::Measurement;
use crate::measure;
use crate::run_life::RunLife;
use crate::usage::WrongUsage;

/// Run the verb.
pub fn run(json: bool, args: &KernelBenchArgs, matches: &ArgMatches) -> Result<()> {
    check(args)?;
    let (name, own) = matches.subcommand().context("which measurement?")?;
    let mut measurement = Measurement::of_matches(name, own);
    check_policies(&measurement.policies(), &args.variant)?;
    let common = &args.what.run.common(json, args.what.set_mthp);
    let lab = Lab::open(json)?.of(&args.source);
    let name = format!("kernel-bench-{}", args.what.bench.name());
    let host = Facts::probe(&Root::default()).environment();
    let mut life = RunLife::begin(common, &name, host)?;
    measurement.flags.extend(args.what.set_mthp.then(|| "--set-mthp".to_owned()));
    let boots = args.boots.unwrap_or(if args.variant.len() > 1 { 2 } else { 1 });
    let accelerator = guests::ready(&lab, args.guest.settings.accelerator, &args.variant)?;
    let plan = GuestRuns {
        measurement,
        variants: &args.variant,
        boots,
        accelerator,
        guest: &args.guest.settings,
    };
    let mut guests = Guests::default();
    let ended = plan.measure(&lab, common, &mut guests);
    guests::bring(guests, &ended, &mut life.run);
    life.end(ended, |run| measure::of_guests(args.what.bench.name(), run))?.show()
}

/// Combinations that make no sense, before anything is built.
fn check(args: &KernelBenchArgs) -> Result<()> {
    let refuse = |why: String| Err(WrongUsage(why).into());
    let counting = args.guest.settings.accelerator == AcceleratorChoice::Icount;
    if counting && args.guest.settings.cpus.is_some_and(|cpus| cpus > 1) {
        return refuse("accelerator=icount counts on one CPU: leave cpus out".to_owned());
    }
    if counting && clocked(&args.what.bench) {
        return refuse(format!(
            "bench {} is of stops and rates, and a clock that counts instructions has none: leave \
             accelerator=icount out",
            args.what.bench.name()
        ));
    }
    let mut seen = Vec::new();
    for variant in &args.variant {
        if seen.contains(variant) {
            return refuse(format!("--variant names {variant} twice; --boots boots it again"));
        }
        seen.push(*variant);
    }
    Ok(())
}

/// Whether it measures stops and rates.
fn clocked(bench: &Bench) -> bool {
    matches!(bench, Bench::Snapshot(_) | Bench::Redis(_))
}

#[cfg(test)]
mod tests {

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Kernel, Verb};

    fn checked(line: &str) -> Result<(), String> {
        let words = format!("cowlab kernel bench {line}");
        let cli = Cli::try_parse_from(words.split_whitespace()).map_err(|e| e.to_string())?;
        match cli.verb {
            Some(Verb::Kernel(Kernel::Bench(args))) => {
                check(&args).map_err(|error| error.to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_measures_rates_is_not_counted_in_instructions() {
        assert_eq!(checked("cow-faults --guest accelerator=icount"), Ok(()));
        for bench in ["snapshot", "redis", "tend"] {
            assert_eq!(checked(&format!("{bench} --guest accelerator=tcg")), Ok(()));
            let why = checked(&format!("{bench} --guest accelerator=icount")).unwrap_err();
            assert!(why.contains(bench) && why.contains("leave accelerator=icount out"), "{why}");
        }
    }
}
