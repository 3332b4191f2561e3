// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A live process, read from outside: nothing in it is changed, stopped or left marked.
//!
//! [`Target`] is one process, held so that a later process with its PID is never taken for it.
//! [`mappings`], [`pagemap`] and [`children`] are read through it. [`ProcessFacts`] is what its next
//! fork depends on, below a [`Root`](crate::Root).

pub mod children;
mod error;
mod facts;
pub mod mappings;
pub mod pagemap;
mod scan;
mod stat;
pub mod status;
pub mod target;

pub use error::ProcessError;
pub use facts::ProcessFacts;
pub use mappings::{Kind, Mapping, Smaps};
pub use pagemap::{Page, Pagemap};
pub use stat::Stat;
pub use target::{Target, ThreadTimes};
