// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cowlab command: what fork() and copy-on-write cost, and how to pay less.

mod application;
mod args;
mod cmd;
mod context;
mod output;
mod signals;
mod usage;

use std::process::ExitCode;

use clap::Parser;
use cowlab_probes::Interrupted;

use crate::args::{Cli, Verb};
use crate::usage::{EndedWith, WrongUsage};

fn main() -> ExitCode {
    let Cli { common, verb } = Cli::parse();
    let result = match verb {
        Verb::Study(args) => cmd::study::run(&common, &args),
        Verb::Report(args) => cmd::report::run(&common, &args),
        Verb::Doctor(args) => cmd::doctor::run(&common, &args),
        Verb::Calibrate(args) => cmd::calibrate::run(&common, &args),
        Verb::Bench(bench) => cmd::bench::run(&common, &bench),
        Verb::Trace(trace) => cmd::trace::run(&common, &trace),
        Verb::Kernel(kernel) => cmd::kernel::run(&common, &kernel),
        Verb::Footprint(args) => cmd::footprint::run(&common, &args),
        Verb::Predict(args) => cmd::predict::run(&common, &args),
        Verb::Advise(args) => cmd::advise::run(&common, &args),
        Verb::Watch(args) => cmd::watch::run(&common, &args),
        Verb::Tend(args) => cmd::tend::run(&common, &args),
        Verb::Compare(args) => cmd::compare::run(&common, &args),
        Verb::Insert(args) => cmd::insert::run(&common, &args),
        Verb::Man { directory } => cmd::manual::pages(&directory),
        Verb::Completions { shell } => cmd::manual::completions(shell),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(&EndedWith(status)) = error.downcast_ref() {
                return ExitCode::from(status);
            }
            output::say(&format!("{error:#}"));
            if error.is::<WrongUsage>() {
                ExitCode::from(2)
            } else if error
                .chain()
                .any(|cause| cause.is::<Interrupted>() || cause.is::<cowlab_lab::Interrupted>())
            {
                // As a shell reports a program that SIGINT ended.
                ExitCode::from(130)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
