// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fork-sections`: a fork by the kernel's sections.

use crate::Text;
use crate::bench::bench;

bench! {
    /// Forks by the kernel's sections and functions: Barkley and Schimmel (1988), Table I
    "fork-sections";

    parts {
        /// Forks of the size
        forks: u64;
        /// Heap beyond the smallest possible process
        size_bytes: u64;
        /// The section of fork in the kernel
        section: Text;
        /// The kernel's function
        function: Text;
    }

    metrics {
        /// One fork's time in the section, without the probes
        section_ns: ns;
        /// One fork in the kernel, without the probes
        kernel_ns: ns;
        /// The same as recorded
        kernel_raw_ns: ns;
        /// What the probes cost of it
        probes_ns: ns;
        /// Calls that were recorded in it
        probed_calls: calls;
        /// What recording one call costs its caller
        probe_outer_ns: ns;
        /// The parent's time in the call
        fork_ns: ns;
        /// The same while nobody records
        fork_unrecorded_ns: ns;
        /// Calls of the function in a fork
        calls_per_fork: calls_per_fork;
        /// The function's own time in a fork
        own_ns: ns;
    }
}
