// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `predict policies`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cowlab_machine::Policy;

/// What else is predicted than a fork's cost.
#[derive(Debug, Subcommand)]
pub enum PredictWhat {
    /// What policies of copying ahead would change for a store that takes snapshots
    Policies(PredictPoliciesArgs),
}

#[derive(Debug, Args)]
pub struct PredictPoliciesArgs {
    /// A run of `bench snapshot` with policy `off`: the store, and what forks cost it
    #[arg(value_name = "SNAPSHOT")]
    pub snapshot: PathBuf,
    /// A run of `study next-page` or `study ccow` on the same machine: what batches of copies cost;
    /// by default the first run
    #[arg(value_name = "SWEEP")]
    pub sweep: Option<PathBuf>,
    /// Policies to judge, beside those that the run of `bench snapshot` has
    #[arg(long, value_delimiter = ',')]
    pub policy: Vec<Policy>,
}
