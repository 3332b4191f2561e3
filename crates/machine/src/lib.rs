// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this machine can do: facts first, decisions in pure functions.
//!
//! [`Facts::probe`] reads everything once; [`fit`], [`verdict`], [`capability`] and [`thp`] decide
//! from those facts alone, so that each decision is tested without root and without the machine.
//! A fact that the kernel does not offer is `None`, never 0; a file that is there and cannot be
//! understood is `None` as well and is listed in [`Facts::problems`].

pub mod capability;
pub mod cgroup;
pub mod cow_stats;
pub mod cpu;
mod delay_guard;
pub mod facts;
pub mod fit;
mod fragmentation;
mod guardian;
pub mod guest;
mod human;
pub mod limits;
pub mod memory;
pub mod page_reporting;
pub mod policy;
mod policy_guard;
pub mod process;
pub mod rollup;
mod root;
mod settings_guard;
mod shared;
mod soft_dirty;
pub mod thp;
mod thp_guard;
pub mod tracing;
pub mod verdict;

pub use cowlab_schema::Policy;
pub use delay_guard::DelayGuard;
pub use facts::Facts;
pub use fragmentation::Fragmentation;
pub use policy_guard::{PolicyError, PolicyGuard};
pub use process::{ProcessError, ProcessFacts};
pub use rollup::Rollup;
pub use root::{ReadError, Root};
pub use settings_guard::SettingsGuard;
pub use shared::SharedMemory;
pub use thp_guard::{GuardError, ThpGuard};
