// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `blame`.

use std::ffi::OsString;

use clap::Args;

use super::{RunArgs, TargetWord, seconds};

/// Whose copies, and how many of them with their stacks.
#[derive(Debug, Args)]
pub struct BlameArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Look at these running processes and all that they forked or will fork
    #[arg(
        value_name = "TARGET",
        conflicts_with = "command",
        value_parser = TargetWord::parse,
        allow_negative_numbers = true
    )]
    pub targets: Vec<TargetWord>,
    /// How long to look at running processes (10 s)
    #[arg(long, value_name = "SECONDS", requires = "targets", value_parser = seconds, allow_negative_numbers = true)]
    pub duration_s: Option<f64>,
    /// Record the stack of one in N copies, 1 for all; by default as many as take 2% of the programs'
    /// CPU time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub every: Option<u32>,
    /// A command and its arguments, with cowlab's rights; it and all that it starts are looked at until
    /// it ends
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
