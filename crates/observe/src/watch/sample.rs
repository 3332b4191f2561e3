// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A walk through a child's page tables: what it has for itself and what it still shares, by 2 MiB
//! and by mapping.

use std::collections::BTreeMap;

use cowlab_machine::ProcessError;

use super::frame::{MappingRow, RegionRow};
use cowlab_machine::process::Target;
use cowlab_machine::process::mappings::{Mapping, mappings};
use cowlab_machine::process::pagemap::{Page, Pagemap};

/// 2 MiB, whatever the size of huge pages here: what the frame's format says.
pub const REGION_BYTES: u64 = 2 << 20;
/// Mappings that are kept, those with most copies first.
const MAPPINGS: usize = 64;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Pages that no other process maps: copied since the fork, or new.
    pub private_pages: u64,
    /// Anonymous pages that are shared still: what could yet be copied.
    pub shared_pages: u64,
    /// By 2 MiB of address space, where anything is present.
    pub regions: Vec<RegionRow>,
    pub mappings: Vec<MappingRow>,
}

/// Walks through the private mappings of a process. It goes on meanwhile.
pub(super) fn sample(target: &Target) -> Result<Sample, ProcessError> {
    let mut pagemap = Pagemap::open(target)?;
    let mut adder = Adder::default();
    for mapping in mappings(target)?.iter().filter(|mapping| mapping.is_private()) {
        adder.begin();
        pagemap.for_each(target, mapping.range.clone(), |address, pages| {
            adder.add(address, pages);
        })?;
        adder.end(mapping);
    }
    Ok(adder.finish())
}

#[derive(Default)]
struct Adder {
    regions: BTreeMap<u64, (u32, u32)>,
    mappings: Vec<MappingRow>,
    /// Private and shared, of the mapping at hand and of all.
    here: (u64, u64),
    all: (u64, u64),
}

impl Adder {
    fn begin(&mut self) {
        self.here = (0, 0);
    }

    fn add(&mut self, address: u64, pages: &[Page]) {
        let page_bytes = rustix::param::page_size() as u64;
        let mut region = (u64::MAX, (0, 0));
        for (index, page) in pages.iter().enumerate() {
            if !page.is_anonymous() {
                continue;
            }
            let at = (address + index as u64 * page_bytes) / REGION_BYTES * REGION_BYTES;
            if at != region.0 {
                self.keep(region);
                region = (at, (0, 0));
            }
            if page.is_exclusive() {
                region.1.0 += 1;
            } else {
                region.1.1 += 1;
            }
        }
        self.keep(region);
    }

    fn keep(&mut self, (at, (private, shared)): (u64, (u32, u32))) {
        if private + shared == 0 {
            return;
        }
        let sum = self.regions.entry(at).or_default();
        *sum = (sum.0 + private, sum.1 + shared);
        self.here = (self.here.0 + u64::from(private), self.here.1 + u64::from(shared));
    }

    fn end(&mut self, mapping: &Mapping) {
        let (private_pages, shared_pages) = self.here;
        self.all = (self.all.0 + private_pages, self.all.1 + shared_pages);
        if private_pages + shared_pages > 0 {
            self.mappings.push(MappingRow {
                start: mapping.range.start,
                end: mapping.range.end,
                kind: mapping.kind.name().to_owned(),
                name: mapping.name.clone(),
                private_pages,
                shared_pages,
            });
        }
    }

    fn finish(mut self) -> Sample {
        self.mappings.sort_by_key(|row| {
            (std::cmp::Reverse(row.private_pages), std::cmp::Reverse(row.shared_pages))
        });
        self.mappings.truncate(MAPPINGS);
        let row = |(start, (private_pages, shared_pages))| RegionRow {
            start,
            private_pages,
            shared_pages,
        };
        Sample {
            private_pages: self.all.0,
            shared_pages: self.all.1,
            regions: self.regions.into_iter().map(row).collect(),
            mappings: self.mappings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIVATE: Page = Page(1 << 63 | 1 << 56);
    const SHARED: Page = Page(1 << 63);
    const FILE: Page = Page(1 << 63 | 1 << 61 | 1 << 56);

    #[test]
    fn pages_add_up_by_region() {
        let mut adder = Adder::default();
        let page = rustix::param::page_size() as u64;
        adder.begin();
        // Two pages before a boundary, then two after it.
        let start = 3 * REGION_BYTES - 2 * page;
        adder.add(start, &[PRIVATE, SHARED, SHARED, FILE]);
        adder.add(3 * REGION_BYTES + 2 * page, &[PRIVATE, Page(0)]);
        let sample = adder.finish();
        let row =
            |start, private_pages, shared_pages| RegionRow { start, private_pages, shared_pages };
        assert_eq!(sample.regions, [row(2 * REGION_BYTES, 1, 1), row(3 * REGION_BYTES, 1, 1)]);
    }

    #[test]
    fn this_process_has_memory_of_its_own() {
        let own = Target::open(std::process::id().cast_signed()).unwrap();
        let sample = sample(&own).unwrap();
        assert!(sample.private_pages > 10);
        let by_region: u64 = sample.regions.iter().map(|row| u64::from(row.private_pages)).sum();
        assert_eq!(by_region, sample.private_pages);
        assert!(sample.mappings.len() <= MAPPINGS && !sample.mappings.is_empty());
    }
}
