// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stacks of other programs: from registers and a piece of stack, taken at some moment, to functions.
//!
//! [`Space`] is the code that a process had mapped, and unwinds by its unwind tables (`.eh_frame`), by
//! frame pointers where code has none. [`Names`] tells functions: of files by their symbols and the
//! debug information that is installed, of interpreters by what they write for profilers.

mod image;
pub mod jitdump;
mod names;
mod perf_map;
mod space;

pub use image::{Image, Images};
pub use names::{Function, Names};
pub use perf_map::PerfMap;
pub use space::{End, Place, Space, Stack, Unwinding};
