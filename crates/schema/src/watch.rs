// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `watch`: processes that fork, live.

use crate::Text;
use crate::bench::bench;

bench! {
    /// A line of `watch --json`
    "watch";

    parts {
        /// The process
        pid: u32;
        /// Its name
        name: Text;
    }

    metrics {
        /// Minor faults a second
        minor_faults_per_s: per_s;
        /// Writes to pages that were there, a second
        writes_to_present_per_s: per_s;
        /// The last stop at a fork
        last_stop_ns: ns;
        /// Resident memory
        rss_bytes: bytes;
        /// Memory of its page tables
        page_table_bytes: bytes;
        /// Copied since its last fork
        epoch_copied_bytes: bytes;
        /// Still shared since then
        epoch_shared_bytes: bytes;
    }
}
