// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `bench footprints` and `bench forecast`.

use std::path::PathBuf;

use clap::Args;
use cowlab_bench::programs::PROGRAMS;

#[derive(Debug, Args)]
pub struct FootprintsArgs {
    /// The list of programs
    #[arg(long, value_name = "FILE", default_value = PROGRAMS)]
    pub programs: PathBuf,
    /// Only these of them; all, if none is named
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ForecastArgs {
    #[command(flatten)]
    pub what: FootprintsArgs,
    /// A profile.json or the folder of a run that has one, instead of a calibration in this run
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    /// How often each program does its work: a third without a fork, a third beside one, and a
    /// third to settle; its own number, if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=10_000))]
    pub pairs: Option<u32>,
    /// Rounds: in each the machine is calibrated and every program does a part of its pairs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
}
