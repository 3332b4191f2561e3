// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forks, exits, execs and page faults of running programs, by BPF on the kernel's tracepoints.
//!
//! [`access`] says what this process may do here and what it lacks; [`Observer`] attaches and reads;
//! [`decode`] turns the bytes into types. Nothing is pinned: when the observer is dropped, or its
//! process dies in whatever way, the kernel removes programs and maps with the last descriptor.

pub mod access;
mod attach;
mod copies;
pub mod decode;
mod error;
mod fault_rings;
mod learn;
mod observer;
mod programs;
pub mod record;

pub use decode::{Copied, Counts, Event, Fault, ForkEvent, Happening, Killed};
pub use error::BpfError;
pub use learn::{Anchor, Anchors, Learned};
pub use observer::{Lost, Observer, cpus};
pub use programs::{FaultMode, ObserverSettings, Scope};
