// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ccow`: the paper CCoW (2022) whole. Its microbenchmark and its Redis under its policies and the
//! kernel's own, and the writes from which predictions take what batches cost. All of a round are
//! measured in one order, so that every figure of the document stands beside one of the same hour.

use std::rc::Rc;

use cowlab_machine::{Policy, PolicyGuard};
use cowlab_schema::Counting;
use cowlab_schema::cow_faults::CowFaults;
use cowlab_schema::redis::Store;
use cowlab_schema::snapshot::Snapshot;

use crate::redis::{self, Redis};
use crate::snapshot::{self, ALPHAS};
use crate::{Task, cow_faults, next_page};

pub const NAME: &str = "ccow";

/// The exponent of the document's Figure 3, and its threshold in percent.
const REGIONS_ALPHA: f64 = 1.0;
const THRESHOLD: u32 = 80;

/// Depths from which the cost of a batch is interpolated.
const DEPTHS: [u32; 4] = [1, 16, 128, 512];

/// What is compared: in the document plain copy-on-write, all regions and its thresholds; and the kernel's own policy.
pub struct Compared {
    pub thresholds: Vec<u32>,
    /// Region sizes of the document's Figure 3, in KiB.
    pub regions: Vec<u32>,
    /// The size of huge pages, if there are any.
    pub huge_page: Option<u64>,
}

impl Compared {
    fn policies(&self) -> Vec<Policy> {
        let of = |&threshold: &u32| Policy::CoverageOf(threshold, Policy::REGION_KB);
        let thresholds = self.thresholds.iter().map(of);
        [Policy::Off, Policy::Coverage, of(&0)].into_iter().chain(thresholds).collect()
    }
}

/// In huge pages: plain copy-on-write, and the kernel's own policy for what the first write has split.
const HUGE: [Policy; 2] = [Policy::Off, Policy::Coverage];

/// The microbenchmark: `one` at each exponent; where the document has figures of it under all that is compared, else
/// under the kernel's own policy.
pub fn snapshots(one: &Snapshot, exponents: &[f64], compared: &Compared) -> Vec<Snapshot> {
    let mut cells = Vec::new();
    for &zipf_alpha in exponents {
        let of = |policy| Snapshot { zipf_alpha, policy, ..one.clone() };
        if !ALPHAS.contains(&zipf_alpha) {
            cells.extend([Policy::Off, Policy::Coverage].map(of));
            continue;
        }
        cells.extend(compared.policies().into_iter().map(of));
        let huge = |bytes| HUGE.map(|policy| Snapshot { page_size_bytes: bytes, ..of(policy) });
        cells.extend(compared.huge_page.into_iter().flat_map(huge));
        if zipf_alpha == REGIONS_ALPHA {
            let others = compared.regions.iter().filter(|kib| **kib != Policy::REGION_KB);
            cells.extend(others.map(|kib| of(Policy::CoverageOf(THRESHOLD, *kib))));
        }
    }
    cells
}

/// The servers: `one` under each policy, and in huge pages.
pub fn servers(one: &Redis, compared: &Compared) -> Vec<Redis> {
    let of = |policy, page_size_bytes| {
        let store = Store { policy, page_size_bytes, ..one.store.clone() };
        Redis { store, ..one.clone() }
    };
    let own = compared.policies().into_iter().map(|policy| of(policy, one.store.page_size_bytes));
    let huge = |bytes| HUGE.map(|policy| of(policy, bytes));
    own.chain(compared.huge_page.into_iter().flat_map(huge)).collect()
}

/// Writes after one fork, from which predictions take what a batch costs.
pub fn sweep(page: u64, counting: Counting, seed: u64) -> Vec<CowFaults> {
    let mut cells = next_page::plan(page, &DEPTHS, false, counting, seed);
    let largest = cells.iter().map(|cell| cell.size_bytes).max();
    cells.retain(|cell| Some(cell.size_bytes) == largest);
    cells
}

pub struct CcowPlan {
    pub snapshots: Vec<Snapshot>,
    pub servers: Vec<Redis>,
    pub sweep: Vec<CowFaults>,
}

impl CcowPlan {
    pub fn policies(&self) -> Vec<Policy> {
        let snapshots = self.snapshots.iter().map(|cell| cell.policy);
        let servers = self.servers.iter().map(|cell| cell.store.policy);
        let sweep = self.sweep.iter().map(|cell| cell.policy);
        snapshots.chain(servers).chain(sweep).collect()
    }

    /// Its tasks; servers and sweep, which take longer, in the first `fewer` rounds.
    pub fn tasks(self, page: u64, fewer: u32, guard: &Option<Rc<PolicyGuard>>) -> Vec<Task> {
        let others = redis::tasks(self.servers, page, guard.clone())
            .into_iter()
            .chain(cow_faults::tasks(self.sweep, guard.clone()))
            .map(|task| task.at_most(fewer));
        let snapshots = snapshot::tasks(&self.snapshots, None, page, guard.clone());
        snapshots.into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use cowlab_schema::settings::ccow::{REGIONS_KIB, THRESHOLDS_PERCENT};
    use cowlab_schema::{Field, Key};

    use super::*;

    #[test]
    fn every_figure_of_the_document_is_in_it() {
        let one = Snapshot { size_bytes: 16 << 20, writes: 20_000, ..Snapshot::default() };
        let usual = |key: &Key<u32>| {
            let values = key.default().unwrap();
            values.split(',').map(|value| value.parse().unwrap()).collect()
        };
        let (thresholds, regions) = (usual(&THRESHOLDS_PERCENT), usual(&REGIONS_KIB));
        let mut compared = Compared { thresholds, regions, huge_page: Some(2 << 20) };
        let cells = snapshots(&one, &[0.0, 0.5, 0.9, 1.0, 1.1, 1.3], &compared);
        let at = |alpha: f64| cells.iter().filter(move |cell| cell.zipf_alpha == alpha);
        let has =
            |alpha: f64, policy: &str| at(alpha).any(|cell| cell.policy.to_string() == policy);
        // Figure 3.
        for kib in [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192] {
            let own = Policy::CoverageOf(80, kib).to_string();
            assert!(has(1.0, &own), "{own}");
        }
        // Figures 4 to 6.
        for alpha in ALPHAS {
            for policy in ["off", "ccow:70", "ccow:80", "ccow:95", "ccow:0", "ccow"] {
                assert!(has(alpha, policy), "{alpha} {policy}");
            }
            assert_eq!(at(alpha).filter(|cell| cell.page_size_bytes > 4096).count(), 2);
        }
        for alpha in [0.0, 0.5, 1.3] {
            assert_eq!(at(alpha).count(), 2);
        }
        compared.huge_page = None;
        let cells_without = snapshots(&one, &[1.0], &compared);
        assert!(cells_without.iter().all(|cell| cell.page_size_bytes == 4096));
        let twice = cells.iter().enumerate().any(|(n, cell)| cells[..n].contains(cell));
        assert!(!twice);
    }
}
