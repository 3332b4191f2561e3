// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel copies when a shared page is written: the policies of documents 002 and 003, and
//! the patched kernel's settings that choose among them.

use cowlab_schema::Policy;
use serde::Serialize;

use crate::guard::{Guard, GuardError};
use crate::root::{Reader, Root};

/// 0: copy only the page that was written; 1: its neighbours ahead as well; 2: its region.
pub(crate) const PRECOPY: &str = "proc/sys/vm/cow_precopy";
pub(crate) const PRECOPY_PAGES: &str = "proc/sys/vm/cow_precopy_pages";
/// The order of the folios that aligned runs of copies go into; 0: base pages.
pub(crate) const PRECOPY_ORDER: &str = "proc/sys/vm/cow_precopy_order";
/// From which coverage on a region is copied, in percent.
pub(crate) const THRESHOLD: &str = "proc/sys/vm/cow_threshold_pct";
/// How much of the copies a process may waste before its own threshold rises, in percent.
pub(crate) const WASTE: &str = "proc/sys/vm/cow_waste_pct";
/// The size of a region, in KiB.
pub(crate) const REGION: &str = "proc/sys/vm/cow_region_kb";
/// How much of a region one fault copies, in KiB.
pub(crate) const BATCH: &str = "proc/sys/vm/cow_batch_kb";
/// Which pages: 0, all of a region; else, anywhere, those written in as many of the last epochs.
pub(crate) const HISTORY: &str = "proc/sys/vm/cow_history";
/// From which of its forks on a process is watched.
pub(crate) const GATE: &str = "proc/sys/vm/cow_gate_forks";
/// From how much anonymous memory on, in KiB.
pub(crate) const GATE_KB: &str = "proc/sys/vm/cow_gate_kb";
/// 0: fork copies page tables; 2: it leaves them for later, in every process.
pub(crate) const DEFER: &str = "proc/sys/vm/cow_defer";
/// Every setting that a policy may change, and those that measurements do.
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

/// What `ccow` sets: the kernel's own defaults, in the order of [`coverage_settings`].
const OWN: [u32; 8] = [80, 10, 2048, 128, 1, 1, 4096, 0];
/// What document 003 has: no limit of waste, regions of 2 MiB that are copied whole, of any process.
const WASTE_ALLOWED_PCT: u32 = 100;
/// The settings of a kernel with document 002's policies; each is `None` on one without it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CowSettings {
    /// `vm.cow_precopy`.
    pub precopy: Option<u64>,
    /// `vm.cow_precopy_pages`.
    pub precopy_pages: Option<u64>,
    /// `vm.cow_precopy_order`.
    pub precopy_order: Option<u64>,
    /// `vm.cow_precopy_ramp`: pages that a process copies before a batch takes one more.
    pub precopy_ramp: Option<u64>,
    /// `vm.cow_threshold_pct`.
    pub threshold_pct: Option<u64>,
    /// `vm.cow_defer`.
    pub defer: Option<u64>,
    /// `vm.cow_stats`.
    pub stats: Option<u64>,
    /// Whether there is `/proc/cow_stats`.
    pub counts: bool,
    /// Whether there is `/proc/PID/cow_stats`.
    pub process_counts: bool,
}

impl CowSettings {
    /// Whether faults are counted while `policy` is set, of the whole system and of a process.
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

/// The kernel's settings, as files below the root, with their values, in the order in which they
/// are to be written; none of a kernel that is left as it is.
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
            // A fault copies what one page-table page maps at the most.
            let batch = region.min(Policy::REGION_KB);
            coverage_settings([threshold, WASTE_ALLOWED_PCT, region, batch, 0, 0, 0, order])
        }
    }
}

fn coverage_settings(values: [u32; 8]) -> Vec<(&'static str, u32)> {
    let files = [THRESHOLD, WASTE, REGION, BATCH, HISTORY, GATE, GATE_KB, PRECOPY_ORDER];
    [(DEFER, 0)].into_iter().chain(files.into_iter().zip(values)).chain([(PRECOPY, 2)]).collect()
}

/// What a kernel without the setting does.
pub(crate) fn built_in(setting: &str) -> Option<u32> {
    match setting {
        PRECOPY_PAGES => Some(1),
        PRECOPY_ORDER | DEFER => Some(0),
        _ => None,
    }
}

/// Holds the policy settings of a kernel that has them, and puts them back when it is dropped.
#[derive(Debug)]
pub struct PolicyGuard {
    root: Root,
    guard: Guard,
}

impl PolicyGuard {
    /// Remembers the settings as they are; [`PolicyGuard::set`] may then change them. Whether the
    /// kernel has them is [`crate::usable::policy`]'s to say. An error changes nothing.
    pub fn new(root: &Root) -> Result<PolicyGuard, GuardError> {
        // What switches the others on is put back first.
        let files = ALL.into_iter().rev().filter(|file| *file == PRECOPY || root.exists(file));
        Ok(PolicyGuard { root: root.clone(), guard: Guard::hold(root, files)? })
    }

    /// Switches to `policy`, which alone decides whether faults are counted; `stock` is what there
    /// was. Fails, too, on a value that the kernel refuses.
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

    /// The same, and faults are counted where the kernel can, unless it is left as it is.
    pub fn set_and_count(&self, policy: Policy) -> Result<(), GuardError> {
        self.set(policy)?;
        match policy != Policy::Stock && self.root.exists(STATS) {
            true => self.guard.write(STATS, "1"),
            false => Ok(()),
        }
    }
}
