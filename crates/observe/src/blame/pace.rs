// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How large a share of the copies is told, so that it costs what may be spent. Pure.

/// Of the time that the watched processes run, what telling may take: of their own time and of ours.
pub const BUDGET: f64 = 0.02;
/// What may be spent beside it, so that programs that run for a moment have stacks at all.
const ALLOWANCE_NS: f64 = 20e6;
const EVERY_MOST: u32 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    Fixed(u32),
    /// As many as [`BUDGET`] allows.
    ByCost,
}

/// The governor of [`Share::ByCost`].
#[derive(Debug)]
pub struct Pace {
    every: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { every: 1 }
    }
}

impl Pace {
    /// The next moment's share: one in so many, and how many are told before it doubles by itself.
    /// `ran_ns` is how long the processes ran so far, `spent_ns` what telling took of anybody's time (not what waiting for copies takes),
    /// `reached` the share that the moment before ended with.
    pub fn next(&mut self, ran_ns: u64, spent_ns: u64, reached: u32) -> u32 {
        let budget = BUDGET * ran_ns as f64 + ALLOWANCE_NS;
        let used = spent_ns as f64 / budget;
        // The doubling within a moment answers a burst; this, what bursts come to.
        self.every = match used {
            used if used > 1.0 => reached.saturating_mul(2),
            used if used > 0.7 => reached,
            _ => self.every.min(reached) / 2,
        };
        self.every = self.every.clamp(1, EVERY_MOST);
        self.every
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_decides() {
        let mut pace = Pace::default();
        assert_eq!(pace.next(0, 0, 1), 1);
        assert_eq!(pace.next(1_000_000_000, 60_000_000, 64), 128, "3 times what may be spent");
        assert_eq!(pace.next(2_000_000_000, 50_000_000, 128), 128);
        assert_eq!(pace.next(9_000_000_000, 50_000_000, 128), 64);
        for _ in 0..10 {
            pace.next(9_000_000_000, 50_000_000, 1);
        }
        assert_eq!(pace.every, 1);
    }
}
