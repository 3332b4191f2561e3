// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cross-check`: our times beside those of others.

use crate::bench::bench;
use crate::{Method, Text};

bench! {
    /// Times of fork and vfork beside the kernel's own trace events (needs root) and stress-ng's
    "cross-check";

    /// The same calls on both sides.
    cell CrossCheck {
        /// Calls of each method in a round
        calls: u64 = 200, flag, within(10.0, 100e3), unstored;
        /// How processes are made
        method: Method = Method::Fork;
        /// Size of the heap
        heap_bytes: u64 = 0;
    }

    parts {
        /// Whose figure: cowlab, kernel-trace, both, stress-ng
        source: Text;
    }

    metrics {
        /// Mean of the calls
        mean_fork_ns: ns;
        /// Ours by the kernel's
        cowlab_to_kernel_ratio: ratio;
        /// Faults of the parent's own for each fork
        parent_faults_per_fork: faults_per_fork;
        /// Ours without those faults, by the kernel's
        without_parent_faults_to_kernel_ratio: ratio;
        /// One operation of stress-ng's stressor
        operation_ns: ns;
    }
}
