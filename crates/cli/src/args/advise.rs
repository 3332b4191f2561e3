// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `advise`.

use std::path::PathBuf;

use clap::Args;

use super::{PredictWriter, fraction};

#[derive(Debug, Args)]
pub struct AdviseArgs {
    /// The run of a footprint: what the application maps and writes
    #[arg(long, value_name = "RUN", required_unless_present = "pid", conflicts_with = "pid")]
    pub footprint: Option<PathBuf>,
    /// Of a footprint with several programs, this one; by default the one whose forks write most
    #[arg(long, value_name = "NAME", requires = "footprint")]
    pub program: Option<String>,
    /// This process instead: its memory now, and a share of it that you say is written
    #[arg(long, value_name = "PID", allow_negative_numbers = true)]
    pub pid: Option<i32>,
    /// Share of the process's memory that is written while a child lives, 0..1
    #[arg(long, requires = "pid", default_value = "0.1", value_parser = fraction, allow_negative_numbers = true)]
    pub write_fraction: f64,
    /// Share of the memory that the parent wrote since its last fork, 0..1
    #[arg(long, default_value = "1", value_parser = fraction, allow_negative_numbers = true)]
    pub written_before_fraction: f64,
    /// Who writes; as the footprint has it, or the parent
    #[arg(long, value_enum)]
    pub writer: Option<PredictWriter>,
    /// Other running threads of the forking process; none, or those of --pid that run now
    #[arg(long)]
    pub threads: Option<u32>,
    /// A profile.json or a run folder; by default the newest run here that has one
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    /// Try what can be tried here: processes of the application's shape, measured in turn
    #[arg(long)]
    pub verify: bool,
    /// Rounds of the trial; each measures every choice once
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(2..=100))]
    pub rounds: u32,
}
