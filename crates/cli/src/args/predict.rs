// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `predict`.

use clap::Args;
use cowlab_machine::Policy;

use super::{ProfileArgs, fraction};

/// What to price.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// Runs of footprints (folders), or sizes of the forking process's private memory: 1GiB, 64MiB
    #[arg(value_name = "RUN|SIZE", required = true, value_delimiter = ',')]
    pub what: Vec<String>,
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Which program of a footprint; by default the one whose forks write most
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// Of a SIZE, the share that is written after the fork, 0..1
    #[arg(long, value_delimiter = ',', default_value = "0.1", value_parser = fraction, allow_negative_numbers = true)]
    pub write_fraction: Vec<f64>,
    /// Other running threads of the forking process; by default 0 of a SIZE, of a footprint as many as it saw
    #[arg(long, value_delimiter = ',')]
    pub threads: Vec<u32>,
    /// Also what a patched kernel would do: defer, next, ccow (the last two of a footprint)
    #[arg(long, value_delimiter = ',')]
    pub policy: Vec<Policy>,
    /// Of a footprint, every choice with its intervals, and what the figures rest on
    #[arg(long)]
    pub tables: bool,
}
