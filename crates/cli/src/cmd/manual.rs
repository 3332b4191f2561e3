// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Man pages and completions, from the same definitions as the flags.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::CommandFactory;

use crate::args::Cli;
use crate::output;

/// Write a man page for cowlab and each of its verbs.
pub fn pages(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("cannot write man pages into {}", directory.display()))
}

/// Print the completions of `shell`.
pub fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cowlab", &mut text);
    output::print(&String::from_utf8(text)?)
}
