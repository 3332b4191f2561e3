// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of the regions that were collapsed: which stay huge, which are split at each fork,
//! and which for other reasons, so that they are left alone for longer and longer.

use std::collections::BTreeMap;

use crate::tend::region::Region;

/// Surveys that a region is left alone for after its first failure; doubled with each.
const FIRST_BACK_OFF: u64 = 2;
const LONGEST_BACK_OFF: u64 = 256;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Past {
    /// Whether it was huge when it was last looked at or left.
    is_huge: bool,
    forks: u64,
    /// Times that it was found split after a fork.
    splits: u64,
    /// Times in a row that it was split without a fork, or refused.
    failures: u32,
    /// The survey from which it may be tried again.
    pub not_before_pass: u64,
}

impl Past {
    /// Forks that it is expected to stay huge for, if it is collapsed once more: with one fork
    /// added to those that were seen, so that a new region is expected to last for one.
    pub fn expected_forks(&self) -> f64 {
        (self.forks + 1) as f64 / (self.splits + 1) as f64
    }

    fn fail(&mut self, pass: u64) {
        let wait = (FIRST_BACK_OFF << self.failures.min(16)).min(LONGEST_BACK_OFF);
        self.failures = self.failures.saturating_add(1);
        self.not_before_pass = pass + wait;
        self.is_huge = false;
    }
}

/// The past of each region that was collapsed or refused, by its first address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History(BTreeMap<u64, Past>);

impl History {
    pub fn of(&self, start: u64) -> Option<&Past> {
        self.0.get(&start)
    }

    pub fn collapsed(&mut self, start: u64, _pass: u64) {
        self.0.entry(start).or_default().is_huge = true;
    }

    /// The kernel would not.
    pub fn refused(&mut self, start: u64, pass: u64) {
        self.0.entry(start).or_default().fail(pass);
    }

    /// All regions were looked at; the process forked `forks` times since the last time. Who is
    /// not among them is forgotten: its memory is gone.
    pub fn surveyed(&mut self, regions: &[Region], pass: u64, forks: u64) {
        let mut now = BTreeMap::new();
        for region in regions {
            let Some(mut past) = self.0.remove(&region.start) else { continue };
            if past.is_huge {
                // One that was split served the first of them; whether more is not known.
                past.forks += if region.is_huge { forks } else { forks.min(1) };
                match (region.is_huge, forks) {
                    (true, 0) => {}
                    (true, _) => past.failures = 0,
                    // A write splits a huge page only while a child shares it. Without one it was
                    // the program itself, that gave a part of it back: it will again.
                    (false, 0) => past.fail(pass),
                    (false, _) => {
                        past.splits += 1;
                        past.failures = 0;
                    }
                }
            }
            past.is_huge = region.is_huge;
            now.insert(region.start, past);
        }
        self.0 = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(is_huge: bool) -> [Region; 1] {
        [Region { start: 0, present_pages: 512, is_huge, ..Region::default() }]
    }

    #[test]
    fn back_off_doubles_and_is_forgiven_by_a_fork_that_it_served() {
        let mut history = History::default();
        let mut waits = Vec::new();
        let mut pass = 0;
        for _ in 0..10 {
            history.collapsed(0, pass);
            history.surveyed(&seen(false), pass, 0);
            let until = history.of(0).unwrap().not_before_pass;
            waits.push(until - pass);
            pass = until;
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 256, 256]);
        history.collapsed(0, pass);
        history.surveyed(&seen(true), pass + 1, 1);
        history.surveyed(&seen(false), pass + 2, 0);
        assert_eq!(history.of(0).unwrap().not_before_pass - pass - 2, 2);
    }

    #[test]
    fn who_stays_huge_is_expected_to() {
        let mut history = History::default();
        history.collapsed(0, 0);
        for pass in 1..=3 {
            history.surveyed(&seen(true), pass, 1);
        }
        assert_eq!(history.of(0).unwrap().expected_forks(), 4.0);
        for pass in 4..8 {
            history.surveyed(&seen(false), pass, 1);
            history.collapsed(0, pass);
        }
        assert_eq!(history.of(0).unwrap().expected_forks(), 8.0 / 5.0);
        // Hundreds of children at once, and it is split: one fork was served.
        history.surveyed(&seen(false), 8, 300);
        assert_eq!(history.of(0).unwrap().expected_forks(), 9.0 / 6.0);
        // Memory that is gone is forgotten.
        history.surveyed(&[], 9, 1);
        assert_eq!(history.of(0), None);
    }
}
