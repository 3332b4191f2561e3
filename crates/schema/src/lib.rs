// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The vocabulary: each bench's parameters and metrics, and their names in samples, on the command
//! line, in probes and in the documentation, each declared once. No I/O.

#![warn(missing_docs)]

mod bench;
pub mod blame;
pub mod calibrate;
pub mod calibrate_among_work;
pub mod calibrate_cycle;
pub mod calibrate_pace;
mod cell;
mod choice;
pub mod command;
pub mod cow_check;
pub mod cow_faults;
mod estimate;
pub mod fmt;
pub mod footprint;
pub mod fork_sections;
pub mod fork_sweep;
pub mod fork_table;
mod key;
pub mod live;
mod policy;
pub mod predict;
pub mod predict_check;
mod quantile;
mod reap;
pub mod redis;
pub mod reference;
pub mod running;
pub mod settings;
pub mod snapshot;
mod suggested;
pub mod summary;
pub mod tend;
pub mod units;

use std::collections::BTreeMap;

pub use cell::{Cell, product};
pub use choice::{Counting, Method, Pattern, Placement, Writer};
pub use estimate::Estimate;
pub use key::{Bench, Field, Is, Key, Metric, Passed, Reach, Stored, Text, Value, in_instructions};
pub use policy::Policy;
pub use quantile::{QUANTILE, QUANTILES, Quantile};
pub use reap::Reap;
pub use suggested::Command;

/// Parameters of a measurement as text: `heap_bytes` → `16777216`.
pub type Params = BTreeMap<String, String>;

/// The kernel of a guest in which samples were measured.
pub const VARIANT: Key<Text> = Key::new("variant", "The guest's kernel");

/// The metric of that name, of the first bench that has it.
pub fn metric(name: &str) -> Option<Metric> {
    let mut all = BENCHES.iter().flat_map(|bench| bench.metrics);
    all.find(|metric| metric.name == name).copied()
}

/// The `--set` keys of other verbs.
pub const SETTINGS: &[&Bench] = &[
    settings::fork_sections::BENCH,
    settings::next_page::BENCH,
    settings::ccow::BENCH,
    settings::tend::BENCH,
];

/// Every bench.
pub const BENCHES: &[&Bench] = &[
    fork_sweep::BENCH,
    fork_table::BENCH,
    cow_faults::BENCH,
    cow_check::BENCH,
    snapshot::BENCH,
    redis::BENCH,
    tend::BENCH,
    command::BENCH,
    fork_sections::BENCH,
    calibrate::BENCH,
    calibrate_cycle::BENCH,
    calibrate_among_work::BENCH,
    calibrate_pace::BENCH,
    predict_check::BENCH,
    running::BENCH,
    footprint::BENCH,
    blame::BENCH,
    predict::BENCH,
];
