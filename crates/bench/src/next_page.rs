// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pre-copy`: the next-page study's workloads under its policy, and the depths beyond it. Its
//! samples are those of `cow-faults`.

use cowlab_schema::cow_faults::CowFaults;
use cowlab_schema::{Counting, Pattern, Policy};

use crate::cow_faults::{SIZES_BYTES, repetitions_of};

pub const NAME: &str = "pre-copy";

/// What is measured, for a kernel that has `depths`: every pattern and size with the policy off and
/// at depth 1, the depths at the larger size, and the same with a second running thread.
pub fn plan(
    page: u64,
    depths: &[u32],
    other_cpus: bool,
    counting: Counting,
    seed: u64,
) -> Vec<CowFaults> {
    let cell = |pattern, size_bytes, policy| CowFaults {
        pattern,
        size_bytes,
        page_size_bytes: page,
        policy,
        counting,
        repetitions: repetitions_of(pattern, counting),
        seed,
        ..CowFaults::default()
    };
    let off_and = |depths: &[u32]| -> Vec<Policy> {
        [Policy::Off].into_iter().chain(depths.iter().map(|depth| Policy::Next(*depth))).collect()
    };
    let [small, large] = SIZES_BYTES;
    let mut cells = Vec::new();
    let first = off_and(&depths[..depths.len().min(1)]);
    for policy in first {
        for pattern in [Pattern::Sequential, Pattern::Random] {
            cells.push(cell(pattern, small, policy));
        }
    }
    for policy in off_and(depths) {
        cells.push(cell(Pattern::Single, small, policy));
        for pattern in [Pattern::Sequential, Pattern::Random] {
            cells.push(cell(pattern, large, policy));
            if other_cpus {
                cells.push(CowFaults { threads: 1, ..cell(pattern, large, policy) });
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cowlab_schema::Cell;

    use super::*;

    #[test]
    fn every_cell_is_there_once() {
        let depths = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
        let cells = plan(4096, &depths, true, Counting::Times, 1);
        let names: BTreeSet<String> =
            cells.iter().map(|cell| format!("{:?}", cell.params())).collect();
        assert_eq!(names.len(), cells.len());
        // 2 patterns with 2 policies at 16 MiB; 11 policies: single, and 2 patterns with 0 and 1 thread.
        assert_eq!(cells.len(), 4 + 11 * 5);
        assert!(cells.iter().all(|cell| cell.check().is_ok()));
        assert!(plan(4096, &depths, false, Counting::None, 1).iter().all(|c| c.threads == 0));
        assert!(plan(4096, &[], true, Counting::None, 1).iter().all(|c| c.policy == Policy::Off));
    }
}
