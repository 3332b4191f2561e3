// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sharing`: what a parent and its workers share.

use crate::Text;
use crate::bench::bench;

bench! {
    /// A look of `sharing --json`
    "sharing";

    parts {
        /// The process
        pid: u32;
        /// The family's name
        name: Text;
    }

    metrics {
        /// Resident memory
        rss_bytes: bytes;
        /// The same, shared pages divided by those who map them
        pss_bytes: bytes;
        /// Private memory that others map as well, since a fork
        shared_bytes: bytes;
        /// Private memory that it alone maps
        own_bytes: bytes;
        /// The part of it at addresses at which its parent has a page as well
        copied_bytes: bytes;
        /// How fast the shared memory becomes less
        erosion_bytes_per_s: bytes_per_s;
    }
}
