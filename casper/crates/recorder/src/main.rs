// SPDX-License-Identifier: Apache-2.0 OR MIT
//! casper-trace: record the events of C programs, read them, and instrument sources.

mod program;

use std::process::ExitCode;

use clap::Parser;
use cowlab_document::{output, usage};

fn main() -> ExitCode {
    output::begin("casper-trace");
    usage::ended(program::run(program::args::Cli::parse()))
}
