// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sharing --plan`: what warming a parent up would save its workers.

use crate::Text;
use crate::bench::bench;

bench! {
    /// What `sharing --plan` makes of runs of `blame` or `footprint`, a worker
    "sharing-plan";

    parts {
        /// The program
        program: Text;
        /// Requests that the parent served before it forked
        warmed_requests: u64;
        /// Requests that each worker served
        requests: u64;
    }

    metrics {
        /// Shared memory that a worker copied
        copied_bytes: bytes;
        /// Memory that it made new
        new_bytes: bytes;
        /// Memory that its fork shared
        forked_bytes: bytes;
        /// What two workers of one parent copied at the same addresses, on average
        common_bytes: bytes;
        /// What the warm-up saves a worker, at the least
        saved_least_bytes: bytes;
        /// The same at most; where it was measured both are the same
        saved_most_bytes: bytes;
    }
}
