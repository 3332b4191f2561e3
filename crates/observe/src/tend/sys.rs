// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system calls that no library wraps: process_madvise(2) with MADV_COLLAPSE, a real-time
//! moment, and memory of our own to try a collapse on. The only place of this crate with `unsafe`.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// `MADV_COLLAPSE` of linux/mman.h: make huge pages of the range now (Linux 6.1).
const MADV_COLLAPSE: libc::c_int = 25;

/// Ask the kernel to make one huge page of `range`, which is aligned to one, in the process of
/// `pidfd`. Its contents do not change. An error is what the kernel answered: see
/// [`crate::tend::act::Outcome::of`].
pub fn collapse(pidfd: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<()> {
    advise_collapse(
        pidfd,
        &[libc::iovec {
            iov_base: range.start as usize as *mut c_void,
            iov_len: (range.end - range.start) as usize,
        }],
    )
}

/// Whether the kernel lets this process collapse memory of the process of `pidfd`: asked with nothing
/// to collapse. EPERM without CAP_SYS_NICE in the first user namespace; EACCES where it may not be
/// looked at.
pub fn may_collapse(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    advise_collapse(pidfd, &[])
}

fn advise_collapse(pidfd: BorrowedFd<'_>, ranges: &[libc::iovec]) -> io::Result<()> {
    // SAFETY: the kernel reads the iovecs, which outlive the call; the addresses in them are another
    // process's and are not followed here. The advice keeps that process's bytes as they are.
    let done = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            ranges.as_ptr(),
            ranges.len(),
            MADV_COLLAPSE,
            0u32,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// While it lives, the calling thread is not preempted by anyone's ordinary work: a collapse holds
/// the target's mmap_lock, and who is put aside with it in hand stops the target for as long.
#[derive(Debug)]
pub struct Undisturbed(());

impl Undisturbed {
    /// `None` where the system does not allow it (no CAP_SYS_NICE, or no real-time time for this
    /// control group).
    pub fn begin() -> Option<Undisturbed> {
        set_scheduler(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1).then_some(Undisturbed(()))
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        set_scheduler(libc::SCHED_OTHER, 0);
    }
}

fn set_scheduler(policy: libc::c_int, priority: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the kernel reads one structure, which outlives the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

/// Memory of our own, one huge page and aligned to it: what a collapse would meet in the target,
/// lack of huge pages first of all, is met here.
#[derive(Debug)]
pub struct OwnRegion {
    mapping: NonNull<c_void>,
    mapped_bytes: usize,
    region: NonNull<c_void>,
    bytes: usize,
}

impl OwnRegion {
    /// Maps it, untouched. Fails without an address space.
    pub fn map(huge_page_bytes: u64) -> io::Result<OwnRegion> {
        let bytes = huge_page_bytes as usize;
        let mapped_bytes = 2 * bytes;
        // SAFETY: a new mapping of the kernel's choice; nothing that exists is replaced.
        let mapping = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let mapping = NonNull::new(mapping).ok_or(io::ErrorKind::OutOfMemory)?;
        let to_aligned = mapping.as_ptr().addr().wrapping_neg() & (bytes - 1);
        // SAFETY: the mapping is twice the region, so an aligned region lies inside it.
        let region = unsafe { mapping.byte_add(to_aligned) };
        Ok(OwnRegion { mapping, mapped_bytes, region, bytes })
    }

    #[cfg(test)]
    pub fn range(&self) -> Range<u64> {
        let start = self.region.as_ptr().addr() as u64;
        start..start + self.bytes as u64
    }

    /// Fills it with base pages, as a target has them.
    pub fn fill(&mut self, page_bytes: usize) {
        // SAFETY: the region is this value's own, and there is nothing in it. Where the advice is not
        // known there are no huge pages either.
        let advise = |advice| unsafe {
            let _ = madvise(self.region.as_ptr(), self.bytes, advice);
        };
        advise(Advice::LinuxNoHugepage);
        for at in (0..self.bytes).step_by(page_bytes) {
            // SAFETY: a byte of the region, which is mapped writable and nobody else's.
            unsafe { self.region.byte_add(at).cast::<u8>().write_volatile(1) };
        }
        advise(Advice::LinuxHugepage);
    }

    /// Makes a huge page of it. Errors are as [`collapse`]'s.
    pub fn collapse(&mut self) -> io::Result<()> {
        self.write_first_byte();
        // SAFETY: the region is this value's own; its one byte is kept.
        let done = unsafe { libc::madvise(self.region.as_ptr(), self.bytes, MADV_COLLAPSE) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(crate) fn write_first_byte(&self) {
        // SAFETY: one byte of memory that is mapped writable and that nobody else has.
        unsafe { self.region.cast::<u8>().write_volatile(1) };
    }

    /// Gives its memory back to the kernel.
    pub fn release(&mut self) {
        // SAFETY: the region is this value's own, and nothing in it is needed.
        let _ = unsafe { madvise(self.region.as_ptr(), self.bytes, Advice::LinuxDontNeed) };
    }
}

impl Drop for OwnRegion {
    fn drop(&mut self) {
        // SAFETY: this value mapped it, and nobody else knows its address.
        let _ = unsafe { munmap(self.mapping.as_ptr(), self.mapped_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_of_ones_own_collapses_again_and_again_or_says_why_not() {
        let mut own = OwnRegion::map(2 << 20).unwrap();
        assert!(own.region.as_ptr().addr().is_multiple_of(2 << 20));
        // No huge page, no such advice, or none for this process: anything else is a defect of ours.
        let reasons = [libc::ENOMEM, libc::EINVAL, libc::EAGAIN, libc::EBUSY];
        for _ in 0..3 {
            own.fill(4096);
            let collapsed = own.collapse();
            own.release();
            if let Err(error) = collapsed {
                assert!(
                    error.raw_os_error().is_some_and(|code| reasons.contains(&code)),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn the_scheduler_is_as_before_afterwards() {
        // SAFETY: only asks.
        let now = || unsafe { libc::sched_getscheduler(0) };
        let before = now();
        drop(Undisturbed::begin());
        assert_eq!(now(), before);
    }
}
