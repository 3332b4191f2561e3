// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The vocabulary: what each bench is asked, what it answers, and the names of both in samples, on
//! the command line, in the probes and in the documentation, each declared once. No I/O.

mod bench;
mod cell;
mod choice;
pub mod cow_faults;
pub mod fork_sweep;
pub mod fork_table;
mod key;
mod policy;
mod quantile;
mod reap;
pub mod reference;
pub mod units;

use std::collections::BTreeMap;

pub use cell::{Cell, product};
pub use choice::{Counting, Method, Pattern, Placement, Writer};
pub use key::{Bench, Field, Is, Key, Metric, Passed, Reach, Stored, Text, Value};
pub use policy::Policy;
pub use quantile::Quantile;
pub use reap::Reap;

/// Parameters of a measurement as text: `heap_bytes` → `16777216`.
pub type Params = BTreeMap<String, String>;

/// Every bench.
pub const BENCHES: &[&Bench] = &[fork_sweep::BENCH, fork_table::BENCH, cow_faults::BENCH];
