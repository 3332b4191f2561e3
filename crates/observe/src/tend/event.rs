// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What there is to tell of a target while it is tended.

use std::time::Duration;

use cowlab_model::cost::Predicted;
use serde::Serialize;

use crate::tend::pressure::Tight;

/// Why nothing is done for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rest {
    Memory(Tight),
    NoHugePage,
    /// The target's group, or this program's, has no memory left.
    GroupFull,
    /// Collapses held up the target for longer than the budget.
    Stalls,
    /// Huge pages were switched off on this machine.
    SwitchedOff,
}

impl Rest {
    pub fn name(self) -> &'static str {
        match self {
            Rest::Memory(Tight::Machine) => "machine_memory",
            Rest::Memory(Tight::Group) => "group_limit",
            Rest::Memory(Tight::Waiting) => "memory_pressure",
            Rest::NoHugePage => "no_huge_page",
            Rest::GroupFull => "group_full",
            Rest::Stalls => "stalls",
            Rest::SwitchedOff => "switched_off",
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Rest::Memory(tight) => tight.words(),
            Rest::NoHugePage => "no huge page is free, and compaction makes none",
            Rest::GroupFull => "the memory limit of the target's control group is reached",
            Rest::SwitchedOff => "huge pages were switched off on this machine (`never`)",
            Rest::Stalls => "collapses hold up the target for longer than --budget-us",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Surveyed {
        /// Base pages whose entries a fork would copy.
        small_pages: u64,
        huge_regions: u64,
        candidate_regions: u64,
        sparse_regions: u64,
        /// Regions that are left alone for a while.
        backed_off_regions: u64,
        /// Regions whose collapse would cost more than it saves.
        unprofitable_regions: u64,
        /// The stop at a fork now, where there is a machine profile.
        fork_ns: Option<Predicted>,
        /// The stop at a fork with all candidates collapsed.
        fork_after_ns: Option<Predicted>,
    },
    /// Children of before share its memory.
    Shared {
        alive: usize,
    },
    Forked {
        alive: usize,
    },
    /// No child shares its memory any more.
    Alone {
        after_ns: u64,
    },
    Done {
        /// Regions collapsed since it was looked at.
        collapsed_regions: u64,
        took_ns: u64,
    },
    /// Nothing is done for a while.
    Resting {
        reason: Rest,
        for_ns: u64,
    },
}

/// What [`Tender::step`] did.
#[derive(Debug, Default)]
pub struct Step {
    pub events: Vec<Event>,
    /// When to step again, at the latest.
    pub wait: Duration,
    /// CPU time that the share does not bound: of the first pass, and of warming.
    pub apart_ns: u64,
}
