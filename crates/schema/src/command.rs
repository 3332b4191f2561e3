// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `command`: any program under each policy.

use crate::bench::bench;
use crate::{Policy, Text};

bench! {
    /// A program of yours, timed from outside under each policy in turn
    "command";

    /// Beside the program itself.
    cell Commanded {
        /// What the kernel copies at a fault, in turn
        policy: Policy = Policy::Stock, flag;
    }

    parts {
        /// The program and its arguments
        command: Text;
    }

    metrics {
        /// From its start to its end
        elapsed_ns: ns;
        /// User time, of its children as well
        user_ns: ns;
        /// System time, of its children as well
        sys_ns: ns;
        /// Both, exact where its parts are only sampled by the kernel's tick
        cpu_ns: ns;
        /// The same, as the instructions that an emulated CPU executed
        cpu_instructions: instructions;
        /// Minor faults, of its children as well
        minor_faults: faults;
        /// On a patched kernel: copy-on-write faults, on the whole system meanwhile
        cow_faults: faults;
        /// Pages that the policy tried to copy ahead
        precopy_attempts: pages;
        /// Of them, those that it copied
        precopy_success: pages;
        /// Of them, those that were written later
        precopy_written: pages;
        /// Of them, those that never were
        precopy_wasted: pages;
        /// Flushes of the TLB for copies
        flushes: flushes;
        /// Holds of page-table locks
        ptl_holds: holds;
        /// Allocations of memory for copies
        allocations: allocations;
    }
}
