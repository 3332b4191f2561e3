// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `calibrate-among-work`: an entry's cost in a program that works between two forks.

use crate::bench::bench;

bench! {
    /// Forks among work by size of the heap, as part of a calibration
    "calibrate-among-work";

    parts {
        /// Size of the heap
        heap_bytes: u64;
        /// Size of its pages
        page_size_bytes: u64;
        /// Other running threads of the forking process
        threads: u32;
    }

    metrics {
        /// Copying an entry of a heap that copies have scattered
        pte_among_work_ns_per_page: ns_per_page;
    }
}
