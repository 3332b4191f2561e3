// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which code copies pages that a fork shares: each copy, or a share of them, with the stack that
//! wrote.
//!
//! [`Collector`] is fed by the programs of [`crate::bpf`]; [`family`] records which process forked which, and
//! what each had mapped; [`made`] names code that programs made themselves; [`pace`] decides how large a share is
//! recorded.
//!
//! [`space::Space`] is the code that a process had mapped. It unwinds a stack by the unwind tables
//! (`.eh_frame`), or by frame pointers where code has none. [`functions`] finds functions: of files by their
//! symbols and the debug information that is installed, of interpreters by what they write for profilers.
//!
//! All that a target provides may be hostile. A thread that can be given up looks at a process, within a budget of
//! bytes; a process of its own ([`apart`]) reads symbols and debug information, with bounded memory and time.

mod apart;
mod collector;
mod family;
mod image;
pub mod jitdump;
mod made;
mod names;
mod pace;
mod perf_map;
mod space;
mod tables;

pub use collector::{Collected, Collector, LOOK};
pub use image::Image;
pub use names::functions;
pub use pace::Share;
pub use perf_map::PerfMap;
