// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `tend`.

use std::net::SocketAddr;

use clap::Args;
use cowlab_schema::settings::tend::TendSettings;

use super::{Cells, ProfileArgs, TargetWord, address};

/// Whom to tend, how far, and what it may cost.
#[derive(Debug, Args)]
pub struct TendArgs {
    /// Processes, each by PID, NAME (as `ps -o comm` shows it), CGROUP (/sys/fs/cgroup/…) or ADDRESS of a Redis
    #[arg(
        value_name = "TARGET",
        required = true,
        value_parser = TargetWord::parse,
        allow_negative_numbers = true
    )]
    pub who: Vec<TargetWord>,
    /// One pass over the memory as it is, then end
    #[arg(long)]
    pub once: bool,
    /// Say what would be done and what it would save, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The longest that one collapse should stall the target, in µs; 2000 by default
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub budget_us: Option<u64>,
    #[command(flatten)]
    pub set: Cells<TendSettings>,
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Serve OpenMetrics at http://ADDRESS/metrics; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address, conflicts_with = "dry_run")]
    pub listen: Option<SocketAddr>,
    /// End after so many seconds
    #[arg(long, value_name = "S", value_parser = super::seconds, allow_negative_numbers = true)]
    pub duration_s: Option<f64>,
}
