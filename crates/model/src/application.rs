// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an application maps and writes around a fork: the machine-independent half of a prediction.

use serde::Serialize;

use crate::cost::{Question, Vmas};
use crate::profile::Writer;
use crate::steady::Rhythm;

/// A region of a coverage map.
pub const REGION_BYTES: u64 = 2 << 20;

/// Absent pages that a collapse may fill in: 8 of 512 are 1.6% of a region.
pub const MOST_ABSENT_PAGES: u64 = 8;

/// What a program's children do, which decides what it can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Children {
    /// No child was seen.
    Unknown,
    /// They read all of the memory and end, as a snapshot does.
    Save,
    /// They work with the memory that they share.
    Serve,
    /// They only execute another program.
    Execute,
}

/// What the children of known programs do, by the kernel's name for the program.
const KNOWN: [(&str, Children); 14] = [
    ("redis-server", Children::Save),
    ("valkey-server", Children::Save),
    ("keydb-server", Children::Save),
    ("gunicorn", Children::Serve),
    ("uwsgi", Children::Serve),
    ("uvicorn", Children::Serve),
    ("celery", Children::Serve),
    ("puma", Children::Serve),
    ("unicorn", Children::Serve),
    ("postgres", Children::Serve),
    ("nginx", Children::Serve),
    ("apache2", Children::Serve),
    ("httpd", Children::Serve),
    ("php-fpm", Children::Serve),
];
/// Prefixes of the names of programs with a garbage collector.
const COLLECTED: [&str; 9] =
    ["python", "pypy", "gunicorn", "uwsgi", "uvicorn", "celery", "ruby", "puma", "unicorn"];

impl Children {
    /// The children of a well-known program, by its name.
    pub fn of(program: &str) -> Children {
        let known = KNOWN.iter().find(|(name, _)| program.starts_with(name));
        known.map_or(Children::Unknown, |(_, children)| *children)
    }

    /// Whether they need what the parent has in memory.
    pub fn need_memory(self) -> bool {
        matches!(self, Children::Save | Children::Serve)
    }
}

/// Whether a program of that name has a garbage collector.
pub fn has_collector(program: &str) -> bool {
    COLLECTED.iter().any(|name| program.starts_with(name))
}

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

/// A policy replayed over the observed writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replay {
    /// As `--policy` has it: `next`, `next:PAGES`, `ccow:THRESHOLD`.
    pub policy: String,
    /// Remaining faults.
    pub faults: u64,
    /// Pages copied ahead of a fault.
    pub ahead: u64,
    /// Of them, pages that were not written in the interval.
    pub wasted: u64,
}

/// An application between a fork and the end of the observed interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApplicationProfile {
    /// Base pages that are mapped, private and present.
    pub pages: u64,
    /// Base pages that were written after the fork.
    pub written: u64,
    /// Base pages that the parent wrote since the previous fork (all, at a first fork).
    pub written_before: u64,
    /// Who writes.
    pub writer: Writer,
    /// Other threads of the forking process that run at a time, on average.
    pub threads: f64,
    /// The writer's CPU time per copied page, copying included; `None` if unknown.
    pub cpu_ns_per_copy: Option<f64>,
    /// The share of its copies next to one of a moment before; `None` if their order is unknown.
    pub nearby_share: Option<f64>,
    /// Of the machine's huge page size.
    pub huge_pages: u64,
    /// `None` if they were not counted.
    pub vmas: Option<Vmas>,
    /// Empty if unknown.
    pub mappings: Vec<MappingShare>,
    /// The coverage map, if it was made.
    pub regions: Option<Vec<Region>>,
    /// Empty if the order of the writes is unknown.
    pub replays: Vec<Replay>,
    /// Regions that are or could be one huge page each, if the process itself was read.
    pub collapsible_regions: Option<u64>,
    /// What its children do.
    pub children: Children,
    /// Whether it has a garbage collector, which writes to pages that nobody changed.
    pub has_collector: bool,
    /// The share of its copies made by the collector, if stacks show it.
    pub collector_share: Option<f64>,
    /// If it forks all the time.
    pub forks_per_s: Option<f64>,
    /// From one fork to the next, where several were seen.
    pub between_forks_s: Option<f64>,
    /// How long a child shares its memory.
    pub child_s: Option<f64>,
}

impl ApplicationProfile {
    /// Only numbers of pages.
    pub fn of_pages(pages: u64, written: u64) -> ApplicationProfile {
        ApplicationProfile {
            pages,
            written,
            written_before: pages,
            writer: Writer::Parent,
            threads: 0.0,
            cpu_ns_per_copy: None,
            nearby_share: None,
            huge_pages: 0,
            vmas: None,
            mappings: Vec::new(),
            regions: None,
            replays: Vec::new(),
            collapsible_regions: None,
            children: Children::Unknown,
            has_collector: false,
            collector_share: None,
            forks_per_s: None,
            between_forks_s: None,
            child_s: None,
        }
    }

    /// The share of its pages that is written.
    pub fn write_fraction(&self) -> f64 {
        if self.pages == 0 { 0.0 } else { self.written as f64 / self.pages as f64 }
    }

    /// Regions with a written page; without a map, the most there can be.
    pub fn written_regions(&self, base_page_bytes: u64) -> u64 {
        match &self.regions {
            Some(regions) => regions.iter().filter(|region| region.written > 0).count() as u64,
            None => self.written.min(self.pages.div_ceil(REGION_BYTES / base_page_bytes)),
        }
    }

    /// Of parts of `part_pages`, smaller than a region, the most that may have a written page.
    pub fn written_parts(&self, part_pages: u64) -> u64 {
        match &self.regions {
            Some(regions) => regions
                .iter()
                .map(|region| region.written.min(region.pages.div_ceil(part_pages)))
                .sum(),
            None => self.written.min(self.pages.div_ceil(part_pages)),
        }
    }

    /// Base pages of files and stacks, whose page tables no kernel defers.
    pub fn kept_pages(&self) -> u64 {
        let is_deferred = |name: &str| name.starts_with("heap") || name.starts_with("anonymous");
        self.mappings
            .iter()
            .filter(|mapping| !is_deferred(&mapping.name))
            .map(|mapping| mapping.pages)
            .sum()
    }

    /// Full or nearly full regions, which could each be one huge page; and the written ones of them,
    /// which a write splits again.
    pub fn collapsible(&self, base_page_bytes: u64) -> Option<(u64, u64)> {
        if let Some(regions) = self.collapsible_regions {
            return Some((regions, self.written_regions(base_page_bytes).min(regions)));
        }
        let least = (REGION_BYTES / base_page_bytes).saturating_sub(MOST_ABSENT_PAGES);
        let dense = self.regions.as_ref()?.iter().filter(|region| region.pages >= least);
        let written = dense.clone().filter(|region| region.written > 0);
        Some((dense.count() as u64, written.count() as u64))
    }

    /// How often it forks, where that is known.
    pub fn rhythm(&self) -> Option<Rhythm> {
        let child_s = self.child_s.unwrap_or(0.0);
        self.between_forks_s.map(|between_s| Rhythm { between_s, child_s })
    }

    /// The prediction's question, for pages of `page_size_bytes`.
    pub fn question(&self, base_page_bytes: u64, page_size_bytes: u64) -> Question {
        Question {
            pages: self.pages,
            written: self.written,
            written_before: self.written_before,
            writer: self.writer,
            threads: self.threads,
            page_size_bytes,
            split_pages: Some(self.written_regions(base_page_bytes)),
            among_work: true,
            cpu_ns_per_copy: self.cpu_ns_per_copy,
            nearby_share: self.nearby_share,
            vmas: self.vmas,
        }
    }
}
