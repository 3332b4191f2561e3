// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `sharing`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use cowlab_observe::watch::Wanted;

use super::watch::interval;
use super::{address, seconds};

/// Which family to look at, and for how long.
#[derive(Debug, Args)]
#[command(
    override_usage = "cowlab sharing [OPTIONS] <PID|NAME|CGROUP>\n       cowlab sharing --plan <RUN:REQUESTS> <RUN:REQUESTS>..."
)]
pub struct SharingArgs {
    /// A parent or one of its workers by its pid; or the family by its name as `ps -o comm` shows it,
    /// or by its control group
    #[arg(
        value_name = "PID|NAME|CGROUP",
        required_unless_present = "plan",
        value_parser = Wanted::parse,
        allow_negative_numbers = true
    )]
    pub target: Option<Wanted>,
    /// Go on looking: a live view on a terminal, elsewhere a page a look
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
    /// What warming the parent saves its workers, from runs of blame or footprint: RUN:100 after 100
    /// requests a worker, RUN:10+100 if the parent served 10 before it forked
    #[arg(
        long,
        value_name = "RUN:REQUESTS",
        num_args = 1..,
        conflicts_with_all = ["target", "watch", "interval_s", "duration_s", "listen"],
        value_parser = PlanRun::parse
    )]
    pub plan: Vec<PlanRun>,
}

/// A run, and how many requests were served meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRun {
    /// Its folder.
    pub run: PathBuf,
    /// Requests that the parent served before it forked.
    pub warmed: u64,
    /// Requests that each worker served.
    pub served: u64,
}

impl PlanRun {
    fn parse(text: &str) -> Result<PlanRun, String> {
        let parsed = || {
            let (run, requests) = text.rsplit_once(':')?;
            let (warmed, served) = requests.split_once('+').unwrap_or(("0", requests));
            let (warmed, served) = (warmed.parse().ok()?, served.parse().ok()?);
            (!run.is_empty() && served > 0).then(|| PlanRun { run: run.into(), warmed, served })
        };
        parsed().ok_or_else(|| {
            format!(
                "'{text}' does not say how many requests each worker served meanwhile: RUN:100, or RUN:10+100 \
                 where the parent had served 10 before it forked"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_requests_behind_it() {
        let of = |run: &str, warmed, served| Ok(PlanRun { run: run.into(), warmed, served });
        assert_eq!(PlanRun::parse("runs/a:100"), of("runs/a", 0, 100));
        assert_eq!(PlanRun::parse("runs/a:b:10+100"), of("runs/a:b", 10, 100));
        for text in ["runs/a", "runs/a:", ":5", "runs/a:0", "runs/a:x", "runs/a:1+", "runs/a:-1"] {
            assert!(PlanRun::parse(text).unwrap_err().contains("RUN:10+100"), "{text}");
        }
    }
}
