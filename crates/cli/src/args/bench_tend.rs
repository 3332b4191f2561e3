// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `bench tend`.

use std::path::PathBuf;

use clap::Args;
use cowlab_schema::tend::Tended;

use super::{Cells, RoundsArgs};

/// What forks, how often, and what keeps its memory in huge pages.
#[derive(Debug, Args)]
pub struct BenchTendArgs {
    #[command(flatten)]
    pub cells: Cells<Tended>,
    /// The machine profile for tend; made first if not given
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    #[command(flatten)]
    pub rounds: RoundsArgs<2>,
}
