// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `predict`: what a fork would cost.

use crate::bench::bench;
use crate::{Policy, Writer};

bench! {
    /// What a fork costs on the machine of a profile, predicted
    "predict";

    parts {
        /// Private memory of the forking process, in base pages
        pages: u64;
        /// The same in bytes
        size_bytes: u64;
        /// Share of it that is written after the fork
        write_fraction: f64;
        /// Pages that the parent wrote since its last fork
        written_before_pages: u64;
        /// Who writes
        writer: Writer;
        /// Other running threads of the forking process
        threads: u32;
        /// Size of its pages
        page_size_bytes: u64;
        /// What the kernel copies at a fault; `defer`: page tables after fork
        policy: Policy;
        /// Of a program that works between two forks
        among_work: bool;
    }

    metrics {
        /// Fork and writes
        elapsed_ns: ns;
        /// The interval's lower end
        elapsed_low_ns: ns;
        /// Its upper end
        elapsed_high_ns: ns;
        /// The fork
        fork_ns: ns;
        /// Its lower end
        fork_low_ns: ns;
        /// Its upper end
        fork_high_ns: ns;
        /// The writes; under `defer`, at most
        write_ns: ns;
        /// Under `defer`, the first write to a page table
        first_write_ns: ns;
        /// Memory that the copies take
        extra_bytes: bytes;
    }
}
