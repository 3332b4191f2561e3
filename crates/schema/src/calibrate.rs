// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `calibrate`: what a machine's forks and copies cost.

use crate::bench::bench;

bench! {
    /// The machine profile: primitive costs
    "calibrate";

    /// One invocation of calibrate, and by whose parameters all costs are stored.
    cell Primitives {
        /// Size of the pages: the base page or THP
        page_size_bytes: u64 = 4096;
        /// Other running threads of the forking process
        threads: u32 = 0;
        /// Keep the program on one CPU and the threads on others
        pinned: bool = true, unstored;
        /// Rounds of one invocation, each of which measures everything once
        rounds: u64 = 2, unstored, positional;
        /// Size of the memory that is copied, written and forked
        size_bytes: u64 = 64 << 20, unstored, positional;
    }

    metrics {
        /// a new process, its exit and the wait for it (no heap)
        new_process_ns: ns;
        /// the fork call of a process without a heap
        fork_call_ns: ns;
        /// a child's exit until the parent has waited for it (no heap)
        exit_wait_ns: ns;
        /// reaping a child that is dead already
        wait_ns: ns;
        /// copying one page-table entry at fork
        pte_ns_per_page: ns_per_page;
        /// the same for a page written since the last fork
        pte_written_ns_per_page: ns_per_page;
        /// tearing one page-table entry down at the child's exit
        pte_teardown_ns_per_page: ns_per_page;
        /// freeing one copied page at the child's exit
        copy_free_ns_per_page: ns_per_page;
        /// page-table memory that a fork duplicates
        page_table_bytes_per_page: bytes_per_page;
        /// a copy-on-write fault: trap, copy and the rest
        cow_fault_ns: ns;
        /// of it, the trap: entering and leaving the kernel
        trap_ns: ns;
        /// of it, the copy (a page-wise memcpy in user space)
        copy_ns_per_page: ns_per_page;
        /// of it, the rest: allocation, accounting, mapping, flush
        fault_rest_ns: ns;
        /// the same copies asked for by madvise, without traps
        cow_populate_ns: ns;
        /// a copy-on-write fault in a program that does something between two
        cow_among_work_ns: ns;
        /// a write-protect fault that only re-uses the page
        reuse_fault_ns: ns;
        /// a copy-on-write fault with another running thread
        cow_fault_threads_ns: ns;
        /// of it, the flush of the other CPU's TLB
        remote_flush_ns: ns;
        /// memcpy, per page of a large block
        memcpy_ns_per_page: ns_per_page;
        /// memcpy, as a rate
        memcpy_bytes_per_s: bytes_per_s;
        /// first touch of a page of free memory
        first_touch_ns_per_page: ns_per_page;
        /// the same for memory not used lately (a hypervisor's)
        cold_touch_ns_per_page: ns_per_page;
        /// reading the clock
        timer_ns: ns;
        /// copying one huge page's entry at fork
        thp_fork_among_work_ns_per_huge_page: ns_per_huge_page;
        /// the first write to a huge page: split, and copy of one base page
        thp_split_ns: ns;
        /// the same with another running thread
        thp_split_threads_ns: ns;
        /// a new process whose child may run on another CPU (no heap)
        unpinned_process_ns: ns;
        /// posix_spawn of a tiny program, among work: the parent's stop, whatever its size
        spawn_ns: ns;
        /// the first fork of a heap, per page
        first_fork_ns_per_page: ns_per_page;
        /// what a fork costs more in a program that does something between two
        fork_among_work_ns: ns;
        /// copying an entry there, of a heap that copies have scattered
        pte_among_work_ns_per_page: ns_per_page;
        /// and what it costs more there where the page was written since the last fork
        pte_written_among_work_ns_per_page: ns_per_page;
        /// copying a mapping that has pages of its own, at fork
        vma_anon_ns: ns;
        /// copying a mapping that has none
        vma_ns: ns;
    }
}
