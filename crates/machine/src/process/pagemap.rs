// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of a process: /proc/PID/pagemap (kernel: Documentation/admin-guide/mm/pagemap.rst).
//! Reading takes the process's mmap_lock, shared, for what one table maps at a time (2 MiB), a scan
//! for 32 MiB of pages at most ([`ScanFilter`]): its faults go on, an mmap or fork of it waits, for
//! some microseconds or for a part of a millisecond.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

pub use crate::process::scan::{Region, ScanFilter, category};

use crate::process::Target;
use crate::process::error::ProcessError;
use crate::process::scan::{self, Joined};

/// Entries read in one call: 128 MiB of 4 KiB pages. Larger reads gain nothing.
const CHUNK_PAGES: usize = 32768;
const CHUNK_REGIONS: usize = 4096;
/// Longer runs of absent pages are not yielded: one table's.
const HOLE_PAGES: usize = 512;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Page(pub u64);

impl Page {
    pub fn is_present(self) -> bool {
        self.0 >> 63 & 1 == 1
    }

    /// In swap. Whether it is shared is unknown.
    pub fn is_swapped(self) -> bool {
        self.0 >> 62 & 1 == 1
    }

    /// In RAM or in swap. The entry of an absent page need not be 0: its soft-dirty bit may be
    /// set.
    pub fn is_there(self) -> bool {
        self.is_present() || self.is_swapped()
    }

    /// A file's page or shared memory, not this process's own copy.
    pub fn is_file(self) -> bool {
        self.0 >> 61 & 1 == 1
    }

    /// Mapped once, by this process alone. For large folios newer kernels may say so only of the whole
    /// folio.
    pub fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 == 1
    }

    /// Resident and anonymous: this process's own, or shared only by fork. The zero page that reading
    /// untouched memory maps looks the same, except for [`Page::is_exclusive`].
    pub fn is_anonymous(self) -> bool {
        self.is_present() && !self.is_file()
    }

    /// The frame's number, if it is resident and may be known (CAP_SYS_ADMIN).
    pub fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        (self.is_present() && frame != 0).then_some(frame)
    }
}

/// The pages of the memory that a process had when this was opened.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    page_bytes: u64,
    scans: bool,
    bytes: Vec<u8>,
    pages: Vec<Page>,
    regions: Vec<Region>,
}

impl Pagemap {
    /// Needs CONFIG_PROC_PAGE_MONITOR.
    pub fn open(target: &Target) -> Result<Pagemap, ProcessError> {
        let file = target.open_file("pagemap")?;
        let scans = scan::is_known(&file);
        Ok(Pagemap {
            file,
            page_bytes: rustix::param::page_size() as u64,
            scans,
            bytes: Vec::new(),
            pages: Vec::new(),
            regions: Vec::new(),
        })
    }

    /// Whether this kernel has PAGEMAP_SCAN.
    pub fn has_scan(&self) -> bool {
        self.scans
    }

    /// Whether the process still has that memory: it has neither ended nor executed another program.
    pub fn is_current(&self) -> bool {
        self.file.read_at(&mut [0; 8], 0).is_ok_and(|got| got == 8)
    }

    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Yields the pages of `range` in runs, each with its first address. Long runs of absent pages are
    /// left out, and not even read if the kernel can scan. `target` is the process, for errors.
    pub fn for_each(
        &mut self,
        target: &Target,
        range: Range<u64>,
        mut each: impl FnMut(u64, &[Page]),
    ) -> Result<(), ProcessError> {
        if !self.scans {
            return self.read(target, range, &mut each);
        }
        let there = category::PRESENT | category::SWAPPED;
        let wanted = ScanFilter { any_of: there, returned: there, ..ScanFilter::default() };
        let mut populated: Vec<Range<u64>> = Vec::new();
        self.scan(target, range, wanted, |region| match populated.last_mut() {
            // Small holes are read too: a call costs as much as some hundred entries.
            Some(last) if region.start - last.end <= 64 << 12 => last.end = region.end,
            _ => populated.push(region.start..region.end),
        })?;
        populated.into_iter().try_for_each(|range| self.read(target, range, &mut each))
    }

    /// Yields regions of `range` by PAGEMAP_SCAN, by address. [`ProcessError::Unsupported`] if the
    /// kernel lacks it.
    pub fn scan(
        &mut self,
        target: &Target,
        range: Range<u64>,
        wanted: ScanFilter,
        mut each: impl FnMut(Region),
    ) -> Result<(), ProcessError> {
        if !self.scans {
            return Err(ProcessError::Unsupported { path: target.path("pagemap") });
        }
        self.regions.resize(CHUNK_REGIONS, Region::default());
        let mut joined = Joined::default();
        let mut at = range.start;
        while at < range.end {
            let (end, most_pages) = wanted.one_call(at, self.page_bytes);
            let part = at..end.min(range.end);
            let (filled, stopped) =
                scan::scan(&self.file, &part, most_pages, wanted, &mut self.regions)
                    .map_err(|error| target.failed("pagemap", error.into()))?;
            let whole = self.regions[..filled].iter().filter_map(|region| joined.add(*region));
            whole.for_each(&mut each);
            // Linux 6.18 sometimes reports an end before that of the last region, which the next call
            // would then yield again.
            let covered =
                self.regions[..filled].last().map_or(stopped, |last| last.end.max(stopped));
            if covered <= at {
                break;
            }
            at = covered;
        }
        joined.finish().into_iter().for_each(each);
        Ok(())
    }

    fn read(
        &mut self,
        target: &Target,
        range: Range<u64>,
        each: &mut impl FnMut(u64, &[Page]),
    ) -> Result<(), ProcessError> {
        let (mut at, end) = (range.start / self.page_bytes, range.end.div_ceil(self.page_bytes));
        while at < end {
            let pages = CHUNK_PAGES.min((end - at) as usize);
            self.bytes.resize(pages * 8, 0);
            let got = self
                .file
                .read_at(&mut self.bytes, at * 8)
                .map_err(|error| target.failed("pagemap", error))?;
            if got < 8 {
                return Err(target.lost_memory());
            }
            self.pages.clear();
            let (entries, _) = self.bytes[..got].as_chunks::<8>();
            self.pages.extend(entries.iter().map(|entry| Page(u64::from_ne_bytes(*entry))));
            for (first, run) in runs(&self.pages) {
                each((at + first as u64) * self.page_bytes, run);
            }
            at += self.pages.len() as u64;
        }
        Ok(())
    }
}

/// Runs of pages between long holes, each with its first index: a program may have reserved terabytes,
/// whose entries would fill this process's memory.
fn runs(pages: &[Page]) -> impl Iterator<Item = (usize, &[Page])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = at + pages[at..].iter().position(|page| page.is_there())?;
        at = first + 1;
        for (index, page) in pages.iter().enumerate().skip(at) {
            if page.is_there() {
                at = index + 1;
            } else if index + 1 - at >= HOLE_PAGES {
                break;
            }
        }
        Some((first, &pages[first..at]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::mappings::mappings;

    #[test]
    fn bits_are_where_the_kernel_says() {
        let page = Page(1 << 63 | 1 << 56 | 0x1234);
        assert!(page.is_present() && page.is_exclusive() && page.is_anonymous());
        assert_eq!(page.frame(), Some(0x1234));
        let swapped = Page(1 << 62 | 1 << 61 | 1 << 57 | 1 << 55);
        assert!(swapped.is_swapped() && swapped.is_file());
        assert!(swapped.frame().is_none() && !swapped.is_anonymous());
    }

    /// Counts our own pages, of which every second was touched.
    fn count(pagemap: &mut Pagemap, own: &Target, memory: &[u8]) -> (usize, usize) {
        let start = (memory.as_ptr().addr() as u64).next_multiple_of(pagemap.page_bytes());
        let end = memory.as_ptr_range().end.addr() as u64 / pagemap.page_bytes();
        let (mut present, mut runs) = (0, 0);
        pagemap
            .for_each(own, start..end * pagemap.page_bytes(), |address, pages| {
                assert!(address >= start && address.is_multiple_of(4096));
                present += pages.iter().filter(|page| page.is_anonymous()).count();
                runs += 1;
            })
            .unwrap();
        (present, runs)
    }

    #[test]
    fn what_was_touched_is_seen_with_and_without_scan() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let mut pagemap = Pagemap::open(&own).unwrap();
        let page = pagemap.page_bytes() as usize;
        let mut memory = vec![0u8; 40000 * page];
        memory[page..].iter_mut().step_by(2 * page).for_each(|byte| *byte = 1);
        let by_default = count(&mut pagemap, &own, &memory);
        assert!((19_998..=20_000).contains(&by_default.0), "{by_default:?}");
        pagemap.scans = false;
        let plain = count(&mut pagemap, &own, &memory);
        assert_eq!(plain.0, by_default.0);
        assert!(plain.1 >= 2, "the range is longer than one chunk");
    }

    #[test]
    fn long_holes_are_no_part_of_a_run() {
        // Absent pages of a new mapping.
        let mut pages = vec![Page(1 << 55); 4 * HOLE_PAGES];
        for there in [7, 9, 8 + HOLE_PAGES, 10 + 2 * HOLE_PAGES] {
            pages[there] = Page(1 << 63);
        }
        pages[4 * HOLE_PAGES - 1] = Page(1 << 62);
        let found: Vec<(usize, usize)> =
            runs(&pages).map(|(first, run)| (first, run.len())).collect();
        let (one, two) = (8 + HOLE_PAGES, 10 + 2 * HOLE_PAGES);
        assert_eq!(found, [(7, one - 6), (two, 1), (4 * HOLE_PAGES - 1, 1)]);
        assert_eq!(runs(&[Page(0); 3]).count() + runs(&[]).count(), 0);
    }

    #[test]
    fn a_reservation_without_pages_yields_next_to_nothing() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let mut pagemap = Pagemap::open(&own).unwrap();
        let page = pagemap.page_bytes() as usize;
        let mut memory = vec![0u8; 60_000 * page];
        for touched in [20_000, 50_000] {
            memory[touched * page] = 1;
        }
        std::hint::black_box(&memory);
        let start = (memory.as_ptr().addr() as u64).next_multiple_of(page as u64);
        let range = start..start + 59_000 * page as u64;
        for scans in [pagemap.scans, false] {
            pagemap.scans = scans;
            let (mut yielded, mut there) = (0, 0);
            pagemap
                .for_each(&own, range.clone(), |_, pages| {
                    yielded += pages.len();
                    there += pages.iter().filter(|page| page.is_there()).count();
                })
                .unwrap();
            // Each may be a huge page.
            assert!(there >= 2 && yielded <= 5000, "{there} of {yielded} pages");
        }
    }

    #[test]
    fn what_many_calls_find_is_in_whole_regions() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let mut pagemap = Pagemap::open(&own).unwrap();
        if !pagemap.has_scan() {
            return;
        }
        let page = pagemap.page_bytes();
        let memory = std::hint::black_box(vec![1u8; 20_001 * page as usize]);
        let start = (memory.as_ptr().addr() as u64).next_multiple_of(page);
        let range = start..start + 20_000 * page;
        let there = category::PRESENT | category::SWAPPED;
        // The first is bounded by pages, the second by addresses.
        let wanted = [
            ScanFilter { any_of: there, returned: there, ..ScanFilter::default() },
            ScanFilter { any_of: there, all_of: category::PRESENT, returned: there },
        ];
        for wanted in wanted {
            let mut found: Vec<Region> = Vec::new();
            pagemap.scan(&own, range.clone(), wanted, |region| found.push(region)).unwrap();
            let pages: u64 = found.iter().map(|one| (one.end - one.start) / page).sum();
            // A page may be migrating or being swapped out.
            assert!((19_000..=20_000).contains(&pages), "{pages} in {found:?}");
            for two in found.windows(2) {
                let is_cut = two[0].end == two[1].start && two[0].categories == two[1].categories;
                assert!(two[0].end <= two[1].start && !is_cut, "{two:?}");
            }
        }
    }

    #[test]
    fn every_mapping_of_ones_own_can_be_read() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let mut pagemap = Pagemap::open(&own).unwrap();
        let mut present = 0;
        for mapping in mappings(&own).unwrap().iter().filter(|mapping| mapping.is_private()) {
            pagemap
                .for_each(&own, mapping.range.clone(), |_, pages| {
                    present += pages.iter().filter(|page| page.is_present()).count();
                })
                .unwrap();
        }
        assert!(present > 100, "{present}");
    }
}
