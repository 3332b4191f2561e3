// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a machine's forks and copies cost: the half of a prediction that does not depend on the
//! program.

use std::collections::BTreeMap;

pub use cowlab_schema::Writer;
use serde::{Deserialize, Serialize};

use crate::stats::Estimate;

/// One primitive cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// What it is, in plain words.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The figure and its interval.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// A quantity that was measured in several rounds: its median, and how far rounds differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Median over the rounds, in ns.
    pub ns: f64,
    /// Standard deviation of the rounds' logarithms.
    pub log_spread: f64,
}

/// Fork cycles of a heap of one size: nothing written, and (where measured) everything.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CyclePoint {
    /// Base pages in the heap.
    pub pages: u64,
    /// The fork call; no page was written since the last fork.
    pub fork: Measured,
    /// The rest: starting the child, its exit and the wait for it.
    pub rest: Measured,
    /// The same with every page written once after each fork.
    pub written: Option<WrittenCycle>,
}

/// A fork cycle in which every page is written.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WrittenCycle {
    /// The fork call: entries that the parent wrote must be write-protected again.
    pub fork: Measured,
    /// The writes.
    pub write: Measured,
    /// The rest, freeing the copies included.
    pub rest: Measured,
}

/// Fork cycles by size of the heap, smallest first; the first has no heap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CycleCurve {
    /// Who writes.
    pub writer: Writer,
    /// Other running threads of the forking process.
    pub threads: u32,
    /// Rounds that the figures rest on.
    pub rounds: u32,
    /// Relative error of predictions at sizes and fractions that were measured with the others but
    /// used for no fit: the 95th percentile of its size over 1.96; absent if none were.
    pub misfit: Option<f64>,
    /// The sizes.
    pub points: Vec<CyclePoint>,
}

/// What copying one entry costs at a fork among work, in a heap of so many pages that copies have
/// scattered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EntryPoint {
    /// Base pages in the heap.
    pub pages: u64,
    /// One entry.
    pub entry: Measured,
}

/// What a copy costs a program that does so much between two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PacePoint {
    /// CPU time of its own between two copies.
    pub own_ns: f64,
    /// One copy.
    pub copy: Measured,
}

/// A machine profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineProfile {
    /// Size of a base page.
    pub page_size_bytes: u64,
    /// Size of a huge page, where its costs were measured.
    pub huge_page_bytes: Option<u64>,
    /// Primitive costs by name: `trap_ns`, `pte_ns_per_page`, …; absent if not measured.
    pub costs: BTreeMap<String, Cost>,
    /// Fork cycles of base pages, for each writer and number of threads.
    pub curves: Vec<CycleCurve>,
    /// Entries among work by size of the heap, smallest first; empty in profiles of before they were
    /// measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries_among_work: Vec<EntryPoint>,
    /// Copies by the program's own work between two, least first, where its writes are scattered; empty in
    /// profiles of before they were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies_by_pace: Vec<PacePoint>,
    /// The same where it writes page after page, as a sweep does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies_in_order: Vec<PacePoint>,
    /// Whether it is of no machine in particular: [`MachineProfile::usual`].
    #[serde(skip)]
    pub is_usual: bool,
}

/// A quiet calibration of a virtual machine (Linux 6.18, two CPUs), with one size of heap.
const MEASURED: &str = include_str!("usual.json");
/// Of what it measured, what usual costs are: a physical machine's are about a third (Redis's
/// documentation gives 9 ms/GB for the stop, which is 34 ns an entry).
const USUAL_SHARE: f64 = 0.6;
/// And how many times less or more they may be on a machine that was never looked at.
pub const USUAL_FACTOR: f64 = 3.0;

impl MachineProfile {
    /// What forks usually cost, for a machine that was not calibrated: every figure that follows from it
    /// may be [`USUAL_FACTOR`] times too large or too small.
    pub fn usual() -> MachineProfile {
        let mut usual: MachineProfile = serde_json::from_str(MEASURED).expect("it is our own file");
        usual.is_usual = true;
        usual.scaled(USUAL_SHARE)
    }

    /// The same machine, `factor` times as slow.
    pub fn scaled(mut self, factor: f64) -> MachineProfile {
        for cost in self.costs.values_mut().filter(|cost| cost.unit.starts_with("ns")) {
            cost.estimate = cost.estimate.scaled(factor);
        }
        let scale = |measured: &mut Measured| measured.ns *= factor;
        for curve in &mut self.curves {
            for point in &mut curve.points {
                [&mut point.fork, &mut point.rest].into_iter().for_each(scale);
                let written = point.written.as_mut().into_iter();
                written
                    .flat_map(|cycle| [&mut cycle.fork, &mut cycle.write, &mut cycle.rest])
                    .for_each(scale);
            }
        }
        self.entries_among_work.iter_mut().for_each(|point| scale(&mut point.entry));
        for point in self.copies_by_pace.iter_mut().chain(&mut self.copies_in_order) {
            point.own_ns *= factor;
            scale(&mut point.copy);
        }
        self
    }

    /// Whether its page sizes are some: figures are divided by them.
    pub fn has_page_sizes(&self) -> bool {
        let sizes = [Some(self.page_size_bytes), self.huge_page_bytes];
        sizes.iter().flatten().all(|size| size.is_power_of_two())
    }

    /// The median of a primitive cost.
    pub fn cost(&self, name: &str) -> Option<f64> {
        self.costs.get(name).map(|cost| cost.estimate.value)
    }
}
