// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragmentation of free memory, and the allocations that stalled or failed.

use procfs_core::VmStat;

use crate::root::{ReadError, Root};

const BUDDY: &str = "proc/buddyinfo";
const VMSTAT: &str = "proc/vmstat";

/// At one moment; counts are since boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragmentation {
    /// Free blocks of 2^index base pages, of all zones (proc_buddyinfo(5)).
    free_blocks: Vec<u64>,
    /// `allocstall_*`: allocations that had to reclaim memory themselves.
    pub stalls: u64,
    /// `compact_fail`. `None` without CONFIG_COMPACTION.
    pub compaction_failures: Option<u64>,
    /// `thp_fault_fallback`: faults that got no huge page. `None` without THP.
    pub huge_page_failures: Option<u64>,
}

impl Fragmentation {
    /// `None` if the kernel does not say.
    pub fn read(root: &Root) -> Result<Option<Fragmentation>, ReadError> {
        let (Some(buddy), Some(VmStat(counts))) = (root.read(BUDDY)?, root.parse(VMSTAT)?) else {
            return Ok(None);
        };
        let malformed = |line: &str| ReadError::Malformed {
            path: root.path(BUDDY),
            reason: format!("{line:?} is not `Node 0, zone Normal` and numbers"),
        };
        let mut free_blocks = Vec::new();
        for line in buddy.lines() {
            // After `Node 0, zone NAME`.
            for (order, number) in line.split_whitespace().skip(4).enumerate() {
                let number: u64 = number.parse().map_err(|_| malformed(line))?;
                if order == free_blocks.len() {
                    free_blocks.push(0);
                }
                free_blocks[order] += number;
            }
        }
        if free_blocks.is_empty() {
            return Err(malformed(&buddy));
        }
        let count = |name: &str| counts.get(name).and_then(|value| u64::try_from(*value).ok());
        let stalls = counts.iter().filter(|(name, _)| name.starts_with("allocstall_"));
        Ok(Some(Fragmentation {
            stalls: stalls.filter_map(|(_, value)| u64::try_from(*value).ok()).sum(),
            free_blocks,
            compaction_failures: count("compact_fail"),
            huge_page_failures: count("thp_fault_fallback"),
        }))
    }

    /// The share of free memory in blocks smaller than 2^`order` pages (the kernel's unusable free
    /// space index); `None` if nothing is free.
    pub fn unusable_ratio(&self, order: u32) -> Option<f64> {
        let pages = |(order, blocks): (usize, &u64)| blocks << order;
        let free: u64 = self.free_blocks.iter().enumerate().map(pages).sum();
        let usable: u64 = self.free_blocks.iter().enumerate().skip(order as usize).map(pages).sum();
        (free > 0).then(|| (free - usable) as f64 / free as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(buddy: &str, vmstat: &str) -> Result<Option<Fragmentation>, ReadError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join(BUDDY), buddy).unwrap();
        std::fs::write(folder.path().join(VMSTAT), vmstat).unwrap();
        Fragmentation::read(&Root::new(folder.path()))
    }

    #[test]
    fn blocks_of_all_zones_are_added_up() {
        let buddy = "Node 0, zone      DMA      0      2      1\n\
                     Node 0, zone   Normal      4      0      5\n";
        let vmstat = "allocstall_dma 1\nallocstall_normal 2\ncompact_fail 3\nnr_free 9\n";
        let found = read(buddy, vmstat).unwrap().unwrap();
        assert_eq!(found.free_blocks, [4, 2, 6]);
        assert_eq!((found.stalls, found.compaction_failures), (3, Some(3)));
        assert_eq!(found.huge_page_failures, None);
        assert_eq!(found.unusable_ratio(0), Some(0.0));
        assert_eq!(found.unusable_ratio(2), Some(8.0 / 32.0));
        assert_eq!(found.unusable_ratio(9), Some(1.0));
    }

    #[test]
    fn what_is_not_told_is_absent_and_what_is_broken_an_error() {
        assert_eq!(Fragmentation::read(&Root::new("/nonexistent")).unwrap(), None);
        let full = read("Node 0, zone Normal 0 0\n", "compact_fail 0\n").unwrap().unwrap();
        assert_eq!(full.unusable_ratio(0), None);
        for buddy in ["", "Node 0, zone Normal x\n"] {
            assert!(read(buddy, "compact_fail 0\n").is_err(), "{buddy:?}");
        }
    }
}
