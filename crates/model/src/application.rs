// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an application maps and writes around a fork: the half of a prediction that does not depend
//! on the machine.

use serde::Serialize;

use crate::cost::{Question, Vmas};
use crate::profile::Writer;

/// The bytes of a region of a coverage map.
pub const REGION_BYTES: u64 = 2 << 20;

/// Pages of a region that may be absent where it is collapsed: each is memory that is filled in. 8 of
/// 512 are 1.6% of a region.
pub const MOST_ABSENT_PAGES: u64 = 8;

/// What the children of a program do, which decides what it can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Children {
    /// Nobody has seen one.
    Unknown,
    /// They read all of the memory and end, as a snapshot does.
    Save,
    /// They work with the memory that they share.
    Serve,
    /// They only execute another program.
    Execute,
}

/// Programs by the name that the kernel has of them: what their children do.
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
/// How names of programs with a garbage collector begin.
const COLLECTED: [&str; 9] =
    ["python", "pypy", "gunicorn", "uwsgi", "uvicorn", "celery", "ruby", "puma", "unicorn"];

impl Children {
    /// What the children of a program of that name do, if it is a well-known one.
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
    /// CPU time of the writer by the pages that it copied, the copies with it; `None` where it was not
    /// seen.
    pub cpu_ns_per_copy: Option<f64>,
    /// Of its copies, the share that lies near one of a moment before; `None` where their order was not
    /// seen.
    pub nearby_share: Option<f64>,
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
    /// Regions that are, or could be, one huge page each, where the process itself was looked at.
    pub collapsible_regions: Option<u64>,
    /// What its children do.
    pub children: Children,
    /// Whether it is a program with a garbage collector, which writes to pages that nobody changed.
    pub has_collector: bool,
    /// The share of its copies that the collector made, where stacks said it.
    pub collector_share: Option<f64>,
    /// How often it forks, where it does so all the time.
    pub forks_per_s: Option<f64>,
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

    /// Base pages whose page tables no kernel leaves for after fork: those of files, and stacks.
    pub fn kept_pages(&self) -> u64 {
        let is_deferred = |name: &str| name.starts_with("heap") || name.starts_with("anonymous");
        self.mappings
            .iter()
            .filter(|mapping| !is_deferred(&mapping.name))
            .map(|mapping| mapping.pages)
            .sum()
    }

    /// Regions that are full, or nearly so: they could be one huge page each. And those of them that
    /// are written, which splits them again.
    pub fn collapsible(&self, base_page_bytes: u64) -> Option<(u64, u64)> {
        if let Some(regions) = self.collapsible_regions {
            return Some((regions, self.written_regions(base_page_bytes).min(regions)));
        }
        let least = (REGION_BYTES / base_page_bytes).saturating_sub(MOST_ABSENT_PAGES);
        let dense = self.regions.as_ref()?.iter().filter(|region| region.pages >= least);
        let written = dense.clone().filter(|region| region.written > 0);
        Some((dense.count() as u64, written.count() as u64))
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
            split_pages: Some(self.written_regions(base_page_bytes)),
            among_work: true,
            cpu_ns_per_copy: self.cpu_ns_per_copy,
            nearby_share: self.nearby_share,
            vmas: self.vmas,
        }
    }
}
