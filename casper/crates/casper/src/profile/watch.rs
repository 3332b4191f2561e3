// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a pass goes through, told one by one: for who needs each call and event, by the same rules
//! as the sums.

use super::functions::{Functions, Step};
use crate::read::{Owner, Record};

/// Where something was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The stream.
    pub stream: u32,
    /// Signal handlers deep.
    pub level: u32,
    /// Whose: several processes of a stream, where a vfork's child borrowed it.
    pub owner: Owner,
}

/// Hears what a pass goes through: in the order of the file, which is the order of time within a
/// place.
pub trait Watcher {
    /// A call began or ended. [`Functions::describe`] knows its function's name.
    fn step(&mut self, place: &Place, step: &Step, functions: &Functions);
    /// An event of a developer's type.
    fn event(&mut self, place: &Place, record: &Record<'_>);
    /// Whether it wants no more.
    fn is_done(&self) -> bool;
}
