// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `snapshot`: the microbenchmark of CCoW (2022).

use crate::bench::bench;
use crate::choice::choices;
use crate::{Placement, Policy, Quantile};

choices! {
    /// Whether a run forks.
    Forked, "forks", {
        /// never: what everything is compared with
        No = "no",
        /// at the beginning and after each interval; one interval is not measured
        Yes = "yes",
        /// once, to find how long a fork is felt
        Once = "once",
    }
}

bench! {
    /// Writes after Zipf's law in a space that is forked again and again: CCoW's microbenchmark (2022)
    "snapshot";

    /// One invocation of snapshot.
    cell Snapshot, check {
        /// Exponent of Zipf's law by which blocks are chosen; 0: each as often
        zipf_alpha: f64 = 1.0, flag, within(0.0, 3.0), sweep("0.9,1,1.1");
        /// The populated space (CCoW: 16 GiB)
        size_bytes: u64 = 16 << 20, flag, size, positional,
            by_machine("256 MiB, or an eighth of what is free if that is less");
        /// Size of a block
        block_bytes: u64 = 1024, set, size;
        /// How often the space's size is written
        turnovers: f64 = 10.0, flag, within(0.1, 10_000.0), unstored, apart;
        /// Where the often written blocks lie
        placement: Placement = Placement::Scattered, set;
        /// Whether it forks
        forks: Forked = Forked::No, apart;
        /// Seconds from one fork to the next
        interval_s: f64 = 0.0, flagged("fork_every_s"), within(1e-6, 1e9), unstored, apart,
            by_machine("what plain copy-on-write takes to get back to 99% of its rate");
        /// Other running threads of the process
        threads: u32 = 0, flag, within(0.0, 64.0);
        /// Size of the space's pages
        page_size_bytes: u64 = 4096, flag, size, by_machine("the base page");
        /// Give the process a CPU to itself and its children the others
        pinned: bool = true, set;
        /// What the kernel copies at a fault
        policy: Policy = Policy::Stock, flag, apart;
        /// Writes of a block
        writes: u64 = 0, unstored;
        /// From one fork to the next, where it forks
        interval_ns: u64 = 0, unstored, apart;
        /// The writes before its only fork, where it forks once
        after_writes: u64 = 0, unstored, apart;
        /// Whether the kernel's counts are read
        counting: bool = false, unstored;
        /// Seed of the choice of blocks
        seed: u64 = 0, unstored;
    }

    parts {
        /// Of a distribution
        quantile: Quantile;
        /// The share of an interval that has passed since the fork
        phase_percent: u64;
    }

    metrics {
        /// The run, forks included
        elapsed_ns: ns;
        /// Writes a second
        throughput_per_s: per_s;
        /// Writes in all
        writes as made: writes;
        /// Of them, those to the fifth of the blocks that Zipf's law prefers
        preferred_fifth_writes: writes;
        /// Forks that were measured
        forks as made: forks;
        /// Forks that were not
        unmeasured_forks: forks;
        /// A window in which writes are counted
        window_ns: ns;
        /// The rate of a window, by quantile
        window_per_s: per_s;
        /// The lowest of each interval: their median
        lowest_window_per_s: per_s;
        /// The rate by the time since the fork
        after_fork_per_s: per_s;
        /// From one fork to the next
        interval_ns as found: ns;
        /// The rate that is normal without forks, as the calibration found it
        normal_per_s: per_s;
        /// For how long the calibration looked
        looked_ns: ns;
        /// After how long the rate was back
        recovery_ns: ns;
        /// A fork call, by quantile
        fork_ns: ns;
        /// Pages written for the first time after a fork: the copies that must be made
        first_written_pages: pages;
        /// Share of a region's pages that an interval writes, by quantile
        coverage_percent: percent;
        /// A time-stamp with its store, which is taken off each write
        timer_ns: ns;
        /// One write, by quantile
        latency_ns: ns;
        /// Minor faults of the run
        minor_faults: faults;
        /// Resident memory of all processes at the ends of intervals: the mean
        rss_sum_bytes: bytes;
        /// The same: the most
        rss_sum_max_bytes: bytes;
        /// The same with what is shared counted once: the mean
        pss_sum_bytes: bytes;
        /// The same: the most
        pss_sum_max_bytes: bytes;
        /// On a patched kernel: copy-on-write faults
        cow_faults: faults;
        /// Pages copied ahead of a write
        precopy_pages: pages;
        /// Of them, those that were written later
        precopy_written: pages;
        /// Of them, those that never were
        precopy_wasted: pages;
        /// Of them, those of which it is not known
        precopy_unknown: pages;
        /// Pages that the policy tried to copy ahead, on the whole system meanwhile
        precopy_attempts: pages;
        /// Of them, those that it copied
        precopy_success: pages;
        /// Flushes of the TLB for them
        flushes: flushes;
        /// Holds of page-table locks
        ptl_holds: holds;
        /// Allocations of memory for copies
        allocations: allocations;
        /// Pages not copied ahead for want of memory
        precopy_refused_nomem_pages: pages;
    }
}

impl Snapshot {
    /// Refuse what makes no sense.
    pub fn check(&self) -> Result<(), String> {
        if self.block_bytes == 0 || self.size_bytes / self.block_bytes < 2 {
            return Err("--size-bytes must hold two blocks at least".to_owned());
        }
        if self.size_bytes / self.block_bytes > u64::from(u32::MAX) {
            return Err(
                "--size-bytes must hold less than 2^32 blocks: raise --set block_bytes".into()
            );
        }
        if self.turnover_writes() == 0 {
            return Err("--turnovers must make one write at least".to_owned());
        }
        Ok(())
    }

    /// The writes that its turnovers make.
    pub fn turnover_writes(&self) -> u64 {
        ((self.size_bytes / self.block_bytes.max(1)) as f64 * self.turnovers) as u64
    }

    /// The memory of the probe itself: the space, and four bytes for each write to come.
    pub fn own_bytes(&self) -> u64 {
        self.size_bytes + self.writes * 4
    }
}
