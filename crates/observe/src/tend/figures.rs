// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was done to one target so far: for people, `--json` and metrics.

use std::collections::BTreeMap;

use cowlab_schema::live::{Verb, rows};
use cowlab_schema::{live, tend};
use cowlab_store::Histogram;
use serde::Serialize;

live! {
    "tend";
    /// Counts and times since the target was taken up.
    #[derive(Debug, Clone, Serialize)]
    pub struct Figures {
        /// Its pid.
        pid: i32;
        /// Its name.
        name: String;
        /// What a region is.
        @[serde(skip)]
        huge_page_bytes: u64;
        /// Regions made one huge page
        collapsed_regions: u64 => sample "collapsed_regions" in regions, counter "cowlab_tend_collapsed_regions";
        /// Regions that the kernel did not make huge, by the reason.
        failed_regions: BTreeMap<&'static str, u64>;
        /// Times at rest, by the reason.
        rests: BTreeMap<&'static str, u64>;
        /// Time of the calls, in ns.
        @[serde(skip)]
        call_ns: Histogram<u64>;
        /// The longest stall of the target's that they can have caused, each; in ns.
        @[serde(skip)]
        stall_ns: Histogram<u64>;
        /// CPU time of tending
        cpu_ns: u64 => sample "cpu_ns" in ns, counter "cowlab_tend_cpu" in seconds;
        /// Of it, that of warming huge pages and reading the target's
        warming_cpu_ns: u64 => sample "warming_cpu_ns" in ns, counter "cowlab_tend_warming_cpu" in seconds;
        /// Forks of the target that were seen
        forks: u64 => sample "forks" in forks, counter "cowlab_tend_forks";
        /// How long a fork would have stopped it when it was taken up, by the machine profile or usual costs.
        fork_before_ns: Option<f64>;
        /// The same with what was collapsed since.
        fork_ns: Option<f64>;
        /// Base pages whose entries a fork copies
        small_pages: Option<u64> => sample "small_pages" in pages, gauge "cowlab_tend_small_pages";
        /// Huge pages of the target
        huge_regions: Option<u64> => sample "huge_regions" in regions, gauge "cowlab_tend_huge_regions";
        /// Regions that the last look found to do.
        @[serde(skip)]
        pass_regions: u64;
        /// Regions to collapse
        regions_left: u64 => gauge "cowlab_tend_regions_left";
        /// How long these take, at the rate since that look; `None` where nothing is under way.
        done_in_ns: Option<u64>;
        /// How long after a child's end everything was huge again, the last time.
        restored_ns: Option<u64>;
    }
}

pub fn figures() -> Verb {
    Verb {
        name: "tend",
        about: "Lines of `tend --json`, and what `tend --listen` serves by the label `process`, a name",
        parts: &[&tend::PID, &tend::NAME],
        rows: rows(Figures::FIGURES).collect(),
    }
}

impl Figures {
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
            done_in_ns: None,
            restored_ns: None,
        }
    }

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
}
