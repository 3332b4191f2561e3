// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `bench redis`.

use clap::Args;
use cowlab_schema::redis::Store;

use super::{Cells, RoundsArgs, share};

/// What is stored, how it is updated, and when it is snapshotted.
#[derive(Debug, Args)]
pub struct RedisArgs {
    #[command(flatten)]
    pub cells: Cells<Store>,
    /// Rates of the open loops, as shares of the highest throughput with base pages
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.8", value_parser = share, allow_negative_numbers = true)]
    pub load: Vec<f64>,
    #[command(flatten)]
    pub rounds: RoundsArgs<3>,
}
