// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flags of `predict` for policies.

use std::path::PathBuf;

use clap::Args;
use cowlab_machine::Policy;

/// What a policy of copying ahead would change for a store that takes snapshots.
#[derive(Debug, Args)]
pub struct PredictPolicyArgs {
    /// A run of `bench snapshot` with policy `off`: the store, and what forks cost it
    #[arg(long, value_name = "RUN", requires = "sweep", help_heading = "Policies",
        conflicts_with_all = ["size_bytes", "pages", "profile"])]
    pub snapshot: Option<PathBuf>,
    /// A run of `bench pre-copy` on the same machine: what batches of copies cost
    #[arg(long, value_name = "RUN", requires = "snapshot", help_heading = "Policies")]
    pub sweep: Option<PathBuf>,
    /// Policies to judge, beside those that the run of `bench snapshot` has
    #[arg(long, value_delimiter = ',', requires = "snapshot", help_heading = "Policies")]
    pub policy: Vec<Policy>,
}
