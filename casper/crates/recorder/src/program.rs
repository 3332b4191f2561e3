// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file a verb.

pub mod args;
mod export;
mod insert;
mod record;
mod report;
mod tables;

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use clap::CommandFactory;
use cowlab_casper::read::Trace;
use cowlab_document::output;

use args::{Cli, Verb};

/// Do what a command line says.
pub fn run(Cli { json, verb }: Cli) -> Result<()> {
    match verb {
        Verb::Record(args) => record::run(json, &args),
        Verb::Report(args) => report::run(json, &args),
        Verb::Export(args) => export::run(json, &args),
        Verb::Insert(args) => insert::run(json, &args),
        Verb::Man { output } => std::fs::create_dir_all(&output)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), &output))
            .with_context(|| format!("cannot write man pages into {}", output.display())),
        Verb::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "casper-trace", &mut text);
            output::print(&String::from_utf8(text)?)
        }
    }
}

/// Open a trace; where there is none, say how one is made.
fn open(file: &Path) -> Result<Trace> {
    if !file.exists() {
        bail!("there is no {}: `casper-trace record -- COMMAND` makes one", file.display());
    }
    Ok(Trace::open(file)?)
}
