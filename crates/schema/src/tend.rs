// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tend`: a forking process kept in huge pages.

use crate::bench::bench;
use crate::choice::choices;
use crate::{Quantile, Text};

choices! {
    /// In which state the memory is.
    State, "state", {
        /// as it is
        Now = "now",
        /// as tending would leave it
        After = "after",
    }
}

bench! {
    /// What `tend --dry-run` prints of each process; and of tending, how long calls held a process up
    "tend";

    parts {
        /// The process
        pid: u32;
        /// Its name
        name: Text;
        /// Before or after tending
        state: State;
        /// Of a distribution
        quantile: Quantile;
    }

    metrics {
        /// The forecast of the next fork
        fork_ns: ns;
        /// The forecast's lower end
        fork_low_ns: ns;
        /// Its upper end
        fork_high_ns: ns;
        /// Pages that are not in huge ones
        small_pages: pages;
        /// Regions that are huge
        huge_regions: regions;
        /// Regions that could be
        candidate_regions: regions;
        /// Regions with too few pages
        sparse_regions: regions;
        /// How long a call held the program up, by quantile
        stall_ns: ns;
    }
}
