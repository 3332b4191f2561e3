// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that is shared with traced programs, or with programs in the kernel. Safety: a mapping whose
//! every access is checked against its length, and atomic words and copies in it, since its other
//! users may write anything at any time.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped file, or a mapped BPF map.
pub struct SharedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only accessed atomically or
// by copies that assume nothing about what they copy.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Map `bytes` of a file for reading and writing.
    pub fn map(file: impl AsFd, bytes: usize) -> io::Result<SharedMemory> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let start =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_fd(), 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedMemory { start, bytes })
    }

    fn at(&self, offset: usize, bytes: usize, alignment: usize) -> *mut u8 {
        assert!(offset.is_multiple_of(alignment));
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes));
        // SAFETY: the assertions above keep the result within the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// The word at `offset`.
    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: in bounds, aligned, lives as long as the mapping, and never accessed otherwise.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4, 4).cast()) }
    }

    /// The double word at `offset`.
    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `u32`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8, 8).cast()) }
    }

    /// Copy from the mapping. Who calls it has learnt by an atomic word that this part is written.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        let from = self.at(offset, to.len(), 1);
        // SAFETY: both are valid for the length; `to` is Rust's own memory and overlaps nothing.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) }
    }

    /// Copy into the mapping, before others are told of it.
    pub fn write(&self, offset: usize, from: &[u8]) {
        let to = self.at(offset, from.len(), 1);
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it outlives the value.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
