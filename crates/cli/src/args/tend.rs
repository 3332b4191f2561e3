// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `tend`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::ProfileArgs;

/// Whom to tend, how far, and what it may cost.
#[derive(Debug, Args)]
pub struct TendArgs {
    /// Processes: pids, names of commands, or a control group's path (as in /proc/PID/cgroup, or
    /// its folder /sys/fs/cgroup/…)
    #[arg(value_name = "PID|NAME|CGROUP", required_unless_present_any = ["targets", "print_unit"])]
    pub who: Vec<String>,
    /// A file that names the targets, see docs/tend.md
    #[arg(long, value_name = "FILE", conflicts_with = "who")]
    pub targets: Option<PathBuf>,
    /// One pass over the memory as it is, then end
    #[arg(long)]
    pub once: bool,
    /// Say what would be done and what it would save, and do nothing
    #[arg(long, conflicts_with = "once")]
    pub dry_run: bool,
    /// The longest stall of the target's that one collapse should cause; 2000 by default
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub budget_us: Option<u64>,
    /// Rarer settings: interval_s, cpu_share, absent_pages, ping (docs/tend.md)
    #[arg(long, value_name = "KEY=VALUE", action = clap::ArgAction::Append)]
    pub set: Vec<String>,
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Keep the metrics in this file, for a node exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Serve OpenMetrics at http://ADDRESS/metrics; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "dry_run")]
    pub listen: Option<SocketAddr>,
    /// End after so many seconds
    #[arg(long, value_name = "S", value_parser = super::seconds, allow_negative_numbers = true)]
    pub duration_s: Option<f64>,
    /// Print a systemd unit for these arguments
    #[arg(long)]
    pub print_unit: bool,
}

/// What `--set` says.
#[derive(Debug, Clone, Args)]
pub struct TendSettings {
    /// Seconds from one look to the next, at a target that does not fork meanwhile; 10 by default
    #[arg(long, value_name = "S", value_parser = super::seconds, allow_negative_numbers = true)]
    pub interval_s: Option<f64>,
    /// The most of one CPU that may be used, above 0 and up to 1; what a quiet minute left of it, too
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = super::share, allow_negative_numbers = true)]
    pub cpu_share: f64,
    /// Pages that may be absent from a region that is collapsed: they are filled in
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(0..=511))]
    pub absent_pages: u64,
    /// Where the target answers PING, to hear of stalls from itself: HOST:PORT, or a socket's path
    #[arg(long, value_name = "ADDRESS")]
    pub ping: Option<String>,
}
