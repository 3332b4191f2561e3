// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What reading events may take of a CPU, however many there are.

use std::time::Instant;

use rustix::time::ClockId;

use crate::clock::nanoseconds;
use crate::watch::Budget;

/// The part of one CPU, which is what the service's unit promises.
const SHARE: f64 = 0.01;
/// Ten seconds of it, for a burst.
const CREDIT_NS: f64 = 100e6;
/// The longest debt with which events are taken from the kernel as they come. Beyond it each frame counts some
/// (`COUNTED_EACH_NS`), the others wait there, and the kernel counts those that do not fit.
const LATE_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Pace {
    budget: Budget,
    at: Instant,
    /// This thread's CPU time, as far as it was charged or is somebody else's.
    cpu_ns: u64,
    /// Events that were booked by what they say alone.
    pub(super) unread_events: u64,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Pace {
        Pace { budget: Budget::new(SHARE, CREDIT_NS), at: now, cpu_ns: 0, unread_events: 0 }
    }

    /// What this thread did until now is not charged.
    pub(super) fn mark(&mut self) {
        self.cpu_ns = nanoseconds(ClockId::ThreadCPUTime);
    }

    /// What it did since then is.
    pub(super) fn charge(&mut self) {
        let before_ns = self.cpu_ns;
        self.mark();
        self.budget.spend(self.cpu_ns.saturating_sub(before_ns));
    }

    pub(super) fn pass(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at);
        self.at = now;
        self.budget.pass(passed.as_nanos() as u64);
    }

    /// Whether there is time to read what an event is about.
    pub(super) fn allows(&self) -> bool {
        self.budget.allows()
    }

    /// Whether events are left to the next frame.
    pub(super) fn is_late(&self) -> bool {
        self.budget.wait_ns() > LATE_NS
    }
}
