// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's memory and its overcommit rules.

use procfs_core::Meminfo;
use serde::Serialize;

use crate::root::{Reader, Root};

/// `/proc/meminfo` (proc_meminfo(5)), sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub total_bytes: u64,
    /// MemAvailable: what a program can take without swapping, by the kernel's estimate.
    pub available_bytes: Option<u64>,
    pub free_bytes: u64,
    /// SwapTotal; 0 is a machine without swap.
    pub swap_total_bytes: u64,
    pub swap_free_bytes: u64,
    /// CommitLimit: in force only where `vm.overcommit_memory` is 2.
    pub commit_limit_bytes: Option<u64>,
    pub committed_bytes: u64,
    pub page_tables_bytes: Option<u64>,
    pub hugetlb_total_pages: Option<u64>,
    pub hugetlb_free_pages: Option<u64>,
    /// HugePages_Rsvd: free ones that are promised to mappings already.
    pub hugetlb_reserved_pages: Option<u64>,
    /// Hugepagesize: size of one page of the hugetlb pool.
    pub hugetlb_page_bytes: Option<u64>,
}

impl Memory {
    /// `None` if it cannot be read.
    pub fn read(root: &Root) -> Option<Memory> {
        probe(&Reader::new(root))
    }
}

/// `vm.overcommit_*` and the reserves (kernel: Documentation/admin-guide/sysctl/vm.rst).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Overcommit {
    /// `vm.overcommit_memory`: 0 heuristic, 1 always, 2 never beyond CommitLimit.
    pub memory: Option<u32>,
    pub ratio_percent: Option<u64>,
    /// In KiB; if not 0 it replaces the ratio.
    pub kbytes: Option<u64>,
    /// `vm.admin_reserve_kbytes` in bytes: kept from processes without CAP_SYS_ADMIN in mode 2.
    pub admin_reserve_bytes: Option<u64>,
    /// `vm.user_reserve_kbytes` in bytes: kept from one large process in mode 2.
    pub user_reserve_bytes: Option<u64>,
}

pub(crate) fn probe(reader: &Reader<'_>) -> Option<Memory> {
    let info: Meminfo = reader.parse_ascii("proc/meminfo")?;
    Some(Memory {
        total_bytes: info.mem_total,
        available_bytes: info.mem_available,
        free_bytes: info.mem_free,
        swap_total_bytes: info.swap_total,
        swap_free_bytes: info.swap_free,
        commit_limit_bytes: info.commit_limit,
        committed_bytes: info.committed_as,
        page_tables_bytes: info.page_tables,
        hugetlb_total_pages: info.hugepages_total,
        hugetlb_free_pages: info.hugepages_free,
        hugetlb_reserved_pages: info.hugepages_rsvd,
        hugetlb_page_bytes: info.hugepagesize,
    })
}

pub(crate) fn probe_overcommit(reader: &Reader<'_>) -> Overcommit {
    let sysctl = |name: &str| reader.number(&format!("proc/sys/vm/{name}"));
    let bytes = |name: &str| sysctl(name).map(|kib| kib.saturating_mul(1024));
    Overcommit {
        memory: sysctl("overcommit_memory").and_then(|mode| u32::try_from(mode).ok()),
        ratio_percent: sysctl("overcommit_ratio"),
        kbytes: sysctl("overcommit_kbytes"),
        admin_reserve_bytes: bytes("admin_reserve_kbytes"),
        user_reserve_bytes: bytes("user_reserve_kbytes"),
    }
}
