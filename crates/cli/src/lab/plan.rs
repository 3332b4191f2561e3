// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest measures, as a file in the folder that it shares: the one way in which a guest is
//! told anything.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{ArgMatches, CommandFactory, parser::ValueSource};
use cowlab_machine::Policy;
use serde::{Deserialize, Serialize};

use crate::args::Cli;

/// The file's name in the guest's folder.
const FILE: &str = "plan.json";

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// `bench` with its name, or `study` with a paper's.
    pub verb: [String; 2],
    /// What it is asked: `--FLAG=VALUE`, or `--FLAG`.
    pub flags: Vec<String>,
    /// The program that is measured, and its arguments.
    pub command: Vec<OsString>,
}

/// A measurement, and where its run goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestPlan {
    /// What is measured.
    pub measurement: Measurement,
    /// Folder that the run is kept in.
    pub output: PathBuf,
    /// Seed of every random choice.
    pub seed: u64,
}

impl Measurement {
    /// `bench NAME`, or `study PAPER`, with nothing set.
    pub fn new(verb: &str, name: &str) -> Measurement {
        let verb = [verb.to_owned(), name.to_owned()];
        Measurement { verb, flags: Vec::new(), command: Vec::new() }
    }

    /// With a flag.
    pub fn with(mut self, flag: &str, value: impl ToString) -> Measurement {
        self.flags.push(format!("--{flag}={}", value.to_string()));
        self
    }

    /// What of a command line is the measurement's own.
    pub fn of_matches(name: &str, matches: &ArgMatches) -> Measurement {
        let mut measurement = Measurement::new("bench", name);
        let all = Cli::command();
        let own = all.find_subcommand("bench").and_then(|bench| bench.find_subcommand(name));
        for arg in own.into_iter().flat_map(clap::Command::get_arguments) {
            let id = arg.get_id().as_str();
            if !matches!(matches.value_source(id), Some(ValueSource::CommandLine)) {
                continue;
            }
            let values = matches.get_raw(id).into_iter().flatten();
            match arg.get_long() {
                None => measurement.command.extend(values.map(OsString::from)),
                Some(flag) => {
                    let told = |value: &OsStr| format!("--{flag}={}", value.to_string_lossy());
                    measurement.flags.extend(values.map(told));
                }
            }
        }
        measurement
    }

    /// The policies that it names.
    pub fn policies(&self) -> Vec<Policy> {
        let named = self.flags.iter().filter_map(|flag| flag.strip_prefix("--policy="));
        named.filter_map(|name| name.parse().ok()).collect()
    }

    /// The same for a kernel that has one policy, `off`, whatever the others are measured under.
    pub fn without_policies(mut self) -> Measurement {
        let known = self.flags.len();
        self.flags.retain(|flag| !flag.starts_with("--policy="));
        if self.flags.len() < known { self.with("policy", "off") } else { self }
    }
}

impl GuestPlan {
    /// Write it into `folder`; where it is.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(FILE);
        fs::write(&path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Read one, as the command line that it stands for.
    pub fn read(path: &Path) -> Result<Vec<OsString>> {
        let place = || format!("{} is no plan", path.display());
        let plan: GuestPlan =
            serde_json::from_slice(&fs::read(path).with_context(place)?).with_context(place)?;
        let Measurement { verb, flags, command } = plan.measurement;
        let mut words: Vec<OsString> = vec!["cowlab".into()];
        words.extend(verb.map(OsString::from));
        words.extend(flags.into_iter().map(OsString::from));
        words.extend(["--output".into(), plan.output.into()]);
        words.extend(["--seed".into(), plan.seed.to_string().into()]);
        if !command.is_empty() {
            words.push("--".into());
            words.extend(command);
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(line: &str) -> Measurement {
        let words = format!("cowlab kernel bench {line}");
        let matches = Cli::command().try_get_matches_from(words.split_whitespace()).unwrap();
        let (_, kernel) = matches.subcommand().unwrap();
        let (_, bench) = kernel.subcommand().unwrap();
        let (name, own) = bench.subcommand().unwrap();
        Measurement::of_matches(name, own)
    }

    #[test]
    fn a_plan_says_what_is_the_measurements_own() {
        let folder = tempfile::tempdir().unwrap();
        let words = |measurement| {
            let plan = GuestPlan { measurement, output: "out".into(), seed: 7 };
            let words = GuestPlan::read(&plan.write(folder.path()).unwrap()).unwrap();
            let words: Vec<String> =
                words.into_iter().map(|word| word.into_string().unwrap()).collect();
            words.join(" ").replace(" --output out --seed 7", "")
        };
        for (line, expected) in [
            (
                "--variant plain,patched cow-faults --guest memory=1GiB --rounds 3 --seed 9 --json",
                "cowlab bench cow-faults --rounds=3",
            ),
            (
                "--output x command --guest accelerator=tcg --rounds 2 -- make --variant x -j2",
                "cowlab bench command --rounds=2 -- make --variant x -j2",
            ),
            ("cow-faults", "cowlab bench cow-faults"),
        ] {
            assert_eq!(words(matches(line)), expected, "{line}");
        }
        let policies = matches("cow-faults --policy off,next --policy ccow");
        assert_eq!(policies.flags, ["--policy=off", "--policy=next", "--policy=ccow"]);
        assert_eq!(policies.policies().len(), 3);
        assert_eq!(policies.without_policies().flags, ["--policy=off"]);
        let other = matches("tend --tending tended");
        assert_eq!(other.clone().without_policies(), other);
        let written = Measurement::new("study", "ccow").with("set", "load=0.5").with("set", "x=1");
        assert_eq!(words(written), "cowlab study ccow --set=load=0.5 --set=x=1");
        assert!(GuestPlan::read(Path::new("/proc/self/exe")).is_err());
    }
}
