// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a pass goes through, told one by one: for who needs each call and event, by the same rules
//! as the sums.

use super::Functions;
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

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It returned.
    Returned,
    /// A longjmp left it; its end is the last event before that was seen.
    Left,
    /// Events were lost meanwhile: the end is that of what is known.
    CutByLoss,
    /// It had not ended at the trace's or its process's end.
    Open,
}

/// A call begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It begins.
    Began {
        /// Index in [`Functions::list`].
        function: u32,
        /// When.
        ticks: u64,
    },
    /// The innermost call of the place ends.
    Ended {
        /// Index in [`Functions::list`].
        function: u32,
        /// When it began.
        began_ticks: u64,
        /// When it ended.
        ticks: u64,
        /// Calls around it.
        depth: u32,
        /// How.
        ended: Ended,
    },
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
