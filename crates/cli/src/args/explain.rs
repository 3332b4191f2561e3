// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `explain`.

use std::path::PathBuf;

use clap::Args;

use super::{TargetWord, seconds};

/// Which programs, and how closely.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Programs: by PID; by NAME, as `ps -o comm` shows it; by CGROUP, such as /sys/fs/cgroup/system.slice/…;
    /// for a worker, its parent; or a Redis or Valkey by its ADDRESS, redis://[:PASSWORD@]HOST:PORT or
    /// unix:///PATH, which is asked as well (INFO, CONFIG GET)
    #[arg(value_name = "TARGET", required = true, value_parser = TargetWord::parse, allow_negative_numbers = true)]
    pub targets: Vec<TargetWord>,
    /// Do not watch its forks and copies: an answer at once
    #[arg(long, conflicts_with = "duration_s")]
    pub quick: bool,
    /// Watch its forks and copies for this long
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds, allow_negative_numbers = true)]
    pub duration_s: f64,
    /// Everything that was looked at, and every choice with its intervals and how to have it
    #[arg(long)]
    pub tables: bool,
    /// Write it as a page as well, with the flame graph of what is copied: to send to a colleague
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
