// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cow-check`: that copy-on-write keeps parent and children apart.

use crate::bench::bench;

bench! {
    /// Whether anybody sees another's writes after a fork
    "cow-check";

    parts {
        /// Children at once
        children: u32;
        /// Memory that the processes change
        size_bytes: u64;
        /// Size of its pages
        page_size_bytes: u64;
    }

    metrics {
        /// Pages in which nobody saw another's data
        checked_pages: pages;
    }
}
