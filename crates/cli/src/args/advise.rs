// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `advise`.

use clap::Args;

use cowlab_schema::Writer;

use super::{ProfileArgs, RunArgs, forecast_writer, fraction};

#[derive(Debug, Args)]
pub struct AdviseArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Runs of footprints (folders), processes, or addresses of Redis or Valkey servers here, which are
    /// asked (INFO, CONFIG GET) what their snapshots copied and what they can do
    #[arg(value_name = "RUN|PID|NAME|redis://…", required = true, allow_negative_numbers = true)]
    pub targets: Vec<String>,
    /// Which program of the footprint; by default the one whose forks write most
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// Share of a process's memory that is written while a child lives, 0..1; by default what its living
    /// children have copied, or 0.1; a footprint has its own
    #[arg(long, value_parser = fraction, allow_negative_numbers = true)]
    pub write_fraction: Option<f64>,
    /// Share of the memory that the parent wrote since its last fork, 0..1
    #[arg(long, default_value = "1", value_parser = fraction, allow_negative_numbers = true)]
    pub written_before_fraction: f64,
    /// Which side writes; by default as the footprint says, or the parent
    #[arg(long, value_name = "child|parent", value_parser = forecast_writer)]
    pub writer: Option<Writer>,
    /// Other running threads of the forking process; by default those that run now, for a footprint none
    #[arg(long)]
    pub threads: Option<u32>,
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Every choice with its intervals, what it needs, and what the figures rest on
    #[arg(long)]
    pub tables: bool,
    /// Try what can be tried here: processes of the application's shape, measured in turn
    #[arg(long)]
    pub verify: bool,
    /// For the trial, set the THP setting of the folios' size (needs root) and put it back afterwards
    #[arg(long, requires = "verify")]
    pub set_mthp: bool,
    /// Rounds of the trial; each measures every choice once
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(2..=100))]
    pub rounds: u32,
}
