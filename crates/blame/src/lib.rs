// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which code copies pages that a fork shares: each copy, or a share of them, with the stack that
//! wrote.
//!
//! [`Collector`] is fed by the programs of `observe`; [`family`] knows who forked whom and what each had
//! mapped; [`made`] names code that programs made themselves; [`memory`] reads what of a stack was too far
//! away to be told; [`pace`] how large a share is told.

mod collector;
mod family;
mod made;
mod memory;
mod pace;

pub use collector::{Collected, Collector, LOOK};
pub use pace::Share;
