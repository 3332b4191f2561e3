// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel bench`: this program's own `bench` in guests, and what they measured as an ordinary run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use cowlab_analysis::figures::figures;
use cowlab_bench::guest::Guests;
use cowlab_lab::{Variant, Wanted};
use cowlab_machine::{Facts, Root};
use cowlab_store::Run;

use crate::args::{Bench, Common, KernelBenchArgs};
use crate::lab::Lab;
use crate::lab::guests::{self, Plan};
use crate::measure;
use crate::run_life::{Report, RunLife};
use crate::usage::WrongUsage;

/// Run the verb.
pub fn run(json: bool, args: &KernelBenchArgs) -> Result<()> {
    check(args)?;
    let common = &args.what.run.common(json, args.what.set_mthp);
    let lab = Lab::open(json, &args.guest.place)?;
    let name = format!("kernel-bench-{}", args.what.bench.name());
    let host = Facts::probe(&Root::default()).environment();
    let mut life = RunLife::begin(common, &name, host)?;
    let words = guest_words(std::env::args_os().skip(1), common);
    let boots = args.boots.unwrap_or(if args.variant.len() > 1 { 2 } else { 1 });
    let accelerator = guests::ready(&lab, args.guest.accelerator.wanted(), &args.variant)?;
    let plan = Plan { words, variants: &args.variant, boots, accelerator, guest: &args.guest };
    let mut guests = Guests::default();
    let ended = plan.measure(&lab, common, &mut guests);
    guests::bring(guests, &ended, &mut life.run);
    life.end(ended, |run| report(args.what.bench.name(), run))?.show()
}

/// Its own report, that of a kernel under policies, or a table of everything.
fn report(name: &str, run: &Run) -> Result<Report> {
    match (cowlab_report::of_bench(run), cowlab_report::kernel::document(run)) {
        (None, Some(document)) => Report::new(document, figures(&run.samples)),
        _ => measure::report(name, run),
    }
}

/// Combinations that make no sense, before anything is built.
fn check(args: &KernelBenchArgs) -> Result<()> {
    let refuse = |why: String| Err(WrongUsage(why).into());
    let counting = args.guest.accelerator.wanted() == Wanted::Icount;
    if counting && args.guest.cpus.is_some_and(|cpus| cpus > 1) {
        return refuse("--accelerator icount counts on one CPU: leave --cpus out".to_owned());
    }
    if counting && clocked(&args.what.bench) {
        return refuse(format!(
            "bench {} is of stops and rates, and a clock that counts instructions has none: leave \
             --accelerator icount out",
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
    if matches!(args.what.bench, Bench::PreCopy(_) | Bench::Ccow(_))
        && seen.contains(&Variant::Plain)
    {
        return refuse(
            "the plain kernel has no policy that copies ahead: leave it out of --variant, or \
                       measure cow-faults"
                .to_owned(),
        );
    }
    Ok(())
}

/// Whether it measures stops and rates.
fn clocked(bench: &Bench) -> bool {
    matches!(bench, Bench::Snapshot(_) | Bench::Redis(_) | Bench::Ccow(_) | Bench::Tend(_))
}

/// Flags of `kernel bench` and of every verb that are not the guest's, and whether a value follows.
const OURS: [(&str, bool); 12] = [
    ("--json", false),
    ("--output", true),
    ("--seed", true),
    ("--variant", true),
    ("--boots", true),
    ("--memory", true),
    ("--cpus", true),
    ("--accelerator", true),
    ("--time-limit-s", true),
    ("--cache", true),
    ("--kernel-dir", true),
    ("--set-mthp", false),
];

/// The guest's part of this command line: `bench NAME` with that measurement's own flags.
pub fn guest_words(all: impl IntoIterator<Item = OsString>, common: &Common) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut all = all.into_iter();
    // Up to `bench`, every word is a flag of ours or the verb `kernel`.
    while let Some(word) = all.next() {
        match ours(&word) {
            Some(true) => drop(all.next()),
            Some(false) => {}
            None if word == "--" => {
                words.push(word);
                words.extend(all.by_ref());
            }
            None if word == "kernel" && !words.iter().any(|word| word == "bench") => {}
            None => {
                words.push(word);
                if common.set_mthp && words.len() == 1 {
                    words.push("--set-mthp".into());
                }
            }
        }
    }
    words
}

/// Whether the word is one of [`OURS`], and whether its value is the next word.
fn ours(word: &OsStr) -> Option<bool> {
    OURS.iter().find_map(|(flag, takes_value)| {
        let rest = word.as_bytes().strip_prefix(flag.as_bytes())?;
        match rest.first() {
            None => Some(*takes_value),
            Some(b'=') => Some(false),
            Some(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Kernel, Verb};

    fn common(set_mthp: bool) -> Common {
        Common { json: false, output: PathBuf::from("runs"), seed: 1, set_mthp }
    }

    fn checked(line: &str) -> Result<(), String> {
        let words = format!("cowlab kernel bench {line}");
        let cli = Cli::try_parse_from(words.split_whitespace()).map_err(|e| e.to_string())?;
        match cli.verb {
            Verb::Kernel(Kernel::Bench(args)) => check(&args).map_err(|error| error.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_measures_rates_is_not_counted_in_instructions() {
        assert_eq!(checked("cow-faults --accelerator icount"), Ok(()));
        for bench in ["snapshot", "redis", "ccow", "tend"] {
            assert_eq!(checked(&format!("{bench} --accelerator tcg")), Ok(()));
            let why = checked(&format!("{bench} --accelerator icount")).unwrap_err();
            assert!(why.contains(bench) && why.contains("leave --accelerator icount out"), "{why}");
        }
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_guest_gets_the_measurements_own_flags() {
        for (line, expected) in [
            ("kernel bench cow-faults --policy off,next", "bench cow-faults --policy off,next"),
            (
                "--json --output=x kernel --cache c bench --variant plain,patched cow-faults \
                 --memory 1GiB --rounds 3 --seed 7 --cpus=1",
                "bench cow-faults --rounds 3",
            ),
            (
                "kernel bench command --accelerator tcg --rounds 2 -- make --variant x -j2",
                "bench command --rounds 2 -- make --variant x -j2",
            ),
        ] {
            assert_eq!(guest_words(words(line), &common(false)), words(expected), "{line}");
        }
        let line = "kernel bench cow-faults --set-mthp";
        assert_eq!(guest_words(words(line), &common(true)), words("bench --set-mthp cow-faults"));
    }
}
