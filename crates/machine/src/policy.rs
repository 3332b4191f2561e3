// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copy-on-write policies of the patched kernel: the Copy-on-Write Optimization Study's and CCoW's, and
//! the settings that choose among them.

use cowlab_schema::Policy;
use serde::Serialize;

use crate::guard::{Guard, GuardError};
use crate::root::{Reader, Root};

/// 0: copy only the written page; 1: its neighbours too; 2: its region; 3: a piece of that, tuned.
pub(crate) const PRECOPY: &str = "proc/sys/vm/cow_precopy";
pub(crate) const PRECOPY_PAGES: &str = "proc/sys/vm/cow_precopy_pages";
/// A region is copied from this coverage on, in percent.
pub(crate) const THRESHOLD: &str = "proc/sys/vm/cow_threshold_pct";
pub(crate) const REGION: &str = "proc/sys/vm/cow_region_kb";
/// A process is watched from this fork on.
pub(crate) const GATE: &str = "proc/sys/vm/cow_gate_forks";
/// 0: fork copies page tables; above, it defers that, and a child begins to copy after so many ms.
pub(crate) const DEFER: &str = "proc/sys/vm/cow_defer";
/// Every setting that a policy or a measurement changes.
pub(crate) const ALL: [&str; 7] = [DEFER, PRECOPY, PRECOPY_PAGES, THRESHOLD, REGION, GATE, STATS];
/// 0: nothing; 1: count faults; 2: time them as well.
pub(crate) const STATS: &str = "proc/sys/vm/cow_stats";

/// After so many ms a child copies the page tables that nobody has needed.
const DEFER_MS: u32 = 5;
/// Settings of the patched kernel; `None` on others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CowSettings {
    pub precopy: Option<u64>,
    pub precopy_pages: Option<u64>,
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
    match policy {
        Policy::Stock => Vec::new(),
        Policy::Off => vec![(DEFER, 0), (PRECOPY, 0)],
        Policy::Defer => vec![(PRECOPY, 0), (DEFER, DEFER_MS)],
        Policy::Next(pages) => vec![(DEFER, 0), (PRECOPY_PAGES, pages), (PRECOPY, 1)],
        // The kernel's defaults.
        Policy::Coverage => coverage_settings(80, Policy::REGION_KB, 1, 3),
        Policy::CoverageOf(threshold, region) => coverage_settings(threshold, region, 0, 2),
    }
}

fn coverage_settings(
    threshold: u32,
    region: u32,
    gate: u32,
    precopy: u32,
) -> Vec<(&'static str, u32)> {
    vec![(DEFER, 0), (THRESHOLD, threshold), (REGION, region), (GATE, gate), (PRECOPY, precopy)]
}

/// What a kernel without this setting does.
pub(crate) fn built_in(setting: &str) -> Option<u32> {
    match setting {
        PRECOPY_PAGES => Some(1),
        DEFER => Some(0),
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
