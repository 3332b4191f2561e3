// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the C probes, which are embedded in this crate, and decodes their rows.

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
mod settings;
mod snapshot;
mod trace;
mod warm;

pub use calibrate::{Primitives, PrimitivesResult};
pub use cow_check::CowCheck;
pub use cow_counts::{CowCounts, Moments};
pub use cow_faults::{Counting, CowFaults, CowFaultsResult};
pub use do_fork::{CpuTime, DoFork, DoForkResult};
pub use fork_small::{ForkSmall, ForkSmallResult};
pub use fork_table::{ForkTable, ForkTableResult};
pub use program::{LIBCASPER, LIBCASPER_NAME, Program};
pub use rows::{Row, Rows};
pub use runner::{Interrupted, Outcome, Outside, Runner, Timed, unix_ns};
pub use settings::{Method, Pattern, Placement, Reap, Writer};
pub use snapshot::{Footprint, ForkAt, Forks, Snapshot, SnapshotResult};
pub use trace::{NESTED_CALLS, TraceResult, TraceRun, TraceSources};
pub use warm::WarmMemory;
