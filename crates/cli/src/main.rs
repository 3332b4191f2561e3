// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cowlab command: what fork() and copy-on-write cost, and how to pay less.

mod args;
mod calibration;
mod cmd;
mod context;
mod diagnosis;
mod fullscreen;
mod lab;
mod measure;
mod mistakes;
mod output;
mod profile_file;
mod progress;
mod recorded;
mod run_life;
mod serve;
mod signals;
mod sinks;

use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use cowlab_bench::probes::Interrupted;
use cowlab_document::usage;
use cowlab_machine::{LeftBehind, Root, left_behind};

use crate::args::{Cli, Verb};

fn main() -> ExitCode {
    output::begin("cowlab");
    // A third of the time that it took went into the flags of 50 verbs.
    if std::env::args_os().skip(1).eq(["--version"]) {
        return ended(output::print(concat!("cowlab ", env!("CARGO_PKG_VERSION"), "\n")));
    }
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let matches = Cli::command().try_get_matches();
    ended(dispatch(&matches.unwrap_or_else(|error| mistakes::hinted(error, &words).exit())))
}

/// Do what a command line says.
fn dispatch(matches: &ArgMatches) -> Result<()> {
    let Cli { json, verb } = Cli::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
    for LeftBehind { setting, value } in left_behind(&Root::default()) {
        output::say(&format!(
            "{} is not as it was before a cowlab was killed: `echo {value} > {0}` puts it back",
            setting.display()
        ));
    }
    let Some(verb) = verb else { return cmd::overview::run(json) };
    match verb {
        Verb::Study(args) => cmd::study::run(json, &args),
        Verb::Report(args) => cmd::report::run(json, &args),
        Verb::Doctor(args) => cmd::doctor::run(json, &args),
        Verb::Explain(args) => cmd::explain::run(json, &args),
        Verb::Calibrate(args) => cmd::calibrate::run(json, &args),
        Verb::Bench(args) => {
            cmd::bench::run(json, &args, matches.subcommand().map_or(matches, |(_, own)| own))
        }
        Verb::Kernel(kernel) => cmd::kernel::run(json, &kernel),
        Verb::Blame(args) => cmd::blame::run(json, &args),
        Verb::Footprint(args) => cmd::footprint::run(json, &args),
        Verb::Predict(args) => cmd::predict::run(json, &args),
        Verb::Watch(args) => cmd::watch::run(json, &args),
        Verb::Sharing(args) => cmd::sharing::run(json, &args),
        Verb::Tend(args) => cmd::tend::run(json, &args),
        Verb::Compare(args) => cmd::compare::run(json, &args),
        Verb::Man { output } => cmd::manual::pages(json, &output),
        Verb::Completions { shell } => cmd::manual::completions(json, shell),
    }
}

/// How the program ends: as a shell reports it where SIGINT ended it.
fn ended(result: Result<()>) -> ExitCode {
    let is_interrupted = |error: &anyhow::Error| {
        let mut causes = error.chain();
        causes.any(|cause| cause.is::<Interrupted>() || cause.is::<cowlab_lab::Interrupted>())
    };
    let interrupted = result.as_ref().is_err_and(is_interrupted);
    let code = usage::ended(result);
    if interrupted { ExitCode::from(130) } else { code }
}
