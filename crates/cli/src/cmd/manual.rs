// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Man pages and completions, from the same definitions as the flags.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::CommandFactory;
use serde_json::json;

use crate::args::Cli;
use crate::output;

/// Write a man page for cowlab and each of its verbs.
pub fn pages(json: bool, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("cannot write man pages into {}", directory.display()))?;
    if json { document(json!({ "output": directory })) } else { Ok(()) }
}

/// Print the completions of `shell`.
pub fn completions(json: bool, shell: clap_complete::Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cowlab", &mut text);
    let script = String::from_utf8(text)?;
    match json {
        true => document(json!({ "shell": shell.to_string(), "script": script })),
        false => output::print(&script),
    }
}

fn document(summary: serde_json::Value) -> Result<()> {
    output::json_of(summary, &[], &[])
}
