// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `explain`.

use std::path::PathBuf;

use clap::Args;

use super::TargetWord;

/// Which program.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The program, by the pid or the name of one of its processes; for a worker, its parent; or a Redis or
    /// Valkey by its address, redis://[:PASSWORD@]HOST:PORT or unix:///PATH, which is asked as well
    #[arg(value_name = "TARGET", value_parser = TargetWord::parse, allow_negative_numbers = true)]
    pub target: TargetWord,
    /// Write it as a page as well, with the flame graph of what it copies: to send to a colleague
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
