// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's clocks, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC, which the kernel's events are dated by.
pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// What this thread has run.
pub(crate) fn own_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// A clock that does not go below 0.
pub(crate) fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
