// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events by type, and over time.

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

const BINS: usize = 512;

/// Events over time, in steps that grow as the trace turns out to be longer.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// Ticks at which the first step begins.
    pub first_ticks: u64,
    /// A step has 2 to the power of this ticks.
    shift: u32,
    bins: Vec<u64>,
}

impl Timeline {
    pub(super) fn new(first_ticks: u64) -> Timeline {
        Timeline { first_ticks, shift: 10, bins: vec![0; BINS] }
    }

    #[inline]
    pub(super) fn add(&mut self, ticks: u64) {
        let since = ticks.saturating_sub(self.first_ticks);
        while since >> self.shift >= BINS as u64 {
            self.fold();
        }
        self.bins[(since >> self.shift) as usize] += 1;
    }

    #[cold]
    fn fold(&mut self) {
        for bin in 0..BINS / 2 {
            self.bins[bin] = self.bins[2 * bin] + self.bins[2 * bin + 1];
        }
        self.bins[BINS / 2..].fill(0);
        self.shift += 1;
    }

    /// Length of a step.
    pub fn step_ticks(&self) -> u64 {
        1 << self.shift
    }

    /// Events in each step, up to the last that has any.
    pub fn steps(&self) -> &[u64] {
        let end = self.bins.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        &self.bins[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::Timeline;

    #[test]
    fn steps_grow_and_no_event_is_lost() {
        let mut timeline = Timeline::new(100);
        for ticks in [0, 100, 5_000, 1 << 30, u64::MAX] {
            timeline.add(ticks);
        }
        assert_eq!(timeline.steps().iter().sum::<u64>(), 5);
        assert!(timeline.step_ticks() >= 1 << 54);
    }
}
