// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `calibrate-pace`: what a copy costs a program by how much it does between two.

use crate::bench::bench;
use crate::choice::Pattern;

bench! {
    /// Copies by the program's own work between two, as part of a calibration
    "calibrate-pace";

    parts {
        /// The order of the writes, and what is read before each
        pattern: Pattern;
        /// Reads before each write
        work_reads: u64;
        /// Size of the pages
        page_size_bytes: u64;
        /// Other running threads of the forking process
        threads: u32;
    }

    metrics {
        /// CPU time of the program's own between two copies
        own_ns: ns;
        /// A copy-on-write fault at that pace
        cow_at_pace_ns: ns;
    }
}
