// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `bench ccow`.

use clap::Args;
use cowlab_bench::ccow::EXPONENTS;

use super::{redis, size, snapshot};

/// How large document 003's two benchmarks are made.
#[derive(Debug, Args)]
pub struct CcowArgs {
    /// Exponents of Zipf's law by which the microbenchmark's blocks are chosen
    #[arg(long, value_delimiter = ',', default_values_t = EXPONENTS, value_parser = snapshot::alpha, allow_negative_numbers = true)]
    pub zipf_alpha: Vec<f64>,
    /// The microbenchmark's space (document 003: 16 GiB)
    #[arg(long, default_value = "64MiB", value_parser = size)]
    pub size_bytes: u64,
    /// How often its size is written (document 003: ten)
    #[arg(long, value_name = "TIMES", default_value_t = 15.0, value_parser = snapshot::turnovers, allow_negative_numbers = true)]
    pub turnovers: f64,
    /// Memory of Redis's records, roughly (document 003: 10 GB)
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = size)]
    pub redis_bytes: u64,
    /// Updates of each of its phases for each record (document 003: ten)
    #[arg(long, value_name = "TIMES", default_value_t = 5.0, value_parser = snapshot::turnovers, allow_negative_numbers = true)]
    pub redis_turnovers: f64,
    /// Snapshots of each phase that takes any
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub snapshots: u32,
    /// Rates of Redis's open loops, as shares of what a server of base pages answers at most
    #[arg(long, value_delimiter = ',', default_value = "0.5", value_parser = redis::share, allow_negative_numbers = true)]
    pub load: Vec<f64>,
    /// Rounds; each measures everything once, in an order of its own
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Of them, those that measure Redis and the batches' costs as well
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub redis_rounds: u32,
}
