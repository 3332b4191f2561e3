// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One collapse, in such a way that the target notices as little as can be.
//!
//! Measured on the way to this (docs/decisions/0018-tend.md): the copy of 512 pages holds the
//! target's mmap_lock, so whatever lengthens the call lengthens the stall. Memory that the
//! hypervisor has taken back makes it 10 ms instead of 0.5 ms, and so does an ordinary task that
//! takes the CPU in the middle. Therefore a huge page is first taken, touched and given back by this
//! process: the next one to be handed out is that one. And the call itself is real-time, on another
//! CPU than the target's.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use cowlab_observe::Target;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::pace::Cost;
use crate::region::is_there;
use crate::sys::{OwnRegion, Undisturbed, collapse};

/// How a collapse went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is one huge page now.
    Collapsed(Cost),
    /// No huge page is free, and compaction made none: met by this process, not by the target.
    NoHugePage,
    /// There was one for this process and none for the target: somebody else was faster, or its memory
    /// policy wants another.
    NoneForTarget,
    /// The target has unmapped it, or a part of it.
    Unmapped,
    /// The target's control group has no memory left for one.
    GroupFull,
    /// Its pages are in use by somebody else just now (locked, isolated, pinned).
    Busy,
    /// The mapping cannot have huge pages.
    NotEligible,
    /// The target has ended.
    Gone,
    /// The right is missing.
    Forbidden,
    /// Anything else, by its number.
    Failed(i32),
}

impl Outcome {
    /// What an error of process_madvise(2) with MADV_COLLAPSE means (madvise(2), and the kernel's
    /// mm/khugepaged.c: `madvise_collapse_errno`).
    pub fn of(error: &io::Error) -> Outcome {
        let code = error.raw_os_error().unwrap_or(0);
        let is = |errno: Errno| code == errno.raw_os_error();
        if is(Errno::NOMEM) {
            // Also what an unmapped address gives: see `of_region`.
            Outcome::NoHugePage
        } else if is(Errno::BUSY) {
            Outcome::GroupFull
        } else if is(Errno::AGAIN) {
            Outcome::Busy
        } else if is(Errno::INVAL) || is(Errno::FAULT) {
            Outcome::NotEligible
        } else if is(Errno::SRCH) {
            Outcome::Gone
        } else if is(Errno::PERM) || is(Errno::ACCESS) {
            Outcome::Forbidden
        } else {
            Outcome::Failed(code)
        }
    }
}

/// Collapses regions of one target.
#[derive(Debug)]
pub struct Collapser {
    own: OwnRegion,
    huge_page_bytes: u64,
}

/// Ready for one collapse: on another CPU than the target's, with a huge page that is free, warm, and
/// the next to be handed out there. It goes back to the CPUs of before when it is dropped.
#[derive(Debug)]
pub struct Ready {
    cpu_before: u64,
    allowed: Option<CpuSet>,
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(allowed) = &self.allowed {
            // Where it fails, the next collapse is made on fewer CPUs.
            let _ = sched_setaffinity(None, allowed);
        }
    }
}

impl Collapser {
    /// Gets ready. Fails without an address space.
    pub fn new(huge_page_bytes: u64) -> io::Result<Collapser> {
        Ok(Collapser { own: OwnRegion::map(huge_page_bytes)?, huge_page_bytes })
    }

    /// Try on memory of our own: what it takes, or why it cannot be had.
    pub fn rehearse(&mut self) -> Outcome {
        let (began, cpu_before) = (Instant::now(), thread_cpu_ns());
        match self.own.try_collapse() {
            Ok(()) => {
                let call_ns = began.elapsed().as_nanos() as u64;
                let cpu_ns = thread_cpu_ns().saturating_sub(cpu_before);
                Outcome::Collapsed(Cost { call_ns, cpu_ns, ..Cost::default() })
            }
            Err(error) => Outcome::of(&error),
        }
    }

    /// Get ready for one. An error says why there can be none now.
    pub fn prepare(&mut self, target: &Target) -> Result<Ready, Outcome> {
        let cpu_before = thread_cpu_ns();
        let ready = Ready { cpu_before, allowed: keep_off(target) };
        match self.rehearse() {
            Outcome::Collapsed(_) => Ok(ready),
            other => Err(other),
        }
    }

    /// Collapse the region at `start` of `target`.
    pub fn collapse(
        &mut self,
        ready: Ready,
        target: &Target,
        pidfd: BorrowedFd<'_>,
        start: u64,
    ) -> Outcome {
        let range: Range<u64> = start..start + self.huge_page_bytes;
        let delay_before = run_delay_ns(target);
        let undisturbed = Undisturbed::begin();
        let (began, cpu_began) = (Instant::now(), thread_cpu_ns());
        let result = collapse(pidfd, &range);
        let call_ns = began.elapsed().as_nanos() as u64;
        // Nobody takes the CPU from a real-time task, so what it did not run for it waited for: for
        // other CPUs, or for a lock. It waits for the CPUs with mmap_lock taken for reading, which
        // page faults do not need or share; a fork or mmap of the target that comes just then waits
        // with it (`call_ns`).
        let held_ns = match undisturbed {
            Some(_) => (thread_cpu_ns() - cpu_began).min(call_ns),
            None => call_ns,
        };
        drop(undisturbed);
        let run_delay_ns = run_delay_ns(target).saturating_sub(delay_before);
        match result {
            Ok(()) => Outcome::Collapsed(Cost {
                call_ns,
                held_ns,
                cpu_ns: thread_cpu_ns().saturating_sub(ready.cpu_before),
                // What the target had waited for anyway, ready but without a CPU, is not ours.
                run_delay_ns: run_delay_ns.min(call_ns),
                told_ns: None,
            }),
            Err(error) => of_region(Outcome::of(&error), target, &range),
        }
    }
}

/// Run elsewhere than on the CPU that the target's first thread ran on last, where there is another:
/// there the call would take its turn from it. The CPUs to go back to.
fn keep_off(target: &Target) -> Option<CpuSet> {
    let allowed = sched_getaffinity(None).ok()?;
    let cpu = last_cpu(target).filter(|cpu| *cpu < CpuSet::MAX_CPU)?;
    let mut others = allowed;
    others.unset(cpu);
    // Where it fails, the call is made where we are.
    (others.count() > 0 && sched_setaffinity(None, &others).is_ok()).then_some(allowed)
}

/// The kernel has one number for lack of huge pages and for an address where nothing is: whether it is
/// still there tells which.
fn of_region(outcome: Outcome, target: &Target, range: &Range<u64>) -> Outcome {
    match outcome {
        Outcome::NoHugePage => match is_there(target, range) {
            Ok(false) => Outcome::Unmapped,
            _ => Outcome::NoneForTarget,
        },
        other => other,
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Time that the target's first thread was ready and had no CPU; 0 where the kernel does not tell.
fn run_delay_ns(target: &Target) -> u64 {
    let second = |text: String| text.split_ascii_whitespace().nth(1)?.parse().ok();
    target.read("schedstat").ok().and_then(second).unwrap_or(0)
}

fn last_cpu(target: &Target) -> Option<usize> {
    target.stat().ok()?.last_cpu
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_kernel_have_a_meaning_each() {
        for (errno, outcome) in [
            (Errno::NOMEM, Outcome::NoHugePage),
            (Errno::BUSY, Outcome::GroupFull),
            (Errno::AGAIN, Outcome::Busy),
            (Errno::INVAL, Outcome::NotEligible),
            (Errno::SRCH, Outcome::Gone),
            (Errno::PERM, Outcome::Forbidden),
            (Errno::NOSYS, Outcome::Failed(Errno::NOSYS.raw_os_error())),
        ] {
            assert_eq!(Outcome::of(&errno.into()), outcome);
        }
    }

    #[test]
    fn memory_that_is_gone_is_no_lack_of_huge_pages() {
        let own = Target::open(std::process::id() as i32).unwrap();
        // Nothing is ever mapped there in a program that can be loaded anywhere.
        let nothing = 2 << 20..4 << 20;
        assert_eq!(of_region(Outcome::NoHugePage, &own, &nothing), Outcome::Unmapped);
        assert_eq!(of_region(Outcome::Busy, &own, &nothing), Outcome::Busy);
        let memory = OwnRegion::map(2 << 20).unwrap();
        let there = memory.range();
        assert_eq!(of_region(Outcome::NoHugePage, &own, &there), Outcome::NoneForTarget);
        // As the kernel answers it, where it can be asked.
        let mut collapser = Collapser::new(2 << 20).unwrap();
        if let (Ok(ready), Some(pidfd)) = (collapser.prepare(&own), own.pidfd()) {
            let outcome = collapser.collapse(ready, &own, pidfd, nothing.start);
            assert!(matches!(outcome, Outcome::Unmapped | Outcome::Forbidden), "{outcome:?}");
        }
    }

    #[test]
    fn one_is_back_on_all_cpus_afterwards() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let count = || sched_getaffinity(None).unwrap().count();
        let before = count();
        let mut collapser = Collapser::new(2 << 20).unwrap();
        if let Ok(ready) = collapser.prepare(&own) {
            assert!(before == 1 || count() == before - 1);
            drop(ready);
        }
        assert_eq!(count(), before);
    }

    #[test]
    fn ones_own_cpu_and_delay_can_be_read() {
        let own = Target::open(std::process::id() as i32).unwrap();
        assert!(last_cpu(&own).is_some());
        let _ = run_delay_ns(&own);
        let before = thread_cpu_ns();
        std::hint::black_box((0..100_000).sum::<u64>());
        assert!(thread_cpu_ns() > before);
    }
}
