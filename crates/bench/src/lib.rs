// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the C probes, which are embedded in this crate, and plans measurements with them: what to run, how
//! often and in which order, and the samples it gives.

pub mod calibrate;
pub mod ccow;
pub mod command;
mod counts;
pub mod cow_check;
pub mod cow_faults;
pub mod fork_sections;
pub mod fork_sweep;
pub mod fork_table;
pub mod guest;
pub mod next_page;
pub mod points;
mod precision;
pub mod probes;
pub mod quiet;
pub mod redis;
pub mod snapshot;
mod task;

pub use task::{Number, Recorder, Round, Rounds, Task, run_rounds};
