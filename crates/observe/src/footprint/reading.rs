// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One look at the whole memory of a process: which pages it has, and what their entries say.

use std::ops::Range;
use std::time::Instant;

use cowlab_machine::ProcessError;

use cowlab_machine::process::Target;
use cowlab_machine::process::mappings::{Kind, Mapping, mappings};
use cowlab_machine::process::pagemap::{Page, Pagemap, Region, ScanFilter, category};

/// Mappings that lie this near to each other are read in one go: with 10,000 of them the calls
/// would cost more than the pages between.
const NEAR_BYTES: u64 = 1 << 20;

/// The pages of a process at one moment, in order of address.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Its mappings, in order of address.
    pub mappings: Vec<Mapping>,
    /// Pages in a row, with the address of the first.
    runs: Vec<(u64, Vec<Page>)>,
    pub page_bytes: u64,
    /// How long it took: the process went on meanwhile, unless something else held it.
    pub took_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    pub address: u64,
    pub kind: Kind,
    pub page: Page,
}

impl Placed {
    /// Whether it counts as memory of the program that a fork shares until somebody writes: in
    /// RAM or swap, in a private mapping, and not a page of the text, which nobody writes.
    pub fn is_private(&self) -> bool {
        match self.kind {
            Kind::Heap | Kind::Stack | Kind::Anonymous => self.is_there(),
            Kind::Data => self.is_there(),
            Kind::Named => self.page.is_anonymous(),
            Kind::Special => false,
        }
    }

    pub fn is_there(&self) -> bool {
        self.page.is_there()
    }

    /// Whether it is a copy of the process's own already, or shared with relatives by fork.
    pub fn is_anonymous(&self) -> bool {
        self.is_private() && !self.page.is_file()
    }
}

impl Reading {
    /// Looks at everything that `of` has mapped.
    pub fn take(of: &Target, pagemap: &mut Pagemap) -> Result<Reading, ProcessError> {
        let begun = Instant::now();
        let mappings = mappings(of)?;
        let mut runs: Vec<(u64, Vec<Page>)> = Vec::new();
        let page_bytes = pagemap.page_bytes();
        for range in near(&mappings) {
            pagemap.for_each(of, range, |address, pages| match runs.last_mut() {
                Some((start, last)) if *start + last.len() as u64 * page_bytes == address => {
                    last.extend_from_slice(pages);
                }
                _ => runs.push((address, pages.to_vec())),
            })?;
        }
        let mut zeros: Vec<Region> = Vec::new();
        if pagemap.has_scan() {
            let wanted = ScanFilter {
                all_of: category::ZERO,
                returned: category::ZERO,
                ..ScanFilter::default()
            };
            // Only where there are pages: over what is reserved it would take very many calls.
            for (start, pages) in &runs {
                let end = *start + pages.len() as u64 * page_bytes;
                pagemap.scan(of, *start..end, wanted, |region| zeros.push(region))?;
            }
        }
        forget_zeros(&mut runs, &zeros, page_bytes);
        let took_ns = begun.elapsed().as_nanos() as u64;
        Ok(Reading { mappings, runs, page_bytes, took_ns })
    }

    /// A reading made of parts, for tests and for saved ones.
    pub fn of(mappings: Vec<Mapping>, runs: Vec<(u64, Vec<Page>)>, page_bytes: u64) -> Reading {
        Reading { mappings, runs, page_bytes, took_ns: 0 }
    }

    /// Every page that is in RAM or swap, by address, but for the kernel's own mappings.
    pub fn pages(&self) -> impl Iterator<Item = Placed> + '_ {
        let mut at = 0;
        let entries = self.runs.iter().flat_map(move |(start, pages)| {
            let address = move |index| start + index as u64 * self.page_bytes;
            pages.iter().enumerate().map(move |(index, page)| (address(index), *page))
        });
        entries.filter_map(move |(address, page)| {
            if page == Page(0) {
                return None;
            }
            while self.mappings.get(at)?.range.end <= address {
                at += 1;
            }
            let mapping = self.mappings.get(at).filter(|m| m.range.contains(&address))?;
            let placed = Placed { address, kind: mapping.kind, page };
            (placed.is_there() && mapping.kind != Kind::Special).then_some(placed)
        })
    }

    /// With other entries for some of its pages, which come by address.
    pub fn with(mut self, pages: impl IntoIterator<Item = (u64, Page)>) -> Reading {
        let mut pages = pages.into_iter().peekable();
        for (start, run) in &mut self.runs {
            let end = *start + run.len() as u64 * self.page_bytes;
            while let Some((address, page)) = pages.next_if(|(address, _)| *address < end) {
                if let Some(index) = address.checked_sub(*start) {
                    run[(index / self.page_bytes) as usize] = page;
                }
            }
        }
        self
    }

    /// Those that a fork shares until somebody writes.
    pub fn private_pages(&self) -> impl Iterator<Item = Placed> + '_ {
        self.pages().filter(Placed::is_private)
    }
}

/// Takes out the page of zeros: it is nobody's memory, and not written by being there. A kernel
/// without PAGEMAP_SCAN does not tell it, and it counts as a page there.
fn forget_zeros(runs: &mut [(u64, Vec<Page>)], zeros: &[Region], page_bytes: u64) {
    let mut zeros = zeros.iter().peekable();
    for (start, pages) in runs {
        for (index, page) in pages.iter_mut().enumerate() {
            let address = *start + index as u64 * page_bytes;
            while zeros.next_if(|zero| zero.end <= address).is_some() {}
            if zeros.peek().is_some_and(|zero| zero.start <= address) {
                *page = Page(0);
            }
        }
    }
}

/// The addresses of all mappings but the kernel's own, in few ranges.
fn near(mappings: &[Mapping]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for mapping in mappings.iter().filter(|mapping| mapping.kind != Kind::Special) {
        match ranges.last_mut() {
            Some(last) if mapping.range.start - last.end <= NEAR_BYTES => {
                last.end = mapping.range.end;
            }
            _ => ranges.push(mapping.range.clone()),
        }
    }
    ranges
}

/// Two readings side by side, by address: a page of the one, of the other, or of both.
pub fn join<'a>(
    first: impl Iterator<Item = Placed> + 'a,
    second: impl Iterator<Item = Placed> + 'a,
) -> impl Iterator<Item = (u64, Option<Placed>, Option<Placed>)> + 'a {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || {
        let next = first.peek().into_iter().chain(second.peek()).map(|page| page.address).min()?;
        let one = first.next_if(|page| page.address == next);
        Some((next, one, second.next_if(|page| page.address == next)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cowlab_machine::process::mappings;

    const THERE: Page = Page(1 << 63);

    fn reading(runs: &[(u64, usize)]) -> Reading {
        let maps = "1000-9000 rw-p 00000000 00:00 0\n9000-a000 r--s 00000000 00:01 5 /shared\n\
            40000000-40003000 rw-p 00000000 00:00 0 [stack]\n";
        let runs = runs.iter().map(|(start, pages)| (*start, vec![THERE; *pages])).collect();
        Reading::of(mappings::decode(maps).unwrap(), runs, 4096)
    }

    #[test]
    fn pages_have_their_mappings_kind_and_gaps_have_none() {
        let reading = reading(&[(0x1000, 2), (0x8000, 4), (0x4000_2000, 2)]);
        let seen: Vec<(u64, Kind)> = reading.pages().map(|p| (p.address, p.kind)).collect();
        use Kind::*;
        assert_eq!(
            seen,
            [
                (0x1000, Anonymous),
                (0x2000, Anonymous),
                (0x8000, Anonymous),
                (0x9000, Named),
                (0x4000_2000, Stack)
            ]
        );
        assert_eq!(near(&reading.mappings), [0x1000..0xa000, 0x4000_0000..0x4000_3000]);
    }

    #[test]
    fn the_page_of_zeros_is_no_memory() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let mut pagemap = Pagemap::open(&own).unwrap();
        if !pagemap.has_scan() {
            return;
        }
        let memory = vec![0u8; 5000 * 4096];
        let start = memory.as_ptr().addr() as u64;
        let read: u64 = memory.iter().step_by(4096).map(|byte| u64::from(*byte)).sum();
        assert_eq!(read, 0);
        let ours = start.next_multiple_of(4096)..start + 4990 * 4096;
        let reading = Reading::take(&own, &mut pagemap).unwrap();
        let there = reading.private_pages().filter(|p| ours.contains(&p.address)).count();
        assert_eq!(there, 0);
    }

    #[test]
    fn two_readings_are_joined_by_address() {
        let (one, two) = (reading(&[(0x1000, 2)]), reading(&[(0x2000, 2)]));
        let joined: Vec<(u64, bool, bool)> = join(one.pages(), two.pages())
            .map(|(address, a, b)| (address, a.is_some(), b.is_some()))
            .collect();
        assert_eq!(joined, [(0x1000, true, false), (0x2000, true, true), (0x3000, false, true)]);
    }
}
