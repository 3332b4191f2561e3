// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock of a recording: the CPU's cycle counter where it is one clock for all CPUs.
#![allow(unsafe_code)]

use std::time::Duration;

use cowlab_casper::record::{CASPER_CLOCK_CYCLES, CASPER_CLOCK_MONOTONIC};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The invariant TSC, or arm64's virtual counter.
    Cycles,
    /// `CLOCK_MONOTONIC` in ns: 22 ns a read where the counter takes 8.
    Monotonic,
}

/// The same moment on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub ticks: u64,
    /// On `CLOCK_MONOTONIC`.
    pub monotonic_ns: u64,
}

fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction exists on every x86-64 and has no effect but its result.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: Linux lets user space read this register; it changes nothing.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
        value
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// `CLOCK_MONOTONIC` in ns.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Whether the counter runs at one rate whatever the CPU does, as the CPU says.
fn is_invariant() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx >> 8 & 1 == 1
    }
    #[cfg(not(target_arch = "x86_64"))]
    cfg!(target_arch = "aarch64")
}

/// Whether the kernel keeps time by the counter; an emulated CPU never calls its own invariant.
fn is_the_kernels() -> bool {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64") && std::fs::read_to_string(path).is_ok_and(|is| is.trim() == "tsc")
}

impl Clock {
    /// The cycle counter if it can be trusted here: the CPU calls it invariant or the kernel keeps
    /// time by it, and read on every CPU in turn it agrees with `CLOCK_MONOTONIC` within 20 µs.
    pub fn choose() -> Clock {
        let trusted = is_invariant() || is_the_kernels();
        if trusted && agrees_on_every_cpu() { Clock::Cycles } else { Clock::Monotonic }
    }

    pub fn code(self) -> u32 {
        match self {
            Clock::Cycles => CASPER_CLOCK_CYCLES,
            Clock::Monotonic => CASPER_CLOCK_MONOTONIC,
        }
    }

    fn ticks(self) -> u64 {
        match self {
            Clock::Cycles => cycles(),
            Clock::Monotonic => monotonic_ns(),
        }
    }

    /// Now, on both clocks: of five readings the one during which least time passed.
    pub fn now(self) -> Moment {
        let read = || {
            let before = self.ticks();
            let monotonic_ns = monotonic_ns();
            let after = self.ticks();
            (after.wrapping_sub(before), before, monotonic_ns)
        };
        let (width, before, monotonic_ns) =
            (0..5).map(|_| read()).min_by_key(|reading| reading.0).unwrap_or_else(read);
        match self {
            Clock::Cycles => Moment { ticks: before + width / 2, monotonic_ns },
            Clock::Monotonic => Moment { ticks: monotonic_ns, monotonic_ns },
        }
    }

    /// Ticks a second between two moments; the second of them is taken now if too little passed.
    pub fn hz(self, first: Moment) -> u64 {
        if self == Clock::Monotonic {
            return 1_000_000_000;
        }
        let enough = Duration::from_millis(20).as_nanos() as u64;
        let passed = monotonic_ns().saturating_sub(first.monotonic_ns);
        std::thread::sleep(Duration::from_nanos(enough.saturating_sub(passed)));
        let last = self.now();
        let (ticks, ns) = (last.ticks - first.ticks, last.monotonic_ns - first.monotonic_ns);
        (u128::from(ticks) * 1_000_000_000 / u128::from(ns.max(1))) as u64
    }
}

fn agrees_on_every_cpu() -> bool {
    let Ok(allowed) = sched_getaffinity(None) else { return false };
    let first = Clock::Cycles.now();
    let hz = Clock::Cycles.hz(first);
    let mut agrees = hz > 1_000_000;
    for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)) {
        let mut only = CpuSet::new();
        only.set(cpu);
        if sched_setaffinity(None, &only).is_err() {
            continue;
        }
        let now = Clock::Cycles.now();
        let ticks = now.ticks.wrapping_sub(first.ticks) as i64;
        let expected_ns = (i128::from(ticks) * 1_000_000_000 / i128::from(hz.max(1))) as i64;
        let off_ns = expected_ns - (now.monotonic_ns - first.monotonic_ns) as i64;
        agrees &= off_ns.abs() < 20_000;
    }
    let _ = sched_setaffinity(None, &allowed);
    agrees
}
