// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `watch`.

use std::net::SocketAddr;

use clap::Args;

use super::{TargetWord, address};

/// What to watch, how often, and where to show it.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Processes, each by PID, NAME (as `ps -o comm` shows it), CGROUP (/sys/fs/cgroup/…) or ADDRESS of a Redis; every
    /// process, if not given
    #[arg(value_name = "TARGET", value_parser = TargetWord::parse, allow_negative_numbers = true)]
    pub targets: Vec<TargetWord>,
    /// Seconds from one look to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval, allow_negative_numbers = true)]
    pub interval_s: f64,
    /// End after so many refreshes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub refreshes: Option<u64>,
    /// Count faults in the kernel by kind: exact copies, at a cost for each fault
    #[arg(long)]
    pub count: bool,
    /// Do without BPF: what /proc tells, without stop times
    #[arg(long)]
    pub no_bpf: bool,
    /// Serve OpenMetrics at http://ADDRESS/metrics; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub listen: Option<SocketAddr>,
}

/// From one look to the next.
pub(super) fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=3600.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is not a number of seconds from 0.1 to 3600")),
    }
}
