// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a policy of copying ahead would have done with writes in the order in which they came
//! (documents 002 and 003). Pure: pages in, counts out.

use std::collections::{BTreeMap, BTreeSet};

use super::tally::REGION_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// At a write, the next so many pages as well. 1 is document 002's.
    Next(u32),
    /// At the first write in a region of 2 MB, the whole of it, if at least so many percent of its
    /// pages were written between the fork before and this one (document 003).
    Coverage(u32),
    /// At a write beside [`RUN`] dirty pages, the largest aligned block of 16 to 128 KiB that begins (or,
    /// downwards, ends) there and is shared whole: kernel/upstream's copy-on-write around, if all
    /// memory is in folios of 128 KiB.
    Around,
    /// Of the aligned block of 128 KiB, all that will be written: no policy that copies such blocks saves
    /// more faults, and it wastes nothing.
    Oracle,
}

const RUN: u64 = 3;
/// 16 to 128 KiB in base pages of 4 KiB.
const BLOCKS_PAGES: [u64; 4] = [32, 16, 8, 4];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hindsight {
    /// First writes of shared pages: a fault and a copy each, without a policy.
    pub writes: u64,
    pub faults: u64,
    pub precopied: u64,
    /// Of them, those that were then written: a fault saved each.
    pub hits: u64,
}

impl Hindsight {
    /// Of the pages copied ahead, those that were then written; `None` where none was.
    pub fn hit_rate(&self) -> Option<f64> {
        super::tally::share(self.hits, self.precopied)
    }

    pub fn add(&mut self, other: Hindsight) {
        self.writes += other.writes;
        self.faults += other.faults;
        self.precopied += other.precopied;
        self.hits += other.hits;
    }
}

/// What happened between one fork and the next, or the child's end.
#[derive(Debug, Clone, Default)]
pub struct Epoch {
    /// Pages that the fork shared, by number (address divided by the page size).
    pub shared: BTreeSet<u64>,
    /// Pages by number, in the order in which they were first written.
    pub writes: Vec<u64>,
}

/// Plays the writes of `epoch` under `policy`. `before` is the epoch before it, for policies that
/// go by it.
pub fn play(policy: Ahead, epoch: &Epoch, before: Option<&Epoch>, page_bytes: u64) -> Hindsight {
    let mut result = Hindsight::default();
    let mut copied: BTreeSet<u64> = BTreeSet::new();
    let mut written: BTreeSet<u64> = BTreeSet::new();
    let covered = before.map(|before| coverage(before, page_bytes)).unwrap_or_default();
    let mut tried: BTreeSet<u64> = BTreeSet::new();
    let will_be: BTreeSet<u64> = epoch.writes.iter().copied().collect();
    for page in &epoch.writes {
        if !written.insert(*page) || !epoch.shared.contains(page) {
            continue;
        }
        result.writes += 1;
        if copied.contains(page) {
            result.hits += 1;
            continue;
        }
        result.faults += 1;
        copied.insert(*page);
        let others = match policy {
            Ahead::Around => around(*page, &epoch.shared, &copied, &written),
            Ahead::Oracle => {
                let block = block_of(*page, BLOCKS_PAGES[0]);
                block
                    .filter(|other| epoch.shared.contains(other) && will_be.contains(other))
                    .collect()
            }
            _ => ahead(policy, *page, &epoch.shared, &covered, &mut tried, page_bytes),
        };
        for other in others {
            result.precopied += u64::from(copied.insert(other));
        }
    }
    result
}

fn block_of(page: u64, pages: u64) -> std::ops::Range<u64> {
    let start = page / pages * pages;
    start..start + pages
}

/// What one fault of [`Ahead::Around`] copies. The kernel asks the page's number whether it looks below or above.
fn around(
    page: u64,
    shared: &BTreeSet<u64>,
    copied: &BTreeSet<u64>,
    written: &BTreeSet<u64>,
) -> Vec<u64> {
    let downwards = page % 2 == 1;
    let beside = |n: u64| if downwards { page + n } else { page.wrapping_sub(n) };
    if !(1..=RUN).all(|n| written.contains(&beside(n))) {
        return Vec::new();
    }
    let untouched = |other: &u64| shared.contains(other) && !copied.contains(other);
    let blocks = BLOCKS_PAGES.map(|pages| block_of(page, pages));
    let fits = blocks.into_iter().find(|block| {
        page == if downwards { block.end - 1 } else { block.start }
            && block.clone().all(|other| other == page || untouched(&other))
    });
    fits.into_iter().flatten().collect()
}

/// A write belongs to a sweep if it lies within so many pages of one of so many before: a collector or a
/// merge sweeps at several places at once.
const NEARBY_PAGES: u64 = 16;
const WRITES_BEFORE: usize = 8;

/// Of pages in the order of their first writes, those near one that was written a moment before.
pub fn nearby(writes: &[u64]) -> BTreeSet<u64> {
    let mut seen = BTreeSet::new();
    let first: Vec<u64> = writes.iter().copied().filter(|page| seen.insert(*page)).collect();
    let is_near = |at: &usize| {
        let before = &first[at.saturating_sub(WRITES_BEFORE)..*at];
        before.iter().any(|page| page.abs_diff(first[*at]) <= NEARBY_PAGES)
    };
    (0..first.len()).filter(is_near).map(|at| first[at]).collect()
}

fn ahead(
    policy: Ahead,
    page: u64,
    shared: &BTreeSet<u64>,
    covered: &BTreeMap<u64, u32>,
    tried: &mut BTreeSet<u64>,
    page_bytes: u64,
) -> Vec<u64> {
    match policy {
        Ahead::Next(pages) => {
            (page + 1..=page + u64::from(pages)).filter(|next| shared.contains(next)).collect()
        }
        Ahead::Coverage(threshold) => {
            let per_region = REGION_BYTES / page_bytes;
            let region = page / per_region;
            let is_covered = covered.get(&region).is_some_and(|percent| *percent >= threshold);
            if !is_covered || !tried.insert(region) {
                return Vec::new();
            }
            shared.range(region * per_region..(region + 1) * per_region).copied().collect()
        }
        Ahead::Around | Ahead::Oracle => Vec::new(),
    }
}

/// By region, the percentage of its shared pages that were written.
fn coverage(epoch: &Epoch, page_bytes: u64) -> BTreeMap<u64, u32> {
    let per_region = REGION_BYTES / page_bytes;
    let written: BTreeSet<u64> = epoch.writes.iter().copied().collect();
    let mut counts: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    for page in &epoch.shared {
        let (pages, hits) = counts.entry(page / per_region).or_default();
        *pages += 1;
        *hits += u32::from(written.contains(page));
    }
    counts.into_iter().map(|(region, (pages, hits))| (region, hits * 100 / pages)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(shared: std::ops::Range<u64>, writes: &[u64]) -> Epoch {
        Epoch { shared: shared.collect(), writes: writes.to_vec() }
    }

    #[test]
    fn blocks_around_follow_three_pages_of_evidence() {
        // The first block is copied page by page: 0 has nothing before it, and 4 begins a block of 16 KiB.
        let up = play(Ahead::Around, &epoch(0..96, &(0..96).collect::<Vec<_>>()), None, 4096);
        assert_eq!((up.writes, up.faults, up.precopied, up.hits), (96, 9, 87, 87));
        let down: Vec<u64> = (0..96).rev().collect();
        assert_eq!(play(Ahead::Around, &epoch(0..96, &down), None, 4096).faults, 9);
        // It stops in a block: the rest of that is wasted. Every second page, and here and there: nothing.
        let stops = play(Ahead::Around, &epoch(0..96, &(0..34).collect::<Vec<_>>()), None, 4096);
        assert_eq!((stops.faults, stops.precopied - stops.hits), (8, 30));
        let second: Vec<u64> = (0..48).map(|page| page * 2).collect();
        assert_eq!(play(Ahead::Around, &epoch(0..96, &second), None, 4096).precopied, 0);
        let oracle = play(Ahead::Oracle, &epoch(0..96, &second), None, 4096);
        assert_eq!((oracle.faults, oracle.precopied, oracle.hits), (3, 45, 45));
    }

    #[test]
    fn a_sweep_is_told_from_writes_here_and_there() {
        assert_eq!(nearby(&[]).len(), 0);
        let sweep: Vec<u64> = (0..100).collect();
        assert_eq!(nearby(&sweep).len(), 99);
        // Backwards, with gaps, and at four places in turn.
        let backwards: Vec<u64> = (0..100).rev().map(|page| page * 16).collect();
        assert_eq!(nearby(&backwards).len(), 99);
        let places: Vec<u64> = (0..400).map(|at| at % 4 * 10_000 + at / 4).collect();
        assert_eq!(nearby(&places).len(), 396);
        let scattered: Vec<u64> = (0..100).map(|at| at * 37 % 101 * 1000).collect();
        assert_eq!(nearby(&scattered).len(), 0);
        // Only the first write to a page counts.
        assert_eq!(nearby(&[5, 5, 5]).len(), 0);
    }

    #[test]
    fn sequential_writes_halve_and_scattered_ones_waste() {
        let sequential = epoch(0..100, &(0..100).collect::<Vec<_>>());
        let next = play(Ahead::Next(1), &sequential, None, 4096);
        assert_eq!((next.writes, next.faults, next.precopied, next.hits), (100, 50, 50, 50));
        assert_eq!(next.hit_rate(), Some(1.0));
        let batch = play(Ahead::Next(15), &sequential, None, 4096);
        assert_eq!((batch.faults, batch.precopied, batch.hits), (7, 93, 93));
        let scattered = epoch(0..100, &[10, 20, 30]);
        let next = play(Ahead::Next(1), &scattered, None, 4096);
        assert_eq!((next.faults, next.precopied, next.hit_rate()), (3, 3, Some(0.0)));
    }

    #[test]
    fn a_page_counts_once_and_only_where_the_fork_shared_it() {
        let twice = epoch(5..7, &[5, 5, 6, 7, 8]);
        let none = play(Ahead::Next(0), &twice, None, 4096);
        assert_eq!((none.writes, none.faults, none.hit_rate()), (2, 2, None));
    }

    #[test]
    fn coverage_copies_what_was_covered_before_and_nothing_without_a_past() {
        let all: Vec<u64> = (0..512).rev().collect();
        let past = epoch(0..1024, &all);
        let now = epoch(0..1024, &[5, 600, 6, 7, 601]);
        let first = play(Ahead::Coverage(80), &now, None, 4096);
        assert_eq!((first.faults, first.precopied), (5, 0));
        let second = play(Ahead::Coverage(80), &now, Some(&past), 4096);
        assert_eq!((second.faults, second.precopied, second.hits), (3, 511, 2));
        let hardly = epoch(0..1024, &(0..400).collect::<Vec<_>>());
        assert_eq!(play(Ahead::Coverage(80), &now, Some(&hardly), 4096).precopied, 0);
    }
}
