// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long to wait after a collapse: a controller that hears what the last one did to the target.

use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limits {
    /// The longest stall that a collapse may cause.
    pub budget_ns: u64,
    /// Share of one CPU that looking may take.
    pub cpu_share: f64,
    /// Share of one CPU that collapsing may take, out of what somebody else counts: more than the
    /// share that it may take on average.
    pub share_at_once: f64,
    /// The shortest pause between two collapses.
    pub shortest_pause_ns: u64,
    /// The longest, except to rest.
    pub longest_pause_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            budget_ns: 2_000_000,
            cpu_share: 0.05,
            share_at_once: 0.05,
            shortest_pause_ns: 2_000_000,
            longest_pause_ns: 1_000_000_000,
        }
    }
}

impl Limits {
    /// How long to do nothing after work of so much CPU time, for the share to be kept.
    pub fn wait_after(&self, cpu_ns: u64) -> Duration {
        wait_for(self.cpu_share, cpu_ns)
    }

    /// The same after a collapse.
    pub fn pause_after(&self, cpu_ns: u64) -> Duration {
        wait_for(self.share_at_once, cpu_ns)
    }
}

fn wait_for(share: f64, cpu_ns: u64) -> Duration {
    Duration::from_nanos((cpu_ns as f64 / share - cpu_ns as f64).max(0.0) as u64)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// The call, as long as it took. Most of it may be waiting for other CPUs to hand over what they
    /// have in their own lists, with the target's mmap_lock taken for reading: its page faults go on,
    /// a fork or mmap of it that comes just then waits.
    pub call_ns: u64,
    /// The part of it with the target's pages in hand, at most: no page fault of the target waited
    /// longer.
    pub held_ns: u64,
    /// CPU time of ours for it.
    pub cpu_ns: u64,
    /// CPU time before it, of warming the huge page that it takes.
    pub warming_cpu_ns: u64,
    /// Time that the target was ready and had no CPU, meanwhile.
    pub run_delay_ns: u64,
}

impl Cost {
    /// The longest that the target can have been held up.
    pub fn stall_ns(&self) -> u64 {
        self.held_ns.max(self.run_delay_ns)
    }
}

/// How soon a pass should be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// As fast as the stalls allow, at whatever CPU time: until it is done, every fork is a long stop.
    FirstPass,
    /// At the share of a CPU, and spread over the time that there is.
    Upkeep {
        regions_left: u64,
        /// Until all should be done, where that can be told.
        left_ns: Option<u64>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Wait so long and go on.
    Pause { ns: u64 },
    /// It stalls the target longer than it may, again and again: leave it alone for so long.
    Rest { ns: u64 },
}

/// Share of the target's time that stalls may take: five of 30 ms with nothing between them are one of
/// 150 ms to a client that waits for an answer.
const STALLED_SHARE: f64 = 0.05;
/// Stalls over the budget in a row that end in a rest.
const MOST_IN_A_ROW: u32 = 5;
/// The first rest; each that follows without a good collapse between is twice as long.
const FIRST_REST_NS: u64 = 10_000_000_000;
const LONGEST_REST_NS: u64 = 640_000_000_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    limits: Limits,
    /// Beyond what the CPU share asks for: doubled by each stall over the budget, and slowly less.
    caution_ns: u64,
    in_a_row: u32,
    rest_ns: u64,
    /// CPU time of one, averaged: of collapsing, and of warming.
    collapse_ns: f64,
    warming_ns: f64,
}

impl Pace {
    /// At the start nothing is known.
    pub fn new(limits: Limits) -> Pace {
        Pace {
            limits,
            caution_ns: 0,
            in_a_row: 0,
            rest_ns: FIRST_REST_NS,
            collapse_ns: 0.0,
            warming_ns: 0.0,
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// CPU time of one with its warming, on average; `None` before the first.
    pub fn cpu_ns(&self) -> Option<u64> {
        (self.collapse_ns > 0.0).then_some((self.collapse_ns + self.warming_ns) as u64)
    }

    /// What was timed so far says nothing of the next.
    pub fn forget_cost(&mut self) {
        self.collapse_ns = 0.0;
    }

    /// After one that the kernel did not make, because its pages were in use: others come first, and
    /// where there are none it waits a little.
    pub fn busy_pause(&self) -> Duration {
        Duration::from_nanos(self.limits.shortest_pause_ns.max(20_000_000))
    }

    /// After a collapse of that cost: how long to wait.
    pub fn after(&mut self, cost: &Cost, haste: Haste) -> Next {
        let limits = self.limits;
        let share_of_new = if self.collapse_ns == 0.0 { 1.0 } else { 0.1 };
        self.collapse_ns += (cost.cpu_ns as f64 - self.collapse_ns) * share_of_new;
        self.warming_ns += (cost.warming_cpu_ns as f64 - self.warming_ns) * share_of_new;
        let for_haste = match haste {
            Haste::FirstPass => 0,
            Haste::Upkeep { regions_left, left_ns } => {
                let for_share = limits.pause_after(self.collapse_ns as u64).as_nanos() as u64;
                // No faster than needed.
                for_share.max(left_ns.map_or(0, |ns| ns / (regions_left + 1)))
            }
        };
        if cost.stall_ns() > limits.budget_ns {
            self.in_a_row += 1;
            self.caution_ns =
                (self.caution_ns.max(limits.shortest_pause_ns) * 2).min(limits.longest_pause_ns);
            if self.in_a_row >= MOST_IN_A_ROW {
                self.in_a_row = 0;
                let ns = self.rest_ns;
                self.rest_ns = (ns * 2).min(LONGEST_REST_NS);
                return Next::Rest { ns };
            }
        } else {
            self.in_a_row = 0;
            self.rest_ns = FIRST_REST_NS;
            self.caution_ns = self.caution_ns / 8 * 7;
        }
        let for_stall = wait_for(STALLED_SHARE, cost.stall_ns()).as_nanos() as u64;
        let ns =
            for_haste.max(self.caution_ns).clamp(limits.shortest_pause_ns, limits.longest_pause_ns);
        Next::Pause { ns: ns.max(for_stall) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPKEEP: Haste = Haste::Upkeep { regions_left: 10, left_ns: None };

    fn cost(call_us: u64) -> Cost {
        let ns = call_us * 1000;
        Cost { call_ns: ns, held_ns: ns, cpu_ns: ns, ..Cost::default() }
    }

    /// Of a call that held up nobody.
    fn work(cpu_us: u64) -> Cost {
        Cost { cpu_ns: cpu_us * 1000, ..Cost::default() }
    }

    fn pause(next: Next) -> u64 {
        match next {
            Next::Pause { ns } => ns,
            Next::Rest { .. } => panic!("rests"),
        }
    }

    #[test]
    fn the_share_of_a_cpu_is_kept() {
        let mut pace = Pace::new(Limits::default());
        let ns = pause(pace.after(&work(500), UPKEEP));
        assert_eq!(ns, 9_500_000);
        // 500 µs of work each 10 ms.
        assert!((5e5 / (5e5 + ns as f64) - 0.05).abs() < 1e-6);
        let mut pace = Pace::new(Limits { share_at_once: 0.2, ..Limits::default() });
        assert_eq!(pause(pace.after(&work(500), UPKEEP)), 2_000_000);
        // To warm is not charged, and in the first pass nothing is.
        let cold = Cost { warming_cpu_ns: 4_500_000, ..work(500) };
        assert_eq!(pause(pace.after(&cold, UPKEEP)), 2_000_000);
        let mut pace = Pace::new(Limits { share_at_once: 0.001, ..Limits::default() });
        assert_eq!(pause(pace.after(&cold, Haste::FirstPass)), 2_000_000);
        assert_eq!(pace.cpu_ns(), Some(5_000_000));
    }

    #[test]
    fn a_target_is_held_up_for_a_twentieth_of_the_time() {
        let mut pace = Pace::new(Limits { share_at_once: 1.0, ..Limits::default() });
        assert_eq!(pause(pace.after(&cost(500), Haste::FirstPass)), 9_500_000);
        assert_eq!(pause(pace.after(&cost(500), UPKEEP)), 9_500_000);
    }

    #[test]
    fn a_dear_one_is_forgotten() {
        let mut pace = Pace::new(Limits::default());
        pace.after(&cost(9000), UPKEEP);
        assert_eq!(pace.cpu_ns(), Some(9_000_000));
        pace.forget_cost();
        assert_eq!(pace.cpu_ns(), None);
        pace.after(&cost(500), UPKEEP);
        assert_eq!(pace.cpu_ns(), Some(500_000));
    }

    #[test]
    fn a_long_look_is_followed_by_a_long_wait() {
        let mut limits = Limits::default();
        assert_eq!(limits.wait_after(0), Duration::ZERO);
        // 300 children: beyond the longest pause too.
        assert_eq!(limits.wait_after(10_000_000), Duration::from_millis(190));
        assert_eq!(limits.wait_after(100_000_000), Duration::from_millis(1900));
        limits.cpu_share = 1.0;
        assert_eq!(limits.wait_after(10_000_000), Duration::ZERO);
    }

    #[test]
    fn work_is_spread_over_the_time_that_there_is() {
        let mut pace = Pace::new(Limits::default());
        let left = Some(30_000_000_000);
        let upkeep = |regions_left, left_ns| Haste::Upkeep { regions_left, left_ns };
        assert_eq!(pause(pace.after(&cost(500), upkeep(749, left))), 40_000_000);
        // Little to do does not take forever, and much is not done faster than the share allows.
        assert_eq!(pause(pace.after(&cost(500), upkeep(0, left))), 1_000_000_000);
        assert_eq!(pause(pace.after(&cost(500), upkeep(100_000, left))), 9_500_000);
        assert_eq!(pause(pace.after(&cost(500), upkeep(749, Some(0)))), 9_500_000);
    }

    #[test]
    fn stalls_beyond_the_budget_slow_it_down_and_then_stop_it() {
        let mut pace = Pace::new(Limits::default());
        let mut pauses = Vec::new();
        for _ in 0..4 {
            pauses.push(pause(pace.after(&cost(3000), UPKEEP)));
        }
        assert!(pauses.is_sorted() && pauses[3] >= 57_000_000, "{pauses:?}");
        assert_eq!(pace.after(&cost(3000), UPKEEP), Next::Rest { ns: 10_000_000_000 });
        for _ in 0..4 {
            pace.after(&cost(3000), UPKEEP);
        }
        assert_eq!(pace.after(&cost(3000), UPKEEP), Next::Rest { ns: 20_000_000_000 });
        // One good one forgives the rests, and caution fades.
        for _ in 0..60 {
            pace.after(&cost(100), UPKEEP);
        }
        assert!(pause(pace.after(&cost(100), UPKEEP)) < 6_000_000);
        for _ in 0..4 {
            pace.after(&cost(3000), UPKEEP);
        }
        assert_eq!(pace.after(&cost(3000), UPKEEP), Next::Rest { ns: 10_000_000_000 });
    }

    #[test]
    fn a_long_stall_is_followed_by_a_longer_pause() {
        let mut pace =
            Pace::new(Limits { cpu_share: 1.0, share_at_once: 1.0, ..Limits::default() });
        assert_eq!(pause(pace.after(&cost(1900), UPKEEP)), 36_100_000);
        assert_eq!(pause(pace.after(&cost(30_000), UPKEEP)), 570_000_000);
        // Beyond the longest pause, too.
        assert_eq!(pause(pace.after(&cost(90_000), UPKEEP)), 1_710_000_000);
        assert!(pause(pace.after(&cost(500), UPKEEP)) < 10_000_000);
    }

    #[test]
    fn a_stall_is_the_call_or_the_wait_for_a_cpu_whichever_is_longer() {
        assert_eq!(Cost { run_delay_ns: 7_000_000, ..cost(3000) }.stall_ns(), 7_000_000);
        assert_eq!(cost(3000).stall_ns(), 3_000_000);
    }
}
