// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time from each event of one type to the next of another: the paper's way to time a section.

use std::collections::HashSet;

use super::{Moments, Unknown};
use crate::meta::Metadata;

/// What is timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// What the section is called.
    pub name: String,
    /// Name or number of the type at which it begins.
    pub from: String,
    /// Name or number of the type at which it ends.
    pub to: String,
}

/// The times of a pair.
#[derive(Debug, Clone)]
pub struct PairTimes {
    /// What was timed.
    pub pair: Pair,
    /// From each first event to the next second one, in ticks.
    pub times: Moments,
    /// First events after which no second one came.
    pub without_end: u64,
}

/// First events beyond these that wait for one second event are only counted.
const MOST_PENDING: usize = 1 << 12;

/// First events that wait for the second.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending {
    ticks: Vec<u64>,
    /// Without an end so far, and those that were not kept.
    lost: u64,
}

impl Pending {
    pub fn clear(&mut self) {
        self.lost += self.ticks.len() as u64;
        self.ticks.clear();
    }

    pub fn without_end(&self) -> u64 {
        self.lost + self.ticks.len() as u64
    }
}

/// A type by its number in each program.
#[derive(Debug)]
pub(super) struct Selector {
    numbers: HashSet<u16>,
    name: String,
}

impl Selector {
    pub fn new(metadata: &Metadata, name: &str) -> Result<Selector, Unknown> {
        let mut numbers: HashSet<u16> =
            metadata.types_named(name).iter().map(|found| found.event_type).collect();
        numbers.extend(name.parse::<u16>());
        if numbers.is_empty() {
            let known = metadata.type_names().join(", ");
            return Err(Unknown::Type { name: name.to_owned(), known });
        }
        Ok(Selector { numbers, name: name.to_owned() })
    }

    /// Whether an event of a process is meant: a number may be another type in another program.
    #[inline]
    pub fn is(&self, metadata: &Metadata, process: u32, event_type: u16) -> bool {
        self.numbers.contains(&event_type)
            && metadata.event_type(process, event_type).is_none_or(|found| {
                found.name == self.name || self.name.parse() == Ok(found.event_type)
            })
    }
}

/// The pairs that a pass looks for.
#[derive(Debug)]
pub(super) struct Pairs {
    pub list: Vec<(Selector, Selector, PairTimes)>,
}

impl Pairs {
    pub fn new(metadata: &Metadata, pairs: &[Pair]) -> Result<Pairs, Unknown> {
        let mut list = Vec::new();
        for pair in pairs {
            let from = Selector::new(metadata, &pair.from)?;
            let to = Selector::new(metadata, &pair.to)?;
            let times = PairTimes { pair: pair.clone(), times: Moments::default(), without_end: 0 };
            list.push((from, to, times));
        }
        Ok(Pairs { list })
    }

    /// An event came by.
    pub fn see(
        &mut self,
        pending: &mut Vec<Pending>,
        metadata: &Metadata,
        process: u32,
        event_type: u16,
        ticks: u64,
    ) {
        pending.resize_with(self.list.len(), Pending::default);
        for ((from, to, times), pending) in self.list.iter_mut().zip(pending) {
            if to.is(metadata, process, event_type) {
                for begin in pending.ticks.drain(..) {
                    times.times.add(ticks.saturating_sub(begin), true);
                }
            }
            if from.is(metadata, process, event_type) {
                if pending.ticks.len() < MOST_PENDING {
                    pending.ticks.push(ticks);
                } else {
                    pending.lost += 1;
                }
            }
        }
    }

    /// What waited in vain.
    pub fn account(&mut self, pending: &[Pending]) {
        for ((_, _, times), pending) in self.list.iter_mut().zip(pending) {
            times.without_end += pending.without_end();
        }
    }
}
