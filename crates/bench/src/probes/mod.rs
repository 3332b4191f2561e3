// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the C probes and decodes their rows.

mod calibrate;
mod cow_check;
mod cow_counts;
mod cow_faults;
mod do_fork;
mod fork_small;
mod fork_table;
mod program;
mod rows;
mod runner;
mod snapshot;
mod warm;

pub use calibrate::PrimitivesResult;
pub use cow_counts::{CowCounts, Moments};
pub use cow_faults::CowFaultsResult;
pub use cowlab_schema::cow_faults::CowFaults;
pub use cowlab_schema::fork_sweep::DoFork;
pub use cowlab_schema::fork_table::ForkTable;
pub use cowlab_schema::{Counting, Method, Pattern, Placement, Reap, Writer};
pub use do_fork::{CpuTime, DoForkResult};
pub use fork_small::ForkSmallResult;
pub use fork_table::ForkTableResult;
pub use program::Program;
pub use rows::{Row, Rows};
pub use runner::{Interrupted, Outcome, Outside, Probe, Runner, Timed, unix_ns};
pub use snapshot::{Footprint, ForkAt, SnapshotResult};
pub use warm::WarmMemory;
