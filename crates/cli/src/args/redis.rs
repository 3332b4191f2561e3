// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `bench redis`.

use clap::Args;
use cowlab_machine::Policy;

use super::size;

/// What is stored, how it is updated, and when it is snapshotted.
#[derive(Debug, Args)]
pub struct RedisArgs {
    /// Memory of the records, roughly; by default a 64th of what is free, as a power of two
    /// (document 003: 10 GB)
    #[arg(long, value_parser = size)]
    pub size_bytes: Option<u64>,
    /// Updates of each phase for each record (document 003: ten)
    #[arg(long, value_name = "TIMES", default_value_t = 10.0, value_parser = super::snapshot::turnovers, allow_negative_numbers = true)]
    pub turnovers: f64,
    /// Exponent of Zipf's law by which records are chosen
    #[arg(long, default_value_t = 1.0, value_parser = super::snapshot::alpha, allow_negative_numbers = true)]
    pub zipf_alpha: f64,
    /// Clients, each with one request under way
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub clients: u32,
    /// Updates of a request, sent and answered at once (document 003: one)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub pipeline: u32,
    /// Snapshots of each phase that takes any
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub snapshots: u32,
    /// Rates of the open loops, as shares of what a server of base pages answers at most
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.8", value_parser = share, allow_negative_numbers = true)]
    pub load: Vec<f64>,
    /// Size of the pages that its memory may be made of
    #[arg(long, value_delimiter = ',', value_parser = size)]
    pub page_size_bytes: Vec<u64>,
    /// What the kernel copies at a fault, in turn
    #[arg(long, value_delimiter = ',', default_value = "stock")]
    pub policy: Vec<Policy>,
    /// A TCP port of this machine instead of a socket in the server's folder
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Rounds; each measures every server once, in an order of its own
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Let the scheduler place the server, its children and the clients
    #[arg(long)]
    pub no_pin: bool,
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err(format!("'{text}' is not a share above 0 and up to 1")),
    }
}
