// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copy-on-write policies of the patched kernel: the Copy-on-Write Optimization Study's and CCoW's, and
//! the settings that choose among them.

use cowlab_schema::Policy;
use serde::Serialize;

use crate::guard::{Guard, GuardError};
use crate::root::{Reader, Root};

/// 0: copy only the written page; 1: its neighbours too; 2: its region.
pub(crate) const PRECOPY: &str = "proc/sys/vm/cow_precopy";
pub(crate) const PRECOPY_PAGES: &str = "proc/sys/vm/cow_precopy_pages";
/// Order of the folios for aligned runs of copies; 0: base pages.
pub(crate) const PRECOPY_ORDER: &str = "proc/sys/vm/cow_precopy_order";
/// A region is copied from this coverage on, in percent.
pub(crate) const THRESHOLD: &str = "proc/sys/vm/cow_threshold_pct";
/// Share of wasted copies above which a process's own threshold rises, in percent.
pub(crate) const WASTE: &str = "proc/sys/vm/cow_waste_pct";
pub(crate) const REGION: &str = "proc/sys/vm/cow_region_kb";
/// How much one fault copies, in KiB.
pub(crate) const BATCH: &str = "proc/sys/vm/cow_batch_kb";
/// 0: all pages of a region; else those written in so many of the last epochs, anywhere.
pub(crate) const HISTORY: &str = "proc/sys/vm/cow_history";
/// A process is watched from this fork on.
pub(crate) const GATE: &str = "proc/sys/vm/cow_gate_forks";
/// A process is watched from this much anonymous memory on, in KiB.
pub(crate) const GATE_KB: &str = "proc/sys/vm/cow_gate_kb";
/// 0: fork copies page tables; 2: it defers that, in every process.
pub(crate) const DEFER: &str = "proc/sys/vm/cow_defer";
/// Every setting that a policy or a measurement changes.
pub(crate) const ALL: [&str; 12] = [
    DEFER,
    PRECOPY,
    PRECOPY_PAGES,
    PRECOPY_ORDER,
    THRESHOLD,
    WASTE,
    REGION,
    BATCH,
    HISTORY,
    GATE,
    GATE_KB,
    STATS,
];
/// 0: nothing; 1: count faults; 2: time them as well.
pub(crate) const STATS: &str = "proc/sys/vm/cow_stats";

/// The kernel's defaults, which `ccow` sets, in the order of [`coverage_settings`].
const OWN: [u32; 8] = [80, 10, 2048, 128, 1, 1, 4096, 0];
/// CCoW (2022) has no limit of waste.
const WASTE_ALLOWED_PCT: u32 = 100;
/// Settings of the patched kernel; `None` on others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CowSettings {
    pub precopy: Option<u64>,
    pub precopy_pages: Option<u64>,
    pub precopy_order: Option<u64>,
    /// `vm.cow_precopy_ramp`: pages that a process copies before a batch takes one more.
    pub precopy_ramp: Option<u64>,
    pub threshold_pct: Option<u64>,
    pub defer: Option<u64>,
    pub stats: Option<u64>,
    /// `/proc/cow_stats` exists.
    pub counts: bool,
    /// `/proc/PID/cow_stats` exists.
    pub process_counts: bool,
}

impl CowSettings {
    /// Whether faults are counted under `policy`, for the system and for processes.
    pub fn counted(&self, policy: Policy) -> bool {
        let is_set = |setting: Option<u64>| setting.is_some_and(|value| value > 0);
        self.counts
            && self.process_counts
            && (policy != Policy::Stock || is_set(self.stats) || is_set(self.precopy))
    }
}

pub fn settings_now(root: &Root) -> CowSettings {
    probe(&Reader::new(root))
}

pub(crate) fn probe(reader: &Reader<'_>) -> CowSettings {
    let setting = |file: &str| reader.root.exists(file).then(|| reader.number(file)).flatten();
    CowSettings {
        precopy: setting(PRECOPY),
        precopy_pages: setting(PRECOPY_PAGES),
        precopy_order: setting(PRECOPY_ORDER),
        precopy_ramp: setting("proc/sys/vm/cow_precopy_ramp"),
        threshold_pct: setting(THRESHOLD),
        defer: setting(DEFER),
        stats: setting(STATS),
        counts: reader.root.exists("proc/cow_stats"),
        process_counts: reader.root.exists("proc/self/cow_stats"),
    }
}

/// Files below the root and their values, in the order in which to write them; empty for a kernel that
/// is left alone.
pub fn settings(policy: Policy) -> Vec<(&'static str, u32)> {
    let next = |pages, order| {
        vec![(DEFER, 0), (PRECOPY_PAGES, pages), (PRECOPY_ORDER, order), (PRECOPY, 1)]
    };
    match policy {
        Policy::Stock => Vec::new(),
        Policy::Off => vec![(DEFER, 0), (PRECOPY, 0)],
        Policy::Defer => vec![(PRECOPY, 0), (DEFER, 2)],
        Policy::Next(pages) => next(pages, 0),
        Policy::NextFolios(pages, order) => next(pages, order),
        Policy::Coverage => coverage_settings(OWN),
        Policy::CoverageOf(threshold, order, region) => {
            // One fault copies at most what one page table maps.
            let batch = region.min(Policy::REGION_KB);
            coverage_settings([threshold, WASTE_ALLOWED_PCT, region, batch, 0, 0, 0, order])
        }
    }
}

fn coverage_settings(values: [u32; 8]) -> Vec<(&'static str, u32)> {
    let files = [THRESHOLD, WASTE, REGION, BATCH, HISTORY, GATE, GATE_KB, PRECOPY_ORDER];
    [(DEFER, 0)].into_iter().chain(files.into_iter().zip(values)).chain([(PRECOPY, 2)]).collect()
}

/// What a kernel without this setting does.
pub(crate) fn built_in(setting: &str) -> Option<u32> {
    match setting {
        PRECOPY_PAGES => Some(1),
        PRECOPY_ORDER | DEFER => Some(0),
        _ => None,
    }
}

/// Holds the policy settings and restores them on drop.
#[derive(Debug)]
pub struct PolicyGuard {
    root: Root,
    guard: Guard,
}

impl PolicyGuard {
    /// Saves the settings, which [`PolicyGuard::set`] may then change; [`crate::usable::policy`] says
    /// whether the kernel has them. An error changes nothing.
    pub fn new(root: &Root) -> Result<PolicyGuard, GuardError> {
        // The main switches are restored first.
        let files = ALL.into_iter().rev().filter(|file| *file == PRECOPY || root.exists(file));
        Ok(PolicyGuard { root: root.clone(), guard: Guard::hold(root, files)? })
    }

    /// Switches to `policy` without counting faults; `stock` restores the old settings. Fails if the
    /// kernel refuses a value.
    pub fn set(&self, policy: Policy) -> Result<(), GuardError> {
        if policy == Policy::Stock {
            return self.guard.put_back();
        }
        for (file, value) in settings(policy) {
            if built_in(file) != Some(value) || self.root.exists(file) {
                self.guard.write(file, &value.to_string())?;
            }
        }
        match self.root.exists(STATS) {
            true => self.guard.write(STATS, "0"),
            false => Ok(()),
        }
    }

    /// The same, and counts faults if the kernel can, except under `stock`.
    pub fn set_and_count(&self, policy: Policy) -> Result<(), GuardError> {
        self.set(policy)?;
        match policy != Policy::Stock && self.root.exists(STATS) {
            true => self.guard.write(STATS, "1"),
            false => Ok(()),
        }
    }
}
