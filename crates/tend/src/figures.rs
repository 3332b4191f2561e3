// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was done to one target so far: for people, `--json` and metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use cowlab_store::Histogram;
use serde::Serialize;

/// Counts and times since the target was taken up.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Its pid.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// What a region is.
    pub huge_page_bytes: u64,
    /// Regions made huge.
    pub collapsed_regions: u64,
    /// Regions that the kernel did not make huge, by the reason.
    pub failed_regions: BTreeMap<&'static str, u64>,
    /// Times at rest, by the reason.
    pub rests: BTreeMap<&'static str, u64>,
    /// Time of the calls, in ns.
    pub call_ns: Histogram<u64>,
    /// The longest stall of the target's that they can have caused, each; in ns.
    pub stall_ns: Histogram<u64>,
    /// CPU time for this target.
    pub cpu_ns: u64,
    /// Of it, that of warming huge pages and reading the target's.
    pub warming_cpu_ns: u64,
    /// Forks that were seen.
    pub forks: u64,
    /// How long a fork would have stopped it when it was taken up, by the machine profile or usual costs, in ns.
    pub fork_before_ns: Option<f64>,
    /// The same with what was collapsed since.
    pub fork_ns: Option<f64>,
    /// Base pages that a fork would copy an entry for, when it was last looked at.
    pub small_pages: Option<u64>,
    /// Huge pages.
    pub huge_regions: Option<u64>,
    /// Regions that the last look found to do.
    pub pass_regions: u64,
    /// Of them those left to do.
    pub regions_left: u64,
    /// How long these take, at the rate since that look; `None` where nothing is under way.
    pub done_in: Option<Duration>,
    /// How long after a child's end everything was huge again, the last time.
    pub restored: Option<Duration>,
}

impl Figures {
    /// Of a new target.
    pub fn new(pid: i32, name: String) -> Figures {
        let empty = || cowlab_store::histogram_of([]);
        Figures {
            pid,
            name,
            huge_page_bytes: 0,
            collapsed_regions: 0,
            failed_regions: BTreeMap::new(),
            rests: BTreeMap::new(),
            call_ns: empty(),
            stall_ns: empty(),
            cpu_ns: 0,
            warming_cpu_ns: 0,
            forks: 0,
            fork_before_ns: None,
            fork_ns: None,
            small_pages: None,
            huge_regions: None,
            pass_regions: 0,
            regions_left: 0,
            done_in: None,
            restored: None,
        }
    }

    /// Adds another target's.
    pub fn add(&mut self, of: &Figures) {
        self.collapsed_regions += of.collapsed_regions;
        self.regions_left += of.regions_left;
        self.cpu_ns += of.cpu_ns;
        self.warming_cpu_ns += of.warming_cpu_ns;
        self.forks += of.forks;
        for (sums, more) in
            [(&mut self.failed_regions, &of.failed_regions), (&mut self.rests, &of.rests)]
        {
            for (reason, times) in more {
                *sums.entry(reason).or_default() += times;
            }
        }
        for (sum, more) in
            [(&mut self.small_pages, of.small_pages), (&mut self.huge_regions, of.huge_regions)]
        {
            *sum = more.map(|more| sum.unwrap_or(0) + more).or(*sum);
        }
        // Both resize themselves, so that adding does not fail.
        let _ = (self.call_ns.add(&of.call_ns), self.stall_ns.add(&of.stall_ns));
    }

    /// The summary for `--json`.
    pub fn summary(&self) -> TendFigures<'_> {
        let quantile =
            |of: &Histogram<u64>, q: f64| (!of.is_empty()).then(|| of.value_at_quantile(q));
        TendFigures {
            pid: self.pid,
            name: &self.name,
            collapsed_regions: self.collapsed_regions,
            failed_regions: &self.failed_regions,
            rests: &self.rests,
            call_p50_ns: quantile(&self.call_ns, 0.5),
            call_max_ns: quantile(&self.call_ns, 1.0),
            stall_p99_ns: quantile(&self.stall_ns, 0.99),
            stall_max_ns: quantile(&self.stall_ns, 1.0),
            cpu_ns: self.cpu_ns,
            warming_cpu_ns: self.warming_cpu_ns,
            forks: self.forks,
            fork_before_ns: self.fork_before_ns,
            fork_ns: self.fork_ns,
            small_pages: self.small_pages,
            huge_regions: self.huge_regions,
            regions_left: self.regions_left,
            done_in_ns: self.done_in.map(|left| left.as_nanos() as u64),
            restored_ns: self.restored.map(|took| took.as_nanos() as u64),
        }
    }
}

/// [`Figures`] as one object; what is not known is null.
#[derive(Debug, Clone, Serialize)]
pub struct TendFigures<'a> {
    pid: i32,
    name: &'a str,
    collapsed_regions: u64,
    failed_regions: &'a BTreeMap<&'static str, u64>,
    rests: &'a BTreeMap<&'static str, u64>,
    call_p50_ns: Option<u64>,
    call_max_ns: Option<u64>,
    stall_p99_ns: Option<u64>,
    stall_max_ns: Option<u64>,
    cpu_ns: u64,
    warming_cpu_ns: u64,
    forks: u64,
    fork_before_ns: Option<f64>,
    fork_ns: Option<f64>,
    small_pages: Option<u64>,
    huge_regions: Option<u64>,
    regions_left: u64,
    done_in_ns: Option<u64>,
    restored_ns: Option<u64>,
}
