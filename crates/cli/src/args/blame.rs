// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `blame`.

use std::ffi::OsString;

use clap::Args;
use cowlab_observe::watch::Wanted;

use super::{RunArgs, seconds};

/// Whose copies, and how many of them with their stacks.
#[derive(Debug, Args)]
pub struct BlameArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Look at these running processes and all that they forked or will fork
    #[arg(
        value_name = "PID|NAME|CGROUP",
        conflicts_with = "command",
        value_parser = Wanted::parse,
        allow_negative_numbers = true
    )]
    pub targets: Vec<Wanted>,
    /// Of running processes: for how long; without, for 10 s
    #[arg(long, value_name = "SECONDS", requires = "targets", value_parser = seconds, allow_negative_numbers = true)]
    pub duration_s: Option<f64>,
    /// Tell one copy in so many with its stack, 1 for each; by default as many as cost the processes
    /// 2% of their time at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub every: Option<u32>,
    /// A command and its arguments; it and all that it starts are looked at
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
