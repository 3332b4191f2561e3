// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a policy of copying ahead changes for a store that takes snapshots (document 003, section
//! 4.1): the benchmark's writes once more, with measured costs for time.
//!
//! Each write chooses a block by Zipf's law; the first to a page since a fork is a fault, which costs
//! what the pages cost that it copies. Nothing else is known of the machine: what caches and flushes
//! do is in the costs, which are measured.

mod costs;
mod space;
mod zipf;

pub use costs::{Batch, Costs};

use serde::Serialize;

use space::Space;
use zipf::Zipf;

/// Entries of a page table on x86-64: no policy copies beyond one.
const TABLE_PAGES: usize = 512;

/// The benchmark's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Store {
    /// Pages of the space.
    pub pages: usize,
    /// Blocks in a page, at least 1.
    pub blocks_per_page: usize,
    /// Zipf's exponent.
    pub zipf_alpha: f64,
    /// Whether the blocks lie anywhere, and not in the order of their ranks.
    pub scattered: bool,
    /// Writes in all.
    pub writes: u64,
    /// Time between forks; `None`: never.
    pub interval_ns: Option<f64>,
    /// Whether a fork and an interval, which are not measured, come before a first fork that is.
    pub steady: bool,
    /// Seed of the choice of blocks.
    pub seed: u64,
}

/// Which pages are copied beside the one that is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ahead {
    /// None.
    Nothing,
    /// So many that follow it, where they are shared.
    Next(usize),
    /// All of its region, if so many percent of it were written between the last two forks.
    Region {
        /// Pages of a region.
        pages: usize,
        /// The threshold.
        threshold_percent: usize,
    },
    /// Of the 128 KiB around it what was written between the last two forks.
    Again {
        /// The share of copies that may be wasted before more epochs are asked, in percent.
        waste_percent: usize,
    },
}

/// How it went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Course {
    /// From the first write to the last.
    pub elapsed_ns: f64,
    /// Forks.
    pub forks: u64,
    /// Writes that faulted.
    pub faults: u64,
    /// Pages copied ahead.
    pub ahead_pages: u64,
    /// Of them, those that were not written before the next fork, or the end.
    pub wasted_pages: u64,
}

impl Course {
    /// Writes a second.
    pub fn throughput_per_s(&self, store: &Store) -> f64 {
        store.writes as f64 * 1e9 / self.elapsed_ns
    }
}

/// Make the writes.
pub fn run(store: &Store, ahead: Ahead, costs: &Costs) -> Course {
    let mut zipf = Zipf::new(store);
    let mut space = Space::new(store.pages, ahead);
    let (mut now_ns, mut forked_ns) = (0.0, 0.0);
    let mut course = Course::default();
    let mut began_ns = 0.0;
    if let Some(interval_ns) = store.interval_ns.filter(|_| store.steady) {
        // Other choices, so that what is measured is the same however long it takes.
        let (mut others, mut unmeasured) = (zipf.others(), Course::default());
        space.fork(&mut unmeasured);
        for _ in 0..store.writes / 2 {
            now_ns += costs.write_ns;
            now_ns += space.write(others.next_page(), costs, &mut unmeasured);
            if now_ns >= interval_ns {
                break;
            }
        }
        space.fork(&mut unmeasured);
        (began_ns, forked_ns) = (now_ns, now_ns);
        now_ns += costs.fork_ns;
        course.forks = 1;
    }
    for written in 0..store.writes {
        now_ns += costs.write_ns;
        now_ns += space.write(zipf.next_page(), costs, &mut course);
        // An older run's first comes in the middle at the latest.
        let late = course.forks == 0 && 2 * (written + 1) >= store.writes;
        let due = store.interval_ns.is_some_and(|interval| now_ns - forked_ns >= interval || late);
        if due && written + 1 < store.writes {
            forked_ns = now_ns;
            now_ns += costs.fork_ns;
            space.fork(&mut course);
            course.forks += 1;
        }
    }
    space.end(&mut course);
    course.elapsed_ns = now_ns - began_ns;
    course
}

/// The cost of a fault with which plain copy-on-write takes so long, by bisection: forks come after
/// equal times, so what a fault costs decides how many there are. `None` where it would be nothing.
pub fn fault_ns(store: &Store, costs: &Costs, elapsed_ns: f64) -> Option<f64> {
    let takes_ns = |ns: f64| run(store, Ahead::Nothing, &costs.with_fault_ns(ns)).elapsed_ns;
    let (mut low, mut high) = (0.0, costs.fault_ns());
    while takes_ns(high) < elapsed_ns {
        (low, high) = (high, 2.0 * high);
        if high > MOST_NS {
            return None;
        }
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if takes_ns(middle) < elapsed_ns {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low > 0.0).then_some(high)
}

/// To a thousandth of a fault's cost.
const HALVINGS: u32 = 11;
/// No fault takes a tenth of a second: there were none to take any time.
const MOST_NS: f64 = 1e8;

#[cfg(test)]
mod tests;
