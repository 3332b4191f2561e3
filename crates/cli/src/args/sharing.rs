// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `sharing`.

use std::net::SocketAddr;

use clap::Args;

use super::watch::interval;
use super::{TargetWord, address, seconds};

/// Which family to look at, and for how long.
#[derive(Debug, Args)]
pub struct SharingArgs {
    /// A parent or one of its workers by PID; or the family by NAME (as `ps -o comm` shows it), CGROUP
    /// (/sys/fs/cgroup/…) or ADDRESS of a Redis
    #[arg(value_name = "TARGET", value_parser = TargetWord::parse, allow_negative_numbers = true)]
    pub target: TargetWord,
    /// Go on looking, and print each look
    #[arg(long)]
    pub watch: bool,
    /// Seconds between looks; pages are read less often if that would take more than 1% of a CPU
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = interval, allow_negative_numbers = true)]
    pub interval_s: f64,
    /// Look for this long, to see how fast sharing is lost, then end
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration_s: Option<f64>,
    /// Serve OpenMetrics at http://ADDRESS/metrics; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub listen: Option<SocketAddr>,
}
