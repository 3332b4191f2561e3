// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the time went: functions, events, and the time between events, in one pass over a trace.
//!
//! Memory does not grow with the trace: it is bounded by the number of functions, of call sites and
//! of streams, and where a trace claims more of these than any program has, the rest is counted
//! together (see [`functions::MOST_FUNCTIONS`] and its neighbours).

mod events;
mod fields;
mod functions;
mod lane;
mod moments;
mod pairs;
mod pass;
#[cfg(test)]
mod tests;
mod watch;

pub use events::TypeCount;
pub use fields::{FieldCounts, ValueCount};
pub use functions::{Edge, Ended, Function, Functions, Overhead, Step};
pub use moments::Moments;
pub use pairs::{Pair, PairTimes};
pub use watch::{Place, Watcher};

use std::collections::BTreeMap;

use crate::meta::Metadata;
use crate::read::{Clock, Damage, ReadError, Trace};

/// What to look at besides functions and events.
#[derive(Debug, Clone, Default)]
pub struct ProfileSettings {
    /// Times from each event of one type to the next of another.
    pub pairs: Vec<Pair>,
    /// Only the process with this pid.
    pub pid: Option<u32>,
    /// Count the values of a field: the type's name or number, and the field's name.
    pub field: Option<(String, String)>,
}

/// Something that a trace was asked for and does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// No program registered such a type.
    #[error("the trace has no event type '{name}'; it has: {}", if known.is_empty() { "none" } else { known })]
    Type {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The type has no such field.
    #[error("the event type '{event}' has no field '{name}'; it has: {}", if known.is_empty() { "none" } else { known })]
    Field {
        /// The type.
        event: String,
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
}

/// A trace could not be profiled.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It does not have what was asked for.
    #[error(transparent)]
    Unknown(#[from] Unknown),
}

/// What a trace says.
#[derive(Debug)]
pub struct Profile {
    /// What turns ticks into time.
    pub clock: Clock,
    /// Processes, types, functions, modules.
    pub metadata: Metadata,
    /// What is missing.
    pub damage: Damage,
    /// Functions and who called them.
    pub functions: Functions,
    /// Events by process, thread and type.
    pub types: Vec<TypeCount>,
    /// The times of `ProfileSettings::pairs`.
    pub pairs: Vec<PairTimes>,
    /// The values of `ProfileSettings::field`.
    pub field: Option<FieldCounts>,
    /// Times at which a stream's clock went backwards.
    pub backwards: u64,
    /// Events by the CPU that recorded them, where the trace says it: a kernel's does.
    pub cpus: BTreeMap<u32, CpuCount>,
}

/// What one CPU recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuCount {
    /// Events.
    pub events: u64,
    /// Streams that came from another CPU.
    pub arrivals: u64,
}

impl Profile {
    /// Read a trace and add up what it says.
    pub fn of(trace: &Trace, settings: &ProfileSettings) -> Result<Profile, ProfileError> {
        pass::run(trace, settings, None)
    }

    /// The same, and tell `watcher` each call and event on the way.
    pub fn watched(
        trace: &Trace,
        settings: &ProfileSettings,
        watcher: &mut dyn Watcher,
    ) -> Result<Profile, ProfileError> {
        pass::run(trace, settings, Some(watcher))
    }
}
