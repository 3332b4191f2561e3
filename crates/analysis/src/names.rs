// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What benchmarks are called in samples.

/// Document 000's program over its parameters.
pub const FORK_SWEEP: &str = cowlab_schema::fork_sweep::BENCH.name;
/// Processes made, by method and size.
pub const FORK_TABLE: &str = cowlab_schema::fork_table::BENCH.name;
/// Writes after a fork.
pub const COW_FAULTS: &str = cowlab_schema::cow_faults::BENCH.name;
/// That no process sees another's writes.
pub const COW_CHECK: &str = cowlab_schema::cow_check::BENCH.name;
/// A space that is forked again and again.
pub const SNAPSHOT: &str = cowlab_schema::snapshot::BENCH.name;
/// A Redis that takes snapshots.
pub const REDIS: &str = cowlab_schema::redis::BENCH.name;
/// A forking process kept in huge pages.
pub const TEND: &str = cowlab_schema::tend::BENCH.name;
/// Whole programs, by kernel and policy.
pub const COMMAND: &str = cowlab_schema::command::BENCH.name;
/// What real programs' forks cost beside what was predicted.
pub const FORECAST: &str = cowlab_schema::forecast::BENCH.name;
