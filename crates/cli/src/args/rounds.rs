// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often a measurement is repeated.

use clap::Args;
use cowlab_bench::Rounds;

/// How often a measurement is repeated.
#[derive(Debug, Clone, Args)]
pub struct RoundsArgs<const ROUNDS: u32 = 5> {
    /// Rounds; each measures everything once, in a new order
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
}

impl<const ROUNDS: u32> RoundsArgs<ROUNDS> {
    /// As the plan of a measurement has it.
    pub fn exactly(&self) -> Rounds {
        Rounds::exactly(self.rounds)
    }
}
