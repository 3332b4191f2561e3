// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the soft-dirty bit works, found by using it: a kernel without it still accepts the write to
//! clear_refs (kernel: Documentation/admin-guide/mm/soft-dirty.rst).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU8, Ordering};

use procfs_core::process::SwapPageFlags;

use crate::root::Root;

/// Whether clear_refs clears a page's bit and a write sets it; `None` for a saved tree, or if
/// clear_refs or pagemap is missing or refused.
///
/// clear_refs works on whole processes: every page of this process is write-protected once, and the
/// next write to each costs one minor fault.
pub(crate) fn probe(root: &Root) -> Option<bool> {
    if !root.is_live() {
        return None;
    }
    try_one_page().ok()
}

fn try_one_page() -> io::Result<bool> {
    let page_bytes = rustix::param::page_size();
    let memory: Vec<AtomicU8> = (0..2 * page_bytes).map(|_| AtomicU8::new(1)).collect();
    let start = memory.as_ptr().addr();
    let aligned = start.next_multiple_of(page_bytes);
    let pagemap = File::open("/proc/self/pagemap")?;
    let is_dirty = || {
        let mut entry = [0; 8];
        pagemap.read_exact_at(&mut entry, (aligned / page_bytes * 8) as u64)?;
        io::Result::Ok(u64::from_ne_bytes(entry) & SwapPageFlags::SOFT_DIRTY.bits() != 0)
    };
    fs::write("/proc/self/clear_refs", "4")?;
    let was_cleared = !is_dirty()?;
    memory[aligned - start].store(2, Ordering::SeqCst);
    Ok(was_cleared && is_dirty()?)
}
