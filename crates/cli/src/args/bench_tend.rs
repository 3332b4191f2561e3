// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `bench tend`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cowlab_bench::tend::policy::Policy;

use super::size;

/// Which program forks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// redis-server, under updates, with a snapshot now and then
    Redis,
    /// A pre-forking Python server, whose workers end and are replaced
    Prefork,
    /// PostgreSQL, to which many connections are made
    Postgres,
}

/// What forks, how often, and what keeps its memory in huge pages.
#[derive(Debug, Args)]
pub struct BenchTendArgs {
    /// redis, prefork, postgres
    #[arg(long, value_delimiter = ',', default_value = "redis")]
    pub program: Vec<Program>,
    /// untended, tended, thp, thp+tended, mthp, mthp+tended, khugepaged, damon
    #[arg(long, value_delimiter = ',', default_value = "untended,tended,thp")]
    pub policy: Vec<Policy>,
    /// Memory of redis's records, roughly, or what the Python server loads
    #[arg(long, value_delimiter = ',', default_value = "1.5GiB", value_parser = size)]
    pub size_bytes: Vec<u64>,
    /// Rates of redis's updates, as shares of the most that one in base pages answers
    #[arg(long, value_delimiter = ',', default_value = "0.5", value_parser = super::redis::share, allow_negative_numbers = true)]
    pub load: Vec<f64>,
    /// Snapshots of redis, or forks of the Python server
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub snapshots: u32,
    /// Seconds from one snapshot to the next
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = super::seconds, allow_negative_numbers = true)]
    pub snapshot_interval_s: f64,
    /// Exponent of Zipf's law by which records are chosen
    #[arg(long, default_value_t = 1.0, value_parser = super::snapshot::alpha, allow_negative_numbers = true)]
    pub zipf_alpha: f64,
    /// Clients of redis, workers of the Python server, or tens of connections to PostgreSQL
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: u32,
    /// Updates that a client of redis sends at a time: with one, clients on one CPU are the limit
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub pipeline: u32,
    /// Rounds; each measures every policy once, in an order of its own
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// tend's --budget-us
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub budget_us: Option<u64>,
    /// tend's --cpu-share
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = super::redis::share, allow_negative_numbers = true)]
    pub cpu_share: f64,
    /// Have tend ask redis for its latency while it collapses
    #[arg(long)]
    pub ping: bool,
    /// The machine profile for tend; made first if not given
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    /// Have the kernel report no free memory to the hypervisor for this run, and put that back
    #[arg(long)]
    pub no_page_reporting: bool,
    /// Let the scheduler place the server, its children and the clients
    #[arg(long)]
    pub no_pin: bool,
}
