// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fork-table`: TLPI's table 28-3 and its replay.

use crate::Method;
use crate::bench::bench;

/// The ways to make a process that the table compares.
pub const METHODS: [Method; 5] =
    [Method::Fork, Method::Vfork, Method::PosixSpawn, Method::ForkExec, Method::VforkExec];

/// The sizes of table 28-3, in bytes as its replay has them.
pub const SIZES_BYTES: [u64; 3] = [1_782_579, 2_831_155, 12_268_339];

bench! {
    /// Processes made by fork, vfork, spawn and exec, by size: TLPI's table 28-3 and its replay
    "fork-table";

    /// One invocation of fork_table.
    cell ForkTable {
        /// How processes are made
        method: Method = Method::Fork, flag, only(&METHODS), positional,
            sweep("fork,vfork,posix-spawn,fork+exec,vfork+exec");
        /// Processes made in one run
        iterations: u64 = 1000, flag, within(1.0, 10e6), positional;
        /// What the program allocates before
        size_bytes: u64 = SIZES_BYTES[0], flag, size, positional, sweep("1782579,2831155,12268339");
        /// Write every page of it before
        touched: bool = false, flag, sweep("false,true");
        /// Keep parent and children on one CPU
        pinned: bool = true, set;
    }

    metrics {
        /// All iterations
        elapsed_ns: ns;
        /// CPU time of the program itself over them
        cpu_ns: ns;
        /// The same with its children's
        cpu_with_children_ns: ns;
        /// Processes made a second
        rate_per_s: per_s;
    }
}
