// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One collapse, in such a way that the target notices as little as can be.
//!
//! Measured on the way to this (docs/decisions/0018-tend.md): the copy of 512 pages holds the
//! target's mmap_lock, so whatever lengthens the call lengthens the stall. Memory that the
//! hypervisor has taken back makes it 10 ms instead of 0.5 ms, and so does an ordinary task that
//! takes the CPU in the middle. Therefore this process first takes a huge page of its own, which warms
//! it, while the target goes on; and gives it back just before the call: the next one to be handed out
//! on this CPU is that one (the same in 98 of 100 by their frame numbers). And the call itself is
//! real-time, on another CPU than the target's.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use cowlab_machine::process::{Pagemap, Target};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::tend::pace::Cost;
use crate::tend::region::is_there;
use crate::tend::sys::{OwnRegion, Undisturbed, collapse};

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
    Gone,
    Forbidden,
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

#[derive(Debug)]
pub struct Collapser {
    own: OwnRegion,
    /// That it is one huge page now, and the CPU time that this took.
    warmed_ns: Option<u64>,
    huge_page_bytes: u64,
}

/// The pages of a region that is to be collapsed.
#[derive(Debug)]
pub struct Fetch<'a> {
    pub memory: &'a File,
    pub pagemap: &'a mut Pagemap,
    /// Its first address.
    pub start: u64,
}

impl Fetch<'_> {
    /// Reads a byte of each page that is there, so that the hypervisor returns what it took before the
    /// collapse holds mmap_lock: else that waits 3 to 70 ms a region. One by one, since each read takes the
    /// lock, too. What cannot be read is left as it is.
    fn fetch(self, target: &Target, huge_page_bytes: u64) {
        let region = self.start..self.start + huge_page_bytes;
        let page_bytes = self.pagemap.page_bytes() as usize;
        let _ = self.pagemap.for_each(target, region, |first, pages| {
            let addresses = (first..).step_by(page_bytes);
            for (at, _) in addresses.zip(pages).filter(|(_, page)| page.is_anonymous()) {
                let _ = self.memory.read_at(&mut [0], at);
            }
        });
    }
}

/// On another CPU than the target's; goes back to the CPUs of before when it is dropped.
#[derive(Debug)]
struct Elsewhere {
    allowed: Option<CpuSet>,
}

impl Drop for Elsewhere {
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
        let own = OwnRegion::map(huge_page_bytes)?;
        Ok(Collapser { own, warmed_ns: None, huge_page_bytes })
    }

    /// Try on memory of our own, which is given back: why a huge page cannot be had.
    pub fn rehearse(&mut self) -> Result<(), Outcome> {
        let done = self.own.collapse();
        self.release();
        done.map_err(|error| Outcome::of(&error))
    }

    /// Whether a huge page is at hand.
    pub fn is_warm(&self) -> bool {
        self.warmed_ns.is_some()
    }

    /// Have a huge page at hand for the next collapse, and what that copies fetched; the CPU time of
    /// both. An error says why there can be none now.
    pub fn warm(&mut self, target: &Target, copied: Option<Fetch<'_>>) -> Result<u64, Outcome> {
        let cpu_before = thread_cpu_ns();
        let _elsewhere = keep_off(target);
        if let Some(of) = copied {
            of.fetch(target, self.huge_page_bytes);
        }
        if let Err(error) = self.own.collapse() {
            self.release();
            return Err(Outcome::of(&error));
        }
        let ns = thread_cpu_ns().saturating_sub(cpu_before);
        self.warmed_ns = Some(ns);
        Ok(ns)
    }

    /// Give back what is at hand.
    pub fn release(&mut self) {
        self.own.release();
        self.warmed_ns = None;
    }

    /// Collapse the region at `start` of `target`, with the huge page that is at hand.
    pub fn collapse(&mut self, target: &Target, pidfd: BorrowedFd<'_>, start: u64) -> Outcome {
        let range: Range<u64> = start..start + self.huge_page_bytes;
        let (done, cost) = self.time(target, || collapse(pidfd, &range));
        match done {
            Ok(()) => Outcome::Collapsed(cost),
            Err(error) => of_region(Outcome::of(&error), target, &range),
        }
    }

    /// The same of memory of our own, to learn what a collapse of `target` costs.
    pub(crate) fn try_out(
        &mut self,
        target: &Target,
        like: &mut OwnRegion,
    ) -> Result<Cost, Outcome> {
        let (done, cost) = self.time(target, || like.collapse());
        done.map(|()| cost).map_err(|error| Outcome::of(&error))
    }

    fn time(
        &mut self,
        target: &Target,
        call: impl FnOnce() -> io::Result<()>,
    ) -> (io::Result<()>, Cost) {
        let warming_cpu_ns = self.warmed_ns.unwrap_or(0);
        let cpu_before = thread_cpu_ns();
        let _elsewhere = keep_off(target);
        let delay_before = run_delay_ns(target);
        let undisturbed = Undisturbed::begin();
        self.release();
        let (began, cpu_began) = (Instant::now(), thread_cpu_ns());
        let result = call();
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
        let cost = Cost {
            call_ns,
            held_ns,
            cpu_ns: thread_cpu_ns().saturating_sub(cpu_before),
            warming_cpu_ns,
            // What the target had waited for anyway, ready but without a CPU, is not ours.
            run_delay_ns: run_delay_ns(target).saturating_sub(delay_before).min(call_ns),
        };
        (result, cost)
    }
}

/// Run elsewhere than on the CPU that the target's first thread ran on last, where there is another:
/// there the call would take its turn from it.
fn keep_off(target: &Target) -> Elsewhere {
    let elsewhere = || {
        let allowed = sched_getaffinity(None).ok()?;
        let cpu = last_cpu(target).filter(|cpu| *cpu < CpuSet::MAX_CPU)?;
        let mut others = allowed;
        others.unset(cpu);
        // Where it fails, the call is made where we are.
        (others.count() > 0 && sched_setaffinity(None, &others).is_ok()).then_some(allowed)
    };
    Elsewhere { allowed: elsewhere() }
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
        if let (Ok(_), Some(pidfd)) = (collapser.warm(&own, None), own.pidfd()) {
            let outcome = collapser.collapse(&own, pidfd, nothing.start);
            assert!(!collapser.is_warm());
            assert!(matches!(outcome, Outcome::Unmapped | Outcome::Forbidden), "{outcome:?}");
        }
    }

    #[test]
    fn fetching_makes_no_page() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let memory = OwnRegion::map(2 << 20).unwrap();
        memory.write_first_byte();
        let mut pagemap = Pagemap::open(&own).unwrap();
        let mut present = || {
            let mut count = 0;
            let counted = pagemap.for_each(&own, memory.range(), |_, pages| {
                count += pages.iter().filter(|page| page.is_present()).count();
            });
            counted.unwrap();
            count
        };
        let before = present();
        let mut again = Pagemap::open(&own).unwrap();
        let mem = own.open_file("mem").unwrap();
        let start = memory.range().start;
        Fetch { memory: &mem, pagemap: &mut again, start }.fetch(&own, 2 << 20);
        assert_eq!((before > 0, present()), (true, before));
    }

    #[test]
    fn one_is_back_on_all_cpus_afterwards() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let count = || sched_getaffinity(None).unwrap().count();
        let before = count();
        let elsewhere = keep_off(&own);
        assert!(before == 1 || count() == before - 1);
        drop(elsewhere);
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
