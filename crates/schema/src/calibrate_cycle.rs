// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `calibrate-cycle`: fork cycles of growing heaps, to which the model is fitted.

use crate::Writer;
use crate::bench::bench;

bench! {
    /// Fork cycles by size of the heap, as part of a calibration
    "calibrate-cycle";

    parts {
        /// Size of the heap
        heap_bytes: u64;
        /// Share of it that is written
        write_fraction: f64;
        /// Who writes
        writer: Writer;
        /// Other running threads of the forking process
        threads: u32;
        /// Size of the heap's pages
        page_size_bytes: u64;
    }

    metrics {
        /// The fork call
        fork_ns: ns;
        /// The writes
        write_ns: ns;
        /// The rest of the cycle: starting the child, its exit and the wait for it
        rest_ns: ns;
        /// From the call until the child was reaped and the writes were over
        cycle_ns: ns;
        /// The first fork, which makes page tables and finds the heap as it was populated
        first_fork_ns: ns;
    }
}
