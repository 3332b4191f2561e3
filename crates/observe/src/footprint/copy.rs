// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A copy of the private memory of a process, to compare its later bytes with: in this process's
//! memory alone, never in a file.
//!
//! Read from /proc/PID/mem. process_vm_readv would change what is looked at: it pins the pages that
//! it reads, and a pinned page may not be shared by a fork, so that each is copied at once
//! (FOLL_PIN, mm/gup.c): 16,384 of 16,384 pages on Linux 6.18, none by /proc/PID/mem.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use cowlab_machine::memory::Memory;
use cowlab_machine::{ProcessError, ReadError, Root};

use super::reading::{Placed, Reading};
use super::tally::{Changed, Tally};
use cowlab_machine::process::Target;

const CHUNK_BYTES: u64 = 1 << 20;

/// Private pages that are in RAM, with their bytes.
#[derive(Default)]
pub struct Copy {
    /// Addresses of pages in a row and where their bytes begin.
    runs: Vec<(u64, usize, usize)>,
    bytes: Vec<u8>,
    page_bytes: usize,
    /// Pages that were not read: in swap, where reading would bring them back, or gone meanwhile.
    pub unread_pages: u64,
    /// How long it took. Where nothing held the process meanwhile, it is torn by as much.
    pub took_ns: u64,
}

/// The pages to read: one in swap would come back by it, and one of shared memory is no copy.
fn readable(reading: &Reading) -> impl Iterator<Item = Placed> + '_ {
    reading.private_pages().filter(|placed| placed.page.is_present())
}

/// A copy must not push anything out of memory: it may take half of what is free.
fn check_fits(of: &Target, need_bytes: u64) -> Result<(), ProcessError> {
    let free_bytes = Memory::read(&Root::default()).and_then(|memory| memory.available_bytes);
    let Some(free_bytes) = free_bytes.filter(|free| need_bytes > free / 2) else {
        return Ok(());
    };
    let reason = format!(
        "a copy takes {} MiB, and {} MiB are free: use another --method",
        need_bytes >> 20,
        free_bytes >> 20
    );
    Err(ProcessError::Read(ReadError::Malformed { path: of.path("mem"), reason }))
}

/// Bytes that a copy of `reading` takes.
pub fn copy_bytes(reading: &Reading) -> u64 {
    readable(reading).count() as u64 * reading.page_bytes
}

/// Yields the pages of `reading` that can be read, each with its bytes; how many cannot.
fn for_each_page(
    memory: &File,
    reading: &Reading,
    mut each: impl FnMut(Placed, &[u8]),
) -> std::io::Result<u64> {
    let page = reading.page_bytes;
    let mut unread = reading.private_pages().filter(|p| !p.page.is_present()).count() as u64;
    let mut buffer = vec![0; CHUNK_BYTES as usize];
    let mut row: Vec<Placed> = Vec::new();
    let mut flush = |row: &mut Vec<Placed>| {
        let mut done = 0;
        while done < row.len() {
            let rest = &row[done..];
            let wanted = &mut buffer[..rest.len() * page as usize];
            match memory.read_at(wanted, rest[0].address) {
                Ok(got) if got as u64 >= page => {
                    let pages = got / page as usize;
                    for (placed, bytes) in rest[..pages].iter().zip(wanted.chunks(page as usize)) {
                        each(*placed, bytes);
                    }
                    done += pages;
                }
                // Unmapped meanwhile, or memory that may not be read: a device's.
                Ok(_) | Err(_) => {
                    unread += 1;
                    done += 1;
                }
            }
        }
        row.clear();
    };
    for placed in readable(reading) {
        let is_next = row.last().is_some_and(|last| last.address + page == placed.address);
        if (!is_next && !row.is_empty()) || row.len() as u64 * page >= CHUNK_BYTES {
            flush(&mut row);
        }
        row.push(placed);
    }
    flush(&mut row);
    Ok(unread)
}

impl Copy {
    /// Copies the pages of `reading`. Needs a debugger's permission.
    pub fn take(of: &Target, reading: &Reading) -> Result<Copy, ProcessError> {
        let begun = Instant::now();
        let memory = of.open_file("mem")?;
        check_fits(of, copy_bytes(reading))?;
        let mut copy = Copy { page_bytes: reading.page_bytes as usize, ..Copy::default() };
        copy.bytes.reserve_exact(copy_bytes(reading) as usize);
        let (runs, bytes) = (&mut copy.runs, &mut copy.bytes);
        copy.unread_pages = for_each_page(&memory, reading, |placed, page| {
            match runs.last_mut() {
                Some((start, length, _)) if *start + *length as u64 == placed.address => {
                    *length += page.len();
                }
                _ => runs.push((placed.address, page.len(), bytes.len())),
            }
            bytes.extend_from_slice(page);
        })
        .map_err(|error| of.failed("mem", error))?;
        copy.took_ns = begun.elapsed().as_nanos() as u64;
        Ok(copy)
    }

    /// The bytes of the page at `address`.
    pub fn page(&self, address: u64) -> Option<&[u8]> {
        let after = self.runs.partition_point(|(start, ..)| *start <= address);
        let (start, length, at) = *self.runs.get(after.checked_sub(1)?)?;
        let offset = (address - start) as usize;
        (offset < length).then(|| &self.bytes[at + offset..at + offset + self.page_bytes])
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[derive(Debug, Clone, Default)]
pub struct Difference {
    /// Addresses of the pages of which a byte differs, ascending; new pages are not among them.
    pub changed: Vec<u64>,
    /// Bytes, blocks: the counts of pages are left at 0.
    pub tally: Tally,
    /// Pages that could not be read now.
    pub unread_pages: u64,
    pub took_ns: u64,
}

/// Compares what `of` has now, as `reading` lists it, with `before`. `was_there` says of a page
/// that has no copy whether it is new: otherwise it could not be read, and says nothing.
pub fn compare(
    of: &Target,
    reading: &Reading,
    before: &Copy,
    was_there: impl Fn(u64) -> bool,
) -> Result<Difference, ProcessError> {
    let begun = Instant::now();
    let memory = of.open_file("mem")?;
    let mut difference = Difference::default();
    difference.tally.has_bytes = true;
    let (changed, tally) = (&mut difference.changed, &mut difference.tally);
    difference.unread_pages = for_each_page(&memory, reading, |placed, after| {
        let old = before.page(placed.address);
        if old.is_none() && was_there(placed.address) {
            return;
        }
        let what = Changed::between(old, after);
        if old.is_some() && what.bytes > 0 {
            changed.push(placed.address);
        }
        if what != Changed::default() {
            tally.add_bytes(placed.address, placed.kind, what);
        }
    })
    .map_err(|error| of.failed("mem", error))?;
    difference.took_ns = begun.elapsed().as_nanos() as u64;
    Ok(difference)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;
    use cowlab_machine::process::Pagemap;

    #[test]
    fn what_changed_is_seen_and_what_was_rewritten_with_the_same_bytes_is_not() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let mut pagemap = Pagemap::open(&own).unwrap();
        let page = pagemap.page_bytes() as usize;
        let memory: Vec<AtomicU8> = (0..300 * page).map(|_| AtomicU8::new(7)).collect();
        let start = memory.as_ptr().addr().next_multiple_of(page) - memory.as_ptr().addr();
        let address = |index: usize| (memory.as_ptr().addr() + start + index * page) as u64;

        let first = Reading::take(&own, &mut pagemap).unwrap();
        let copy = Copy::take(&own, &first).unwrap();
        assert_eq!(copy.page(address(3)), Some(vec![7; page].as_slice()));
        for index in (0..298).step_by(3) {
            memory[start + index * page + 5].store(8, Ordering::SeqCst);
            memory[start + (index + 1) * page].store(7, Ordering::SeqCst);
        }
        let second = Reading::take(&own, &mut pagemap).unwrap();
        let difference = compare(&own, &second, &copy, |_| false).unwrap();
        let ours = address(0)..address(298);
        let changed: Vec<u64> =
            difference.changed.iter().copied().filter(|at| ours.contains(at)).collect();
        let expected: Vec<u64> = (0..298).step_by(3).map(address).collect();
        assert_eq!(changed, expected);
        assert!(copy.bytes() > 300 * page as u64);
    }
}
