// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cow-faults`: the workloads of the Copy-on-Write Optimization Study.

use crate::bench::bench;
use crate::{Counting, Pattern, Policy, Quantile, Writer};

bench! {
    /// Each write after a fork: the workloads of the Copy-on-Write Optimization Study
    "cow-faults";

    /// One invocation of cow_faults.
    cell CowFaults, check {
        /// The order of the writes
        pattern: Pattern = Pattern::Single, flag, sweep("single,sequential,random");
        /// Memory that the fork shares
        size_bytes: u64 = 16 << 20, flag, size, positional, sweep("16MiB,64MiB");
        /// Who writes: every child, or the parent
        writer: Writer = Writer::Child, flag, only(&[Writer::Child, Writer::Parent]);
        /// Children alive at once
        children: u32 = 1, flag, within(1.0, 64.0);
        /// Other running threads of each writing process
        threads: u32 = 0, flag, within(0.0, 64.0);
        /// Size of the memory's pages
        page_size_bytes: u64 = 4096, flag, size, by_machine("the base page");
        /// Keep parent and children on one CPU and the threads on others; several children share
        /// the machine's CPUs in any case
        pinned: bool = true, set;
        /// What the kernel copies at a fault
        policy: Policy = Policy::Stock, flag, apart;
        /// What a kernel that counts is asked for
        counting: Counting = Counting::None, unstored;
        /// Repetitions, in turn untimed, timed write by write and, if asked for, timed by the kernel
        repetitions: u64 = 2, unstored;
        /// Repetitions before them that are not measured: from a writing parent's the kernel may
        /// learn
        unmeasured: u64 = 0, unstored;
        /// Seed of the random order
        seed: u64 = 0, unstored;
    }

    parts {
        /// Of a distribution
        quantile: Quantile;
    }

    metrics {
        /// All writes of an untimed repetition, of the slowest writer
        elapsed_ns: ns;
        /// The same, as the instructions that an emulated CPU executed
        elapsed_instructions: instructions;
        /// Pages that were written in a repetition, of all writers
        pages_written: pages;
        /// Minor faults over the writes, of all writers
        minor_faults: faults;
        /// A time-stamp with its store, which is taken off each write
        timer_ns: ns;
        /// One write, by quantile
        fault_ns: ns;
        /// The same, as instructions
        fault_instructions: instructions;
        /// On a patched kernel: copy-on-write faults over the writes, of all writers
        cow_faults: faults;
        /// Pages copied ahead of a write
        precopy_pages: pages;
        /// Of them, those that were written later
        precopy_written: pages;
        /// Of them, those that never were
        precopy_wasted: pages;
        /// Of them, those of which it is not known
        precopy_unknown: pages;
        /// Pages that the policy tried to copy ahead, on the whole system meanwhile
        precopy_attempts: pages;
        /// Of them, those that it copied
        precopy_success: pages;
        /// Flushes of the TLB for them, on the whole system meanwhile
        flushes: flushes;
        /// Holds of page-table locks, on the whole system meanwhile
        ptl_holds: holds;
        /// Allocations of memory for copies, on the whole system meanwhile
        allocations: allocations;
        /// Pages not copied ahead for want of memory, on the whole system meanwhile
        precopy_refused_nomem_pages: pages;
        /// A page's copy, as the kernel times it, by quantile
        copy_ns: ns;
        /// A fault without trap and return, as the kernel times it, by quantile
        kernel_fault_ns: ns;
    }
}

impl CowFaults {
    /// Refuse what makes no sense.
    pub fn check(&self) -> Result<(), String> {
        if self.size_bytes < self.page_size_bytes {
            return Err(format!("--size-bytes must be {} at least", self.page_size_bytes));
        }
        Ok(())
    }

    /// Pages that one writer writes in one repetition.
    pub fn pages_written(&self, base_page_bytes: u64) -> u64 {
        match self.pattern {
            Pattern::Single => 1,
            _ => self.size_bytes / base_page_bytes,
        }
    }
}
