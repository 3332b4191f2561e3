// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an application maps and writes around a fork: the half of a prediction that does not depend
//! on the machine.

use serde::Serialize;

use crate::cost::{Question, Vmas};
use crate::profile::Writer;

/// The bytes of a region of a coverage map.
pub const REGION_BYTES: u64 = 2 << 20;

/// One kind of mapping, or one named mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MappingShare {
    /// `heap`, `stack`, `anonymous`, `data`, or a name.
    pub name: String,
    /// Base pages in it that a fork shares.
    pub pages: u64,
    /// Those of them that were written in the interval.
    pub written: u64,
}

/// A region of [`REGION_BYTES`] that has a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Region {
    /// Base pages in it that a fork shares.
    pub pages: u64,
    /// Those of them that were written in the interval.
    pub written: u64,
}

/// How a policy would have done with the writes in the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// `next`, `next:PAGES`, `ccow:THRESHOLD`, as `--policy` has them.
    pub policy: String,
    /// Faults that are left.
    pub faults: u64,
    /// Pages copied ahead of their faults.
    pub ahead: u64,
    /// Those of them that nobody wrote in the interval.
    pub wasted: u64,
}

/// An application between a fork and the end of the interval that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApplicationProfile {
    /// Base pages that are mapped, private and present.
    pub pages: u64,
    /// Base pages that were written after the fork.
    pub written: u64,
    /// Base pages that the parent wrote since its fork before (all, at a first fork).
    pub written_before: u64,
    /// Who writes.
    pub writer: Writer,
    /// Other running threads of the forking process.
    pub threads: u32,
    /// Huge pages among the memory, of the machine's huge size.
    pub huge_pages: u64,
    /// How many mappings there are; `None` where they were not counted.
    pub vmas: Option<Vmas>,
    /// The mappings; empty where they were not told apart.
    pub mappings: Vec<MappingShare>,
    /// The coverage map; `None` where it was not made.
    pub regions: Option<Vec<Region>>,
    /// Policies replayed over the writes; empty where their order is not known.
    pub replays: Vec<Replay>,
    /// Whether the child only executes another program; `None` where that is not known.
    pub child_executes: Option<bool>,
}

impl ApplicationProfile {
    /// Nothing but the numbers of pages.
    pub fn of_pages(pages: u64, written: u64) -> ApplicationProfile {
        ApplicationProfile {
            pages,
            written,
            written_before: pages,
            writer: Writer::Parent,
            threads: 0,
            huge_pages: 0,
            vmas: None,
            mappings: Vec::new(),
            regions: None,
            replays: Vec::new(),
            child_executes: None,
        }
    }

    /// The share of its pages that is written.
    pub fn write_fraction(&self) -> f64 {
        if self.pages == 0 { 0.0 } else { self.written as f64 / self.pages as f64 }
    }

    /// Regions with a written page; without a map, as many as there can be.
    pub fn written_regions(&self, base_page_bytes: u64) -> u64 {
        match &self.regions {
            Some(regions) => regions.iter().filter(|region| region.written > 0).count() as u64,
            None => self.written.min(self.pages.div_ceil(REGION_BYTES / base_page_bytes)),
        }
    }

    /// Regions that are full and that nobody wrote: they could be huge pages for good.
    pub fn cold_regions(&self, base_page_bytes: u64) -> Option<u64> {
        let full = REGION_BYTES / base_page_bytes;
        let cold = |region: &&Region| region.written == 0 && region.pages == full;
        Some(self.regions.as_ref()?.iter().filter(cold).count() as u64)
    }

    /// The question of what a fork of it costs, with pages of a size.
    pub fn question(&self, base_page_bytes: u64, page_size_bytes: u64) -> Question {
        Question {
            pages: self.pages,
            written: self.written,
            written_before: self.written_before,
            writer: self.writer,
            threads: self.threads,
            page_size_bytes,
            split_pages: (page_size_bytes > base_page_bytes)
                .then(|| self.written_regions(base_page_bytes)),
            among_work: true,
            vmas: self.vmas,
        }
    }
}
