// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What benchmarks are called in samples.

/// Document 000's program over its parameters.
pub const FORK_SWEEP: &str = "fork-sweep";
/// Processes made, by method and size.
pub const FORK_TABLE: &str = "fork-table";
/// Writes after a fork.
pub const COW_FAULTS: &str = "cow-faults";
/// That no process sees another's writes.
pub const COW_CHECK: &str = "cow-check";
/// A space that is forked again and again.
pub const SNAPSHOT: &str = "snapshot";
/// A Redis that takes snapshots.
pub const REDIS: &str = "redis";
/// A forking process kept in huge pages.
pub const TEND: &str = "tend";
/// Whole programs, by kernel and policy.
pub const COMMAND: &str = "command";
/// What real programs' forks cost beside what was predicted.
pub const FORECAST: &str = "forecast";

/// How a forking process is kept in huge pages or not, in the order of tables.
pub const TEND_POLICIES: [&str; 8] =
    ["untended", "tended", "thp", "thp+tended", "mthp", "mthp+tended", "khugepaged", "damon"];
