// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of a space: which are shared, which were written, which copied ahead, and the policy
//! that decides the last.

use std::ops::Range;

use super::costs::Costs;
use super::{Ahead, Course, TABLE_PAGES};

/// Epochs of history that may be asked for, at most; above, nothing is copied.
const MOST_EPOCHS: u32 = 3;
/// The pages of vm.cow_batch_kb, in which a fault looks for such.
const PIECE_PAGES: usize = 32;

/// One page in one epoch.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    shared: bool,
    /// In this epoch.
    written: bool,
    /// In this epoch.
    ahead: bool,
    /// In how many of the last epochs, in a row, it was written.
    epochs: u32,
}

pub(super) struct Space {
    pages: Vec<Page>,
    ahead: Ahead,
    /// Pages of a region.
    region_pages: usize,
    /// Of each region: pages written between the last two forks, and whether it was tried since.
    regions: Vec<(usize, bool)>,
    /// How many epochs in a row a page must have been written in to be copied ahead.
    history: u32,
    /// Copies ahead of this epoch.
    ahead_pages: u64,
    forked: bool,
}

impl Space {
    pub(super) fn new(pages: usize, ahead: Ahead) -> Space {
        let region_pages = match ahead {
            Ahead::Region { pages, .. } => pages,
            _ => TABLE_PAGES,
        };
        Space {
            pages: vec![Page::default(); pages],
            ahead,
            region_pages,
            regions: vec![(0, false); pages.div_ceil(region_pages)],
            history: 1,
            ahead_pages: 0,
            forked: false,
        }
    }

    /// What a write to `page` costs beyond writing.
    pub(super) fn write(&mut self, page: usize, costs: &Costs, course: &mut Course) -> f64 {
        let own = &mut self.pages[page];
        own.written = true;
        if !own.shared {
            return 0.0;
        }
        own.shared = false;
        course.faults += 1;
        let beside = match self.ahead {
            Ahead::Nothing => 0,
            Ahead::Next(depth) => {
                let table_end = (page / TABLE_PAGES + 1) * TABLE_PAGES;
                self.copy(page + 1..(page + 1 + depth).min(table_end), course, |_| true)
            }
            Ahead::Region { threshold_percent, .. } => {
                self.copy_region(page / self.region_pages, threshold_percent, course)
            }
            Ahead::Again { .. } if self.history > MOST_EPOCHS => 0,
            Ahead::Again { .. } => {
                let (first, history) = (page / PIECE_PAGES * PIECE_PAGES, self.history);
                self.copy(first..first + PIECE_PAGES, course, |page| page.epochs >= history)
            }
        };
        costs.batch_ns(1 + beside)
    }

    /// Copy what is shared and wanted of `range`.
    fn copy(
        &mut self,
        range: Range<usize>,
        course: &mut Course,
        wanted: impl Fn(&Page) -> bool,
    ) -> usize {
        let end = range.end.min(self.pages.len());
        let mut copied = 0;
        for page in &mut self.pages[range.start.min(end)..end] {
            if page.shared && wanted(page) {
                page.shared = false;
                page.ahead = true;
                copied += 1;
            }
        }
        course.ahead_pages += copied as u64;
        self.ahead_pages += copied as u64;
        copied
    }

    fn copy_region(
        &mut self,
        region: usize,
        threshold_percent: usize,
        course: &mut Course,
    ) -> usize {
        let first = region * self.region_pages;
        let size = self.region_pages.min(self.pages.len() - first);
        let (covered, tried) = &mut self.regions[region];
        if *tried || *covered * 100 < threshold_percent * size {
            return 0;
        }
        *tried = true;
        self.copy(first..first + size, course, |_| true)
    }

    /// All is shared again; what was written is known from now on.
    pub(super) fn fork(&mut self, course: &mut Course) {
        let wasted = self.end(course);
        if let Ahead::Again { waste_percent } = self.ahead {
            self.tune(wasted, waste_percent as u64);
        }
        // Before the first fork nothing is shared, so nobody counts.
        let counted = self.forked;
        for (region, pages) in self.regions.iter_mut().zip(self.pages.chunks(self.region_pages)) {
            *region = (pages.iter().filter(|page| page.written && counted).count(), false);
        }
        for page in &mut self.pages {
            let epochs = if page.written && counted { page.epochs + 1 } else { 0 };
            *page = Page { shared: true, epochs, ..Page::default() };
        }
        self.ahead_pages = 0;
        self.forked = true;
    }

    /// Counts what was copied in vain; returns it.
    pub(super) fn end(&self, course: &mut Course) -> u64 {
        let wasted = self.pages.iter().filter(|page| page.ahead && !page.written).count() as u64;
        course.wasted_pages += wasted;
        wasted
    }

    fn tune(&mut self, wasted: u64, waste_percent: u64) {
        if wasted * 100 > self.ahead_pages * waste_percent {
            self.history = (self.history + 1).min(MOST_EPOCHS + 1);
        } else if wasted * 200 < self.ahead_pages * waste_percent {
            self.history = self.history.saturating_sub(1).max(1);
        }
    }
}
