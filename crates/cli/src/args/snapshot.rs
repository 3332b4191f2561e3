// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `bench snapshot`.

use clap::Args;
use cowlab_bench::snapshot::{ALPHAS, TURNOVERS};
use cowlab_machine::Policy;
use cowlab_probes::Placement;

use super::{seconds, size};

/// What is written, how it is chosen, and when it forks.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// Exponents of Zipf's law by which blocks are chosen; 0: each as often
    #[arg(long, value_delimiter = ',', default_values_t = ALPHAS, value_parser = alpha, allow_negative_numbers = true)]
    pub zipf_alpha: Vec<f64>,
    /// The populated space; by default 256 MiB, or an eighth of what is free if that is less
    /// (document 003: 16 GiB)
    #[arg(long, value_delimiter = ',', value_parser = size)]
    pub size_bytes: Vec<u64>,
    /// Size of a block
    #[arg(long, default_value = "1KiB", value_parser = size)]
    pub block_bytes: u64,
    /// How often the space's size is written
    #[arg(long, value_name = "TIMES", default_value_t = TURNOVERS, value_parser = turnovers, allow_negative_numbers = true)]
    pub turnovers: f64,
    /// Where the often written blocks lie: scattered, ranked (the most frequent first)
    #[arg(long, value_delimiter = ',', default_value = "scattered")]
    pub placement: Vec<Placement>,
    /// Time between forks; by default what plain copy-on-write takes to get back to 99% of its rate
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub interval_s: Option<f64>,
    /// Other running threads of the process
    #[arg(long, value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub threads: Vec<u32>,
    /// Size of the space's pages
    #[arg(long, value_delimiter = ',', value_parser = size)]
    pub page_size_bytes: Vec<u64>,
    /// What the kernel copies at a fault, in turn
    #[arg(long, value_delimiter = ',', default_value = "stock")]
    pub policy: Vec<Policy>,
    /// Rounds; each measures everything once, in an order of its own
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Let the scheduler place the process and its children
    #[arg(long)]
    pub no_pin: bool,
}

pub(super) fn alpha(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=3.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is not in 0..3")),
    }
}

pub(super) fn turnovers(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=10_000.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is not in 0.1..10000")),
    }
}
