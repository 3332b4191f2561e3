// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ioctl PAGEMAP_SCAN of /proc/PID/pagemap (since Linux 6.7; PAGEMAP_SCAN(2const), kernel:
//! Documentation/admin-guide/mm/pagemap.rst). Safety: the kernel reads one structure, whose size is
//! part of the request's code, and writes at most as many regions as the structure says fit.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;

use rustix::io::{Errno, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// Bits of [`Region::categories`].
pub mod category {
    /// Of a file, or of shared memory.
    pub const FILE: u64 = 1 << 2;
    pub const PRESENT: u64 = 1 << 3;
    pub const SWAPPED: u64 = 1 << 4;
    /// The kernel's zero page, mapped by reading untouched memory; uses no memory.
    pub const ZERO: u64 = 1 << 5;
    /// A huge page, mapped by one entry of the table above.
    pub const HUGE: u64 = 1 << 6;
}

/// Consecutive pages of the same categories (`struct page_region`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Region {
    pub start: u64,
    /// Exclusive.
    pub end: u64,
    pub categories: u64,
}

/// Selects pages by [`category`].
#[derive(Debug, Clone, Copy, Default)]
pub struct ScanFilter {
    pub all_of: u64,
    /// At least one of these; 0: any page.
    pub any_of: u64,
    pub returned: u64,
}

/// Pages under one hold of the target's mmap_lock: 32 MiB of 4 KiB pages. A multiple of a huge page on
/// every architecture.
const CALL_PAGES: u64 = 8192;
/// Addresses under one hold of it if pages bound the work: 4 GiB of 4 KiB pages.
const SPARSE_CALL_PAGES: u64 = 1 << 20;

impl ScanFilter {
    /// The end of a call that begins at `at`, and how many pages it may find (0: any number).
    ///
    /// The kernel holds the target's mmap_lock for the whole call, so that its fork waits: it lets go
    /// only to return 512 regions, and a dense heap is a single one. If everything present is wanted,
    /// the pages found bound the walk: over nothing it skips empty upper tables in next to no time, and
    /// a reservation of terabytes takes few calls. Any other filter walks pages that it does not find,
    /// so its range must be short.
    pub(crate) fn one_call(self, at: u64, page_bytes: u64) -> (u64, u64) {
        let there = category::PRESENT | category::SWAPPED;
        let is_all_there = self.all_of == 0 && self.any_of & there == there;
        let (addresses, most_pages) =
            if is_all_there { (SPARSE_CALL_PAGES, CALL_PAGES) } else { (CALL_PAGES, 0) };
        let bytes = addresses * page_bytes;
        ((at / bytes + 1).saturating_mul(bytes), most_pages)
    }
}

/// Joins regions that a call's end has cut.
#[derive(Debug, Default)]
pub(crate) struct Joined(Option<Region>);

impl Joined {
    /// Takes the next region, by address; returns the one before it once that is complete.
    pub(crate) fn add(&mut self, region: Region) -> Option<Region> {
        match &mut self.0 {
            Some(last) if last.end == region.start && last.categories == region.categories => {
                last.end = region.end;
                None
            }
            last => last.replace(region),
        }
    }

    pub(crate) fn finish(self) -> Option<Region> {
        self.0
    }
}

/// `struct pm_scan_arg`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Argument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const SCAN: Opcode = opcode::read_write::<Argument>(b'f', 16);

/// One call that finds at most `most_pages` (0: any number): how many regions were filled, and where it
/// stopped.
pub(crate) fn scan(
    pagemap: &File,
    range: &Range<u64>,
    most_pages: u64,
    wanted: ScanFilter,
    regions: &mut [Region],
) -> Result<(usize, u64)> {
    let mut call = Call {
        argument: Argument {
            size: size_of::<Argument>() as u64,
            start: range.start,
            end: range.end,
            max_pages: most_pages,
            category_mask: wanted.all_of,
            category_anyof_mask: wanted.any_of,
            return_mask: wanted.returned,
            ..Argument::default()
        },
        regions,
    };
    // SAFETY: `Call` passes one structure of SCAN's type; its `vec` and `vec_len` are those of a slice
    // that it borrows exclusively during the call.
    let filled = unsafe { ioctl(pagemap, &mut call) }?;
    Ok((filled, call.argument.walk_end))
}

/// Whether the kernel knows the ioctl: asks for no pages.
pub(crate) fn is_known(pagemap: &File) -> bool {
    let wanted = ScanFilter { returned: category::PRESENT, ..ScanFilter::default() };
    !matches!(scan(pagemap, &(0..0), 0, wanted, &mut []), Err(Errno::NOTTY | Errno::INVAL))
}

struct Call<'a> {
    argument: Argument,
    regions: &'a mut [Region],
}

// SAFETY: the structure is the opcode's; the output is the number of regions that the kernel returns.
unsafe impl Ioctl for &mut Call<'_> {
    type Output = usize;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        SCAN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument.vec = self.regions.as_mut_ptr() as u64;
        self.argument.vec_len = self.regions.len() as u64;
        (&raw mut self.argument).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> Result<usize> {
        Ok(out as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_call_holds_the_lock_for_few_pages() {
        let there = category::PRESENT | category::SWAPPED;
        let all =
            ScanFilter { any_of: there, returned: there | category::HUGE, ..ScanFilter::default() };
        assert_eq!(all.one_call(0, 4096), (4096 * MIB, 8192));
        assert_eq!(all.one_call(5000 * MIB, 4096), (8192 * MIB, 8192));
        // These walk pages that they do not find.
        let zeros = ScanFilter {
            all_of: category::ZERO,
            returned: category::ZERO,
            ..ScanFilter::default()
        };
        let present = ScanFilter { any_of: category::PRESENT, ..ScanFilter::default() };
        for wanted in [zeros, present, ScanFilter { all_of: category::HUGE, ..all }] {
            assert_eq!(wanted.one_call(0, 4096), (32 * MIB, 0));
            assert_eq!(wanted.one_call(33 * MIB + 4096, 4096), (64 * MIB, 0));
        }
        assert_eq!(zeros.one_call(u64::MAX - 4095, 4096).0, u64::MAX);
    }

    #[test]
    fn what_a_calls_end_cut_in_two_is_one_region() {
        let region = |start, end, categories| Region { start, end, categories };
        let pieces = [
            region(0, 32, 8),
            region(32, 64, 8),
            region(64, 65, 8),
            region(65, 70, 16),
            region(71, 72, 16),
        ];
        let mut joined = Joined::default();
        let mut whole: Vec<Region> = pieces.into_iter().filter_map(|one| joined.add(one)).collect();
        whole.extend(joined.finish());
        assert_eq!(whole, [region(0, 65, 8), region(65, 70, 16), region(71, 72, 16)]);
        assert_eq!(Joined::default().finish(), None);
    }
}
