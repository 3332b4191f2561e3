// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages and bytes between two moments, added up by mapping and by region of 2 MB.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use cowlab_machine::process::mappings::Kind;

/// A region of the coverage map, as document 003 takes it: what one page of page tables maps.
pub const REGION_BYTES: u64 = 2 << 20;

/// What document 000's VAX took for a page.
pub const BLOCK_BYTES: usize = 512;

/// What happened to one page between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    pub was_there: bool,
    pub is_there: bool,
    /// It was written between them; of a page that was not there before, that it is there at all
    /// means so, but for the page of zeros.
    pub is_written: bool,
}

/// Counts of pages between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Private pages at the first moment.
    pub start_pages: u64,
    /// Private pages at the second: document 000's whole.
    pub pages_mapped: u64,
    /// Of them, those written between the moments, new ones included: document 000's part.
    pub pages_written: u64,
    /// Of the pages of the first moment, those written: what a fork at that moment has copied. A page
    /// that was given back afterwards counts where the method sees it.
    pub cow_pages: u64,
    /// There at the second moment only.
    pub new_pages: u64,
    /// There at the first moment only.
    pub gone_pages: u64,
    /// Pages of files and of shared memory that are mapped at the second moment: a fork copies
    /// their entries at most.
    pub file_pages: u64,
    pub vmas: u64,
    /// Those of them that have a page of their own: what the kernel has an anon_vma for.
    pub vmas_anon: u64,
    /// Blocks of 512 bytes in which something changed; only a comparison of bytes knows.
    pub blocks_changed: u64,
    /// Bytes that changed, new pages whole, as a comparison of two dumps would have it.
    pub bytes_changed: u64,
    /// Bytes that changed in pages that were there before, and of new pages those that are not 0.
    pub bytes_differing: u64,
}

impl Counts {
    pub fn add(&mut self, fate: Fate) {
        let one = |condition: bool| u64::from(condition);
        self.start_pages += one(fate.was_there);
        self.pages_mapped += one(fate.is_there);
        self.pages_written += one(fate.is_there && fate.is_written);
        self.cow_pages += one(fate.was_there && fate.is_written);
        self.new_pages += one(!fate.was_there && fate.is_there);
        self.gone_pages += one(fate.was_there && !fate.is_there);
    }

    /// `pages_written` of `pages_mapped`; `None` of nothing.
    pub fn write_fraction(&self) -> Option<f64> {
        share(self.pages_written, self.pages_mapped)
    }

    /// `cow_pages` of `start_pages`; `None` of nothing.
    pub fn cow_fraction(&self) -> Option<f64> {
        share(self.cow_pages, self.start_pages)
    }
}

/// `part` of `whole`; `None` of nothing.
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.start_pages += other.start_pages;
        self.pages_mapped += other.pages_mapped;
        self.pages_written += other.pages_written;
        self.cow_pages += other.cow_pages;
        self.new_pages += other.new_pages;
        self.gone_pages += other.gone_pages;
        self.file_pages += other.file_pages;
        self.vmas += other.vmas;
        self.vmas_anon += other.vmas_anon;
        self.blocks_changed += other.blocks_changed;
        self.bytes_changed += other.bytes_changed;
        self.bytes_differing += other.bytes_differing;
    }
}

/// A region of 2 MB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The kind that most recently had a page counted in it.
    pub kind: Kind,
    pub counts: Counts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub kinds: BTreeMap<Kind, Counts>,
    /// By address divided by [`REGION_BYTES`].
    pub regions: BTreeMap<u64, Region>,
    /// Whether bytes were compared: else the counts of bytes and blocks say nothing.
    pub has_bytes: bool,
    /// Of the `cow_pages`, those near one that was written a moment before; only faults tell.
    pub nearby_pages: Option<u64>,
}

impl Tally {
    pub fn add(&mut self, address: u64, kind: Kind, fate: Fate) {
        self.of(address, kind, |counts| counts.add(fate));
    }

    /// Adds a page of a file or of shared memory.
    pub fn add_file(&mut self, kind: Kind) {
        self.kinds.entry(kind).or_default().file_pages += 1;
    }

    /// Adds a mapping, with whether it has a page of its own.
    pub fn add_vma(&mut self, kind: Kind, is_anon: bool) {
        let counts = self.kinds.entry(kind).or_default();
        counts.vmas += 1;
        counts.vmas_anon += u64::from(is_anon);
    }

    /// Adds what changed in one page: each block of 512 bytes and each byte.
    pub fn add_bytes(&mut self, address: u64, kind: Kind, changed: Changed) {
        self.of(address, kind, |counts| {
            counts.blocks_changed += changed.blocks;
            counts.bytes_changed += changed.bytes;
            counts.bytes_differing += changed.differing;
        });
    }

    pub fn total(&self) -> Counts {
        self.kinds.values().fold(Counts::default(), |mut sum, counts| {
            sum += *counts;
            sum
        })
    }

    /// Adds another's kinds. Regions stay: another process's addresses are others.
    pub fn add_kinds(&mut self, other: &Tally) {
        for (kind, counts) in &other.kinds {
            *self.kinds.entry(*kind).or_default() += *counts;
        }
        self.has_bytes |= other.has_bytes;
        if let Some(more) = other.nearby_pages {
            self.nearby_pages = Some(self.nearby_pages.unwrap_or(0) + more);
        }
    }

    fn of(&mut self, address: u64, kind: Kind, change: impl Fn(&mut Counts)) {
        change(self.kinds.entry(kind).or_default());
        let new = Region { kind, counts: Counts::default() };
        let region = self.regions.entry(address / REGION_BYTES).or_insert(new);
        region.kind = kind;
        change(&mut region.counts);
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    /// Blocks of 512 bytes with a byte that differs; of a new page all.
    pub blocks: u64,
    /// Bytes that differ; of a new page all.
    pub bytes: u64,
    /// Bytes that differ; of a new page those that are not 0.
    pub differing: u64,
}

impl Changed {
    /// Compares a page with what it was; `None`: it was not there.
    pub fn between(before: Option<&[u8]>, after: &[u8]) -> Changed {
        let Some(before) = before else {
            let differing = after.iter().filter(|byte| **byte != 0).count() as u64;
            let blocks = after.len().div_ceil(BLOCK_BYTES) as u64;
            return Changed { blocks, bytes: after.len() as u64, differing };
        };
        let mut changed = Changed::default();
        // Most blocks are the same, and comparing whole ones is some ten times faster.
        for (one, two) in before.chunks(BLOCK_BYTES).zip(after.chunks(BLOCK_BYTES)) {
            if one != two {
                changed.blocks += 1;
                changed.bytes += one.iter().zip(two).filter(|(a, b)| a != b).count() as u64;
            }
        }
        Changed { differing: changed.bytes, ..changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_where_document_000_counts_it() {
        let mut counts = Counts::default();
        let fates = [
            (true, true, true),
            (true, true, false),
            (false, true, true),
            (true, false, false),
            (false, true, false),
        ];
        for (was_there, is_there, is_written) in fates {
            counts.add(Fate { was_there, is_there, is_written });
        }
        assert_eq!((counts.start_pages, counts.pages_mapped), (3, 4));
        assert_eq!((counts.pages_written, counts.cow_pages), (2, 1));
        assert_eq!((counts.new_pages, counts.gone_pages), (2, 1));
        assert_eq!(counts.write_fraction(), Some(0.5));
        assert_eq!(Counts::default().write_fraction(), None);
    }

    #[test]
    fn bytes_blocks_and_pages_differ() {
        let before = [1u8; 4096];
        let mut after = before;
        assert_eq!(Changed::between(Some(&before), &after), Changed::default());
        after[0] = 2;
        after[511] = 2;
        after[4095] = 2;
        let changed = Changed::between(Some(&before), &after);
        assert_eq!((changed.blocks, changed.bytes, changed.differing), (2, 3, 3));
        let mut new = [0u8; 4096];
        new[7] = 1;
        let changed = Changed::between(None, &new);
        assert_eq!((changed.blocks, changed.bytes, changed.differing), (8, 4096, 1));
    }

    #[test]
    fn regions_are_2_mb_and_kinds_are_apart() {
        let mut tally = Tally::default();
        let fate = Fate { was_there: false, is_there: true, is_written: true };
        tally.add(0, Kind::Heap, fate);
        tally.add(REGION_BYTES - 4096, Kind::Heap, fate);
        tally.add(REGION_BYTES, Kind::Stack, fate);
        tally.add_file(Kind::Named);
        assert_eq!(tally.regions[&0].counts.pages_written, 2);
        assert_eq!(tally.regions[&1].kind, Kind::Stack);
        assert_eq!((tally.total().pages_written, tally.total().file_pages), (3, 1));
    }
}
