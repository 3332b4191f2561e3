// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest measures, as the words of a command line.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{ArgMatches, CommandFactory, parser::ValueSource};
use cowlab_machine::Policy;

use crate::args::Cli;

#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// `bench` with its name, or `study` with a paper's.
    pub verb: [String; 2],
    /// What it is asked: `--FLAG=VALUE`, or `--FLAG`.
    pub flags: Vec<String>,
    /// The program that is measured, and its arguments.
    pub command: Vec<OsString>,
}

impl Measurement {
    /// `bench NAME`, or `study PAPER`, with nothing set.
    pub fn new(verb: &str, name: &str) -> Measurement {
        let verb = [verb.to_owned(), name.to_owned()];
        Measurement { verb, flags: Vec::new(), command: Vec::new() }
    }

    pub fn with(mut self, flag: &str, value: impl ToString) -> Measurement {
        self.flags.push(format!("--{flag}={}", value.to_string()));
        self
    }

    /// What of a command line is the measurement's own.
    pub fn of_matches(name: &str, matches: &ArgMatches) -> Measurement {
        let mut measurement = Measurement::new("bench", name);
        let all = Cli::command();
        let own = all.find_subcommand("bench").and_then(|bench| bench.find_subcommand(name));
        let own = own.into_iter().flat_map(clap::Command::get_arguments);
        // What every measurement takes is hidden in each.
        for arg in own.filter(|arg| !arg.is_hide_set()) {
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

    /// What cowlab is told to measure it and to keep the run in `output`.
    pub fn words(&self, output: &Path, seed: u64) -> Vec<OsString> {
        let mut words: Vec<OsString> = self.verb.iter().map(OsString::from).collect();
        words.extend(self.flags.iter().map(OsString::from));
        words.extend(["--output".into(), output.into()]);
        words.extend(["--seed".into(), seed.to_string().into()]);
        if !self.command.is_empty() {
            words.push("--".into());
            words.extend_from_slice(&self.command);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(line: &str) -> Measurement {
        let words = format!("cowlab bench {line}");
        let matches = Cli::command().try_get_matches_from(words.split_whitespace()).unwrap();
        let (_, bench) = matches.subcommand().unwrap();
        let (name, own) = bench.subcommand().unwrap();
        Measurement::of_matches(name, own)
    }

    #[test]
    fn a_guest_is_told_what_is_the_measurements_own() {
        let words = |measurement: Measurement| {
            let words = measurement.words(Path::new("out"), 7).into_iter();
            let words: Vec<String> = words.map(|word| word.into_string().unwrap()).collect();
            words.join(" ").replace(" --output out --seed 7", "")
        };
        for (line, expected) in [
            (
                "--kernel plain,patched cow-faults --guest memory=1GiB --rounds 3 --seed 9 --json",
                "bench cow-faults --rounds=3",
            ),
            (
                "--output x command --guest accelerator=tcg --rounds 2 -- make --kernel x -j2",
                "bench command --rounds=2 -- make --kernel x -j2",
            ),
            ("cow-faults --kernel patched", "bench cow-faults"),
        ] {
            assert_eq!(words(matches(line)), expected, "{line}");
        }
        let policies = matches("cow-faults --policy off,next --policy ccow");
        assert_eq!(policies.flags, ["--policy=off", "--policy=next", "--policy=ccow"]);
        assert_eq!(policies.policies().len(), 3);
        assert_eq!(policies.without_policies().flags, ["--policy=off"]);
        let other = matches("fork-sweep --forks 3");
        assert_eq!(other.clone().without_policies(), other);
        let written = Measurement::new("study", "ccow").with("set", "load=0.5").with("set", "x=1");
        assert_eq!(words(written), "study ccow --set=load=0.5 --set=x=1");
    }
}
