// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the next walk through a child's page tables may begin. Pure.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cowlab_machine::ProcessError;

use super::Budget;

/// The part of one CPU that walks through page tables may take: a hundredth of the time is what the
/// p99 of a server that needs all CPUs looks at.
const SHARE: f64 = 0.003;
/// What may be saved up for the child of a small server, which has ended before that share of a CPU
/// has paid for a second walk: ten seconds of it.
const CREDIT_NS: f64 = 30e6;
/// The least time between two walks: a small child would be walked through all the time.
const EVERY: Duration = Duration::from_millis(50);

/// What walks may take, and whom they cannot look at.
#[derive(Debug)]
pub(super) struct Walks {
    budget: Budget,
    at: Instant,
    forbidden: HashSet<u32>,
}

impl Walks {
    pub(super) fn new(now: Instant) -> Walks {
        Walks { budget: Budget::new(SHARE, CREDIT_NS), at: now, forbidden: HashSet::new() }
    }

    /// How long until the next may be due.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_nanos(self.budget.wait_ns()).max(EVERY)
    }

    /// Whether it is time to look who is next.
    pub(super) fn are_due(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at);
        if passed < EVERY {
            return false;
        }
        self.at = now;
        self.budget.pass(passed.as_nanos() as u64);
        self.budget.allows()
    }

    pub(super) fn may_go_on(&self) -> bool {
        self.budget.allows()
    }

    /// Whether it may be tried with this child.
    pub(super) fn may_try(&self, pid: u32) -> bool {
        !self.forbidden.contains(&pid)
    }

    /// All that was done for one, whatever came of it; or to find whose turn it is.
    pub(super) fn spend(&mut self, took: Duration) {
        self.budget.spend(took.as_nanos() as u64);
    }

    /// It failed with a child that is still there: why, and one that may not be looked at is not tried
    /// again.
    pub(super) fn failed(&mut self, pid: u32, error: &ProcessError) {
        if matches!(error, ProcessError::NoPermission { .. }) {
            self.forbidden.insert(pid);
        }
    }

    /// The child has ended; its number may be another's next.
    pub(super) fn forget(&mut self, pid: u32) {
        self.forbidden.remove(&pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_that_fail_are_paid_like_others() {
        let began = Instant::now();
        let mut walks = Walks::new(began);
        let second = |s: u64| began + Duration::from_secs(s);
        assert!(!walks.are_due(began), "before its time");
        assert!(walks.are_due(second(1)));
        // 500 children that end while they are looked at, 100 µs each: the credit is for 300.
        let mut tried = 0;
        while walks.may_go_on() && tried < 500 {
            walks.spend(Duration::from_micros(100));
            tried += 1;
        }
        assert!((300..=302).contains(&tried), "{tried}");
        assert!(!walks.are_due(began + Duration::from_millis(1010)), "a walk each 50 ms at most");
        // A dear one is paid for at 0.3%.
        walks.spend(Duration::from_millis(30));
        assert!(!walks.are_due(second(10)) && walks.are_due(second(12)));
    }

    #[test]
    fn who_may_not_be_looked_at_is_not_tried_again() {
        let mut walks = Walks::new(Instant::now());
        let path = "/proc/7/pagemap".into();
        walks.failed(7, &ProcessError::NoPermission { pid: 7, path, uid: 100 });
        walks.failed(8, &ProcessError::Executed { pid: 8 });
        assert!(!walks.may_try(7) && walks.may_try(8));
        walks.forget(7);
        assert!(walks.may_try(7), "another process has its number");
    }
}
