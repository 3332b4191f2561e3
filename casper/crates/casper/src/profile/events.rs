// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events by type.

use crate::read::Owner;

/// Events of one type, of one thread of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeCount {
    /// Whose.
    pub owner: Owner,
    /// The type's number.
    pub event_type: u16,
    /// The type's name, where it is registered.
    pub name: Option<String>,
    /// Events.
    pub count: u64,
    /// Their bytes, types included.
    pub bytes: u64,
    /// Ticks of the first.
    pub first: u64,
    /// Ticks of the last.
    pub last: u64,
}
