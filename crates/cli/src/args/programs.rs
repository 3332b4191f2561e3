// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `bench footprints`.

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
