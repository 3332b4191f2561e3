// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans of measurements: what to run, how often and in which order, and the samples it gives.

pub mod calibrate;
pub mod ccow;
pub mod command;
mod counts;
pub mod cow_check;
pub mod faults;
pub mod fork_sections;
pub mod guest;
pub mod points;
mod precision;
pub mod precopy;
pub mod programs;
pub mod redis;
pub mod snapshot;
pub mod sweep;
pub mod table;
mod task;
pub mod trace;

pub use task::{Number, Recorder, Round, Rounds, Task, run_rounds};
