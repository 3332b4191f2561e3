// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cow-check`: that copy-on-write keeps parent and children apart.

use crate::bench::bench;

bench! {
    /// Whether anybody sees another's writes after a fork
    "cow-check";

    /// One invocation of cow_check.
    cell CowCheck {
        /// Children at once
        children: u32 = 1, flag, within(1.0, 64.0), sweep("1,2,3,4,5,6,7,8");
        /// Memory that the processes change
        size_bytes: u64 = 16 << 20, flag, size, positional;
        /// Size of its pages
        page_size_bytes: u64 = 4096, flag, size, by_machine("base pages and THP");
        /// Share the memory, so that the check must fail: it proves that it can
        shared: bool = false, set, unstored;
    }

    metrics {
        /// Pages in which nobody saw another's data
        checked_pages: pages;
        /// The same, in runs made before it was renamed
        pages_checked: pages;
    }
}
