// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that is shared with traced programs, or with programs in the kernel. Safety: a mapping whose
//! every access is checked against its length, and made of atomic loads and stores, since its other
//! users may write anything at any time.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A mapped file, or a mapped BPF map.
pub struct SharedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only accessed atomically.
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

    /// `count` atomics from `offset` on.
    fn atomics<T>(&self, offset: usize, count: usize) -> &[T] {
        let start = self.at(offset, count * size_of::<T>(), size_of::<T>());
        // SAFETY: in bounds and aligned, it lives as long as the mapping, and T is an atomic (this is
        // private): this process accesses the mapping by these alone. Those of other sizes, and what
        // other processes write, may give any value, which every T can hold.
        unsafe { std::slice::from_raw_parts(start.cast(), count) }
    }

    /// The word at `offset`.
    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        &self.atomics(offset, 1)[0]
    }

    /// The double word at `offset`.
    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        &self.atomics(offset, 1)[0]
    }

    /// Copy from the mapping, from a multiple of 8. Another user may write there meanwhile: whether
    /// the copy is what was meant, the caller learns by an atomic word beside it.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        let words: &[AtomicU64] = self.atomics(offset, to.len() / 8);
        let rest: &[AtomicU8] = self.atomics(offset + words.len() * 8, to.len() % 8);
        let mut copies = to.chunks_exact_mut(8);
        for (copy, word) in copies.by_ref().zip(words) {
            copy.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        for (copy, byte) in copies.into_remainder().iter_mut().zip(rest) {
            *copy = byte.load(Relaxed);
        }
    }

    /// Copy into the mapping, before others are told of it.
    pub fn write(&self, offset: usize, from: &[u8]) {
        for (byte, to) in from.iter().zip(self.atomics::<AtomicU8>(offset, from.len())) {
            to.store(*byte, Relaxed);
        }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it outlives the value.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
