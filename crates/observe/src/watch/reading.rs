// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is read of a process at every refresh: files whose cost does not grow with its memory.

use std::fs;

use cowlab_machine::{Stat, status};
use cowlab_schema::live;
use serde::Serialize;

use super::ends;
use crate::bpf::Counts;

live! {
    "watch";
    /// A process's counters and sizes at one moment; `None` where this kernel or the rights do not give them.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
    pub struct Reading {
        /// Minor faults since it started.
        minor_faults: u64;
        /// Its faults as BPF counts them.
        counts: Option<Counts>;
        /// Threads.
        threads: Option<u64> => words "threads {}";
        /// Resident memory
        rss_bytes: Option<u64> => sample "rss_bytes" in bytes, words "RSS {}" in bytes;
        /// RssAnon: what a fork shares and a write then copies.
        anonymous_bytes: Option<u64> => words "a fork would share {}" in bytes;
        /// Memory of its page tables: what a fork copies at once
        page_table_bytes: Option<u64> => sample "page_table_bytes" in bytes, words "page tables {}" in bytes;
        /// VmSwap.
        swapped_bytes: Option<u64>;
        /// VmData and VmStk: what a fork asks the kernel to promise, where it promises no more than there is.
        commit_bytes: Option<u64>;
    }
}

/// Who a pid is and what it has; `None` once it has ended.
pub(super) fn read(pid: u32) -> Option<(Stat, Reading)> {
    read_even_ended(pid).filter(|(stat, _)| !ends::has_ended(pid, stat))
}

/// The same of one that has ended, too, until it is reaped: its counters stay.
pub(super) fn read_even_ended(pid: u32) -> Option<(Stat, Reading)> {
    let stat = Stat::read(pid)?;
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    Some((stat.clone(), decode(&stat, &String::from_utf8_lossy(&status))))
}

/// Who a pid is, by the cheaper half.
pub(super) fn read_stat(pid: u32) -> Option<Stat> {
    Stat::read(pid).filter(|stat| !ends::has_ended(pid, stat))
}

/// Decodes `status` (proc_pid_status(5)) beside an understood `stat`.
fn decode(stat: &Stat, status: &str) -> Reading {
    let bytes = |key: &str| status::bytes(status, key);
    Reading {
        minor_faults: stat.minor_faults,
        counts: None,
        threads: status::field(status, "Threads").and_then(|threads| threads.parse().ok()),
        rss_bytes: bytes("VmRSS"),
        anonymous_bytes: bytes("RssAnon"),
        page_table_bytes: bytes("VmPTE"),
        swapped_bytes: bytes("VmSwap"),
        commit_bytes: bytes("VmData").zip(bytes("VmStk")).map(|(data, stack)| data + stack),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_lines_are_none() {
        let stat = Stat { minor_faults: 7, ..Stat::default() };
        let status = "Name:\tVmRSS\nVmData:\t 8 kB\nVmStk:\t 4 kB\nVmRSS:\t     100 kB\nVmPTE:\t 4 kB\nThreads:\t3\n";
        let reading = decode(&stat, status);
        assert_eq!((reading.minor_faults, reading.threads), (7, Some(3)));
        assert_eq!((reading.rss_bytes, reading.page_table_bytes), (Some(102_400), Some(4096)));
        assert_eq!((reading.anonymous_bytes, reading.swapped_bytes), (None, None));
        assert_eq!(reading.commit_bytes, Some(12 << 10));
        assert_eq!(decode(&stat, "VmData:\t8 kB\n").commit_bytes, None);
    }

    #[test]
    fn this_process_can_be_read() {
        let (stat, reading) = read(std::process::id()).unwrap();
        assert!(stat.start_ticks > 0 && reading.minor_faults > 0);
        assert!(reading.rss_bytes > Some(0));
        assert!(read(u32::MAX).is_none());
    }
}
