// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cross-check`: our times beside those of others.

use crate::bench::bench;
use crate::{Method, Text};

bench! {
    /// Times of fork and vfork beside the kernel's own trace events and stress-ng's
    "cross-check";

    parts {
        /// How processes are made
        method: Method;
        /// Size of the heap
        heap_bytes: u64;
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
