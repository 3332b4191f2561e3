// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `running`: the programs that ran beside a study and fork.

use crate::Text;
use crate::bench::bench;

bench! {
    /// The programs of the machine that fork, as they were when a study began
    "running";

    parts {
        /// The program; `withheld` in a copy that is given away
        name: Text;
        /// Its process
        pid: u64;
    }

    metrics {
        /// Private pages that a fork copies an entry of each of
        small_pages: pages;
        /// Huge pages, one entry each
        huge_pages: pages;
    }
}
