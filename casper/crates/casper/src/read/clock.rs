// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ticks as time.

use crate::record::*;

/// Turns ticks of a session into CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    first_ticks: u64,
    first_ns: u64,
    realtime_ns: i64,
    ns_per_tick: f64,
    known: bool,
}

impl Clock {
    /// From the two moments of a header, which are on both clocks.
    pub fn of(header: &casper_file) -> Clock {
        let ticks = header.last_ticks.saturating_sub(header.first_ticks);
        let ns = header.last_monotonic_ns.saturating_sub(header.first_monotonic_ns);
        let (ns_per_tick, known) = if header.clock == CASPER_CLOCK_MONOTONIC {
            (1.0, true)
        } else if ticks > 0 && ns > 0 {
            (ns as f64 / ticks as f64, true)
        } else {
            (1.0, false)
        };
        Clock {
            first_ticks: header.first_ticks,
            first_ns: header.first_monotonic_ns,
            realtime_ns: header.first_realtime_ns,
            ns_per_tick,
            known,
        }
    }

    /// Whether the length of a tick is known. If not, one tick is taken for 1 ns.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Length of a tick.
    pub fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }

    /// A moment, as CLOCK_MONOTONIC.
    #[inline]
    pub fn ns(&self, ticks: u64) -> u64 {
        if ticks >= self.first_ticks {
            let since = (ticks - self.first_ticks) as f64 * self.ns_per_tick;
            self.first_ns.saturating_add(since as u64)
        } else {
            let before = (self.first_ticks - ticks) as f64 * self.ns_per_tick;
            self.first_ns.saturating_sub(before as u64)
        }
    }

    /// A moment as ns since 1970, UTC, by the wall clock at the recording's begin.
    pub fn unix_ns(&self, ticks: u64) -> i64 {
        let since = self.ns(ticks) as i128 - i128::from(self.first_ns);
        let at = i128::from(self.realtime_ns) + since;
        at.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// A moment, in seconds since the recording's begin.
    pub fn seconds(&self, ticks: u64) -> f64 {
        (ticks as f64 - self.first_ticks as f64) * self.ns_per_tick / 1e9
    }

    /// A span of ticks in ns.
    pub fn span_ns(&self, ticks: f64) -> f64 {
        ticks * self.ns_per_tick
    }

    /// What a time in ps is in ticks.
    pub fn ticks_of_ps(&self, ps: f64) -> f64 {
        ps / 1000.0 / self.ns_per_tick
    }
}
