// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this machine can do: facts first, decisions in pure functions.
//!
//! [`Facts::probe`] reads everything once; [`fit`], [`verdict`], [`capability`] and [`usable`] decide
//! from those facts alone, so that each decision is tested without root and without the machine.
//! A fact that the kernel does not offer is `None`, never 0; a file that is there and cannot be
//! understood is `None` as well and is listed in [`Facts::problems`].

pub mod capability;
pub mod cgroup;
pub mod cow_stats;
pub mod cpu;
pub mod facts;
pub mod fit;
mod guard;
mod guardian;
pub mod guest;
mod installed;
pub mod kernel_log;
pub mod limits;
pub mod memory;
pub mod policy;
pub mod process;
mod record;
mod room;
mod root;
mod shared;
pub mod thp;
pub mod usable;
pub mod verdict;

pub use cowlab_schema::Policy;
pub use facts::Facts;
pub use guard::{Guard, GuardError};
pub use installed::installed;
pub use policy::PolicyGuard;
pub use process::{ProcessError, ProcessFacts, Smaps, Stat, mappings, status};
pub use record::{LeftBehind, left_behind};
pub use room::Room;
pub use root::{ReadError, Root};
pub use shared::SharedMemory;
