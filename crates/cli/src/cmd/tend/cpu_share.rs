// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The share of a CPU that all of it may take: looking at every target, searching, metrics.

use std::time::{Duration, Instant};

use cowlab_observe::watch::Budget;
use rustix::time::{ClockId, clock_gettime};

/// What was not used of the last minute is saved up: all the work that a snapshot makes is there at
/// its end, and must be done before the next.
const SAVED_NS: f64 = 60e9;

/// What this process has used of its share.
pub struct CpuShare {
    budget: Budget,
    cpu_ns: u64,
    at: Instant,
}

impl CpuShare {
    pub fn new(share: f64) -> CpuShare {
        let most_ns = SAVED_NS * share;
        let mut budget = Budget::new(share, most_ns);
        // Nothing is saved up yet.
        budget.spend(most_ns as u64);
        CpuShare { budget, cpu_ns: process_cpu_ns(), at: Instant::now() }
    }

    /// So much of what was used is not of the share.
    pub fn excuse(&mut self, cpu_ns: u64) {
        self.cpu_ns += cpu_ns;
    }

    /// How long nothing may be done.
    pub fn wait(&mut self, now: Instant) -> Duration {
        self.wait_after(now, process_cpu_ns())
    }

    fn wait_after(&mut self, now: Instant, cpu_ns: u64) -> Duration {
        self.budget.spend(cpu_ns.saturating_sub(self.cpu_ns));
        self.budget.pass(now.saturating_duration_since(self.at).as_nanos() as u64);
        (self.cpu_ns, self.at) = (cpu_ns, now);
        Duration::from_nanos(self.budget.wait_ns())
    }
}

/// CPU time of this process, all threads.
fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_paid_in_time() {
        let mut cpu_share = CpuShare::new(0.05);
        let (began, used) = (cpu_share.at, cpu_share.cpu_ns);
        let ms = Duration::from_millis;
        assert_eq!(cpu_share.wait_after(began, used), Duration::ZERO);
        // 10 ms of work that took 20 ms: one part of 200 ms, of which 20 have passed.
        let used = used + 10_000_000;
        assert_eq!(cpu_share.wait_after(began + ms(20), used), ms(180));
        assert_eq!(cpu_share.wait_after(began + ms(120), used), ms(80));
        assert_eq!(cpu_share.wait_after(began + ms(200), used), Duration::ZERO);
        // What is excused is not paid.
        cpu_share.excuse(5_000_000);
        let used = used + 5_000_000;
        assert_eq!(cpu_share.wait_after(began + ms(200), used), Duration::ZERO);
        // An idle hour buys what an idle minute does: 3 s of work.
        let hour = began + ms(3_600_000);
        assert_eq!(cpu_share.wait_after(hour, used), Duration::ZERO);
        assert_eq!(cpu_share.wait_after(hour, used + 3_000_000_000), Duration::ZERO);
        assert_eq!(cpu_share.wait_after(hour, used + 3_001_000_000), ms(20));
    }
}
