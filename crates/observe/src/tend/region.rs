// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a process's memory is made of, region by region: a region is what one huge page would map.

use std::collections::BTreeMap;
use std::ops::Range;

use cowlab_machine::process::pagemap::{ScanFilter, category};
use cowlab_machine::process::{Kind, Mapping, Pagemap, Target, mappings};
use cowlab_machine::{ProcessError, Stat};
use cowlab_model::application::MOST_ABSENT_PAGES;
use cowlab_model::cost::Vmas;

/// The pages of one region; base pages, and present ones only where they are private and anonymous.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Region {
    /// Its first address.
    pub start: u64,
    pub present_pages: u64,
    pub swapped_pages: u64,
    /// In RAM, but of a file.
    pub other_pages: u64,
    pub is_huge: bool,
}

/// The pages of one region, as they are at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pages {
    pub present_pages: u64,
    /// Of them those that are not this process's alone: shared with a relative by fork, the page of
    /// zeros, or merged by KSM. Of larger folios a kernel without page_mapcount (CONFIG_PAGE_MAPCOUNT,
    /// 6.15) may say so of all or none.
    pub shared_pages: u64,
    pub swapped_pages: u64,
    /// In RAM, but of a file.
    pub other_pages: u64,
}

impl Pages {
    /// Those of `region`, one by one. Fails once the memory that `pagemap` was opened for is gone.
    pub fn of(
        target: &Target,
        pagemap: &mut Pagemap,
        region: Range<u64>,
    ) -> Result<Pages, ProcessError> {
        if !pagemap.is_current() {
            return Err(target.lost_memory());
        }
        let mut all = Pages::default();
        pagemap.for_each(target, region, |_, pages| {
            for page in pages {
                match Is::of_page(*page) {
                    Is::Small | Is::Huge => {
                        all.present_pages += 1;
                        all.shared_pages += u64::from(!page.is_exclusive());
                    }
                    Is::Swapped => all.swapped_pages += 1,
                    Is::Other => all.other_pages += 1,
                    Is::Absent => {}
                }
            }
        })?;
        Ok(all)
    }
}

/// What a fork of the process would copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Regions that lie wholly in one private anonymous mapping, by address, with any page there.
    pub regions: Vec<Region>,
    /// Private pages mapped by an entry each, in those regions and everywhere else.
    pub small_pages: u64,
    pub huge_regions: u64,
    pub vmas: Vmas,
    /// Its other threads that ran then: a fork with them costs more.
    pub threads: u32,
    /// Whether the kernel told which are huge (PAGEMAP_SCAN, since 6.7); without it none are known
    /// to be, and to collapse one again does nothing.
    pub knows_huge: bool,
}

impl Survey {
    /// Regions that are huge, or could be by the rules of a plan.
    pub fn collapsible(&self, pages_per_region: u64) -> u64 {
        let least = pages_per_region.saturating_sub(MOST_ABSENT_PAGES);
        let is_whole = |of: &&Region| of.other_pages == 0 && of.swapped_pages == 0;
        let could = |of: &&Region| of.is_huge || of.present_pages >= least;
        self.regions.iter().filter(is_whole).filter(could).count() as u64
    }

    /// Looks at all of it. The target's faults go on meanwhile.
    pub fn take(of: &Target, huge_page_bytes: u64) -> Result<Survey, ProcessError> {
        let mut pagemap = Pagemap::open(of)?;
        let mut survey = Survey {
            knows_huge: pagemap.has_scan(),
            threads: Stat::other_running_threads(of.pid()),
            ..Survey::default()
        };
        for mapping in mappings::mappings(of)? {
            if !mapping.is_private() {
                survey.vmas.others += 1;
                continue;
            }
            let mut count = Count::new(&mapping, huge_page_bytes, pagemap.page_bytes());
            if pagemap.has_scan() {
                let returned = category::PRESENT
                    | category::SWAPPED
                    | category::FILE
                    | category::ZERO
                    | category::HUGE;
                let there = category::PRESENT | category::SWAPPED;
                let wanted = ScanFilter { any_of: there, returned, ..ScanFilter::default() };
                pagemap.scan(of, mapping.range.clone(), wanted, |run| {
                    count.add(run.start..run.end, Is::of_categories(run.categories));
                })?;
            } else {
                let page_bytes = pagemap.page_bytes();
                pagemap.for_each(of, mapping.range.clone(), |first, pages| {
                    for (index, page) in pages.iter().enumerate() {
                        let at = first + index as u64 * page_bytes;
                        count.add(at..at + page_bytes, Is::of_page(*page));
                    }
                })?;
            }
            count.finish(&mut survey);
        }
        Ok(survey)
    }
}

/// Whether `region` still lies in one mapping that can have huge pages.
pub fn is_there(of: &Target, region: &Range<u64>) -> Result<bool, ProcessError> {
    let size = region.end - region.start;
    Ok(mappings::mappings(of)?.iter().filter(|mapping| mapping.is_private()).any(|mapping| {
        let whole = whole_regions(mapping, size);
        whole.start <= region.start && region.end <= whole.end
    }))
}

/// The part of a mapping that regions can lie in; empty where it can have none.
fn whole_regions(mapping: &Mapping, huge_page_bytes: u64) -> Range<u64> {
    let range = &mapping.range;
    // A huge page of a file's private copy cannot be had: only memory of no file.
    let eligible = matches!(mapping.kind, Kind::Heap | Kind::Anonymous) && mapping.is_writable;
    let start = range.start.next_multiple_of(huge_page_bytes);
    let end = range.end / huge_page_bytes * huge_page_bytes;
    if eligible && start < end { start..end } else { 0..0 }
}

/// What a page is to a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Small,
    Huge,
    Swapped,
    /// Of a file that nobody wrote here, or zeros: a fork need not copy its entry.
    Other,
    Absent,
}

impl Is {
    fn of_categories(bits: u64) -> Is {
        let has = |bit| bits & bit != 0;
        if has(category::SWAPPED) {
            Is::Swapped
        } else if !has(category::PRESENT) {
            Is::Absent
        } else if has(category::FILE) || has(category::ZERO) {
            Is::Other
        } else if has(category::HUGE) {
            Is::Huge
        } else {
            Is::Small
        }
    }

    fn of_page(page: cowlab_machine::process::Page) -> Is {
        if page.is_swapped() {
            Is::Swapped
        } else if !page.is_present() {
            Is::Absent
        } else if page.is_file() {
            Is::Other
        } else {
            Is::Small
        }
    }
}

struct Count {
    /// The part that regions can lie in.
    whole: Range<u64>,
    huge_page_bytes: u64,
    page_bytes: u64,
    regions: BTreeMap<u64, Region>,
    small_pages: u64,
}

impl Count {
    fn new(mapping: &Mapping, huge_page_bytes: u64, page_bytes: u64) -> Count {
        let whole = whole_regions(mapping, huge_page_bytes);
        Count { whole, huge_page_bytes, page_bytes, regions: BTreeMap::new(), small_pages: 0 }
    }

    fn add(&mut self, pages: Range<u64>, is: Is) {
        if is == Is::Absent {
            return;
        }
        let mut at = pages.start;
        while at < pages.end {
            let start = at / self.huge_page_bytes * self.huge_page_bytes;
            let end = (start + self.huge_page_bytes).min(pages.end);
            let count = (end - at) / self.page_bytes;
            if is == Is::Small {
                self.small_pages += count;
            }
            if self.whole.contains(&start) {
                let region =
                    self.regions.entry(start).or_insert(Region { start, ..Region::default() });
                match is {
                    Is::Small => region.present_pages += count,
                    Is::Swapped => region.swapped_pages += count,
                    Is::Other => region.other_pages += count,
                    Is::Huge => {
                        region.present_pages += count;
                        region.is_huge = true;
                    }
                    Is::Absent => {}
                }
            }
            at = end;
        }
    }

    fn finish(self, survey: &mut Survey) {
        let has_pages = self.small_pages > 0 || !self.regions.is_empty();
        survey.vmas.anon += u64::from(has_pages);
        survey.vmas.others += u64::from(!has_pages);
        survey.small_pages += self.small_pages;
        survey.huge_regions += self.regions.values().filter(|r| r.is_huge).count() as u64;
        survey.regions.extend(self.regions.into_values());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: u64 = 2 << 20;

    fn count(range: Range<u64>, kind: Kind) -> Count {
        let mut text = format!("{:x}-{:x} rw-p 00000000 00:00 0 ", range.start, range.end);
        text.push_str(if kind == Kind::Heap { "[heap]\n" } else { "\n" });
        let mapping = mappings::decode(&text).unwrap().remove(0);
        assert_eq!(mapping.kind, kind);
        Count::new(&mapping, HUGE, 4096)
    }

    #[test]
    fn runs_are_spread_over_regions_and_the_edges_only_count_as_small() {
        let mut all = count(HUGE / 2..5 * HUGE + 4096, Kind::Anonymous);
        // From half a region before the first whole one into the second.
        all.add(HUGE / 2..2 * HUGE + 8192, Is::Small);
        all.add(2 * HUGE + 8192..2 * HUGE + 12288, Is::Swapped);
        all.add(3 * HUGE..5 * HUGE, Is::Huge);
        all.add(5 * HUGE..5 * HUGE + 4096, Is::Small);
        let mut survey = Survey::default();
        all.finish(&mut survey);
        count(9 * HUGE..11 * HUGE, Kind::Anonymous).finish(&mut survey);
        assert_eq!(survey.vmas, Vmas { anon: 1, others: 1 });
        assert_eq!(survey.small_pages, 256 + 512 + 2 + 1);
        assert_eq!(survey.huge_regions, 2);
        let told: Vec<_> = survey
            .regions
            .iter()
            .map(|r| (r.start / HUGE, r.present_pages, r.swapped_pages, r.is_huge))
            .collect();
        assert_eq!(
            told,
            [(1, 512, 0, false), (2, 2, 1, false), (3, 512, 0, true), (4, 512, 0, true)]
        );
    }

    #[test]
    fn ones_own_pages_are_told_one_by_one() {
        let own = Target::open(std::process::id() as i32).unwrap();
        let mut pagemap = Pagemap::open(&own).unwrap();
        let mut memory = vec![0u8; 64 * 4096];
        let start = (memory.as_ptr().addr() as u64).next_multiple_of(4096);
        memory.fill(1);
        let all = Pages::of(&own, &mut pagemap, start..start + 63 * 4096).unwrap();
        let expected = Pages { present_pages: 63, ..Pages::default() };
        assert_eq!(all, expected);
    }

    #[test]
    fn memory_too_small_for_a_region_has_none() {
        let mut small = count(HUGE + 4096..3 * HUGE - 4096, Kind::Heap);
        small.add(HUGE + 4096..3 * HUGE - 4096, Is::Small);
        let mut survey = Survey::default();
        small.finish(&mut survey);
        assert_eq!((survey.regions.len(), survey.small_pages), (0, 1022));
    }

    #[test]
    fn categories_and_pages_say_the_same() {
        let present = category::PRESENT;
        for (bits, is) in [
            (0, Is::Absent),
            (present, Is::Small),
            (present | category::HUGE, Is::Huge),
            (present | category::FILE, Is::Other),
            (present | category::ZERO, Is::Other),
            (category::SWAPPED | category::FILE, Is::Swapped),
        ] {
            assert_eq!(Is::of_categories(bits), is);
        }
        use cowlab_machine::process::Page;
        assert_eq!(Is::of_page(Page(1 << 63)), Is::Small);
        assert_eq!(Is::of_page(Page(1 << 62)), Is::Swapped);
        assert_eq!(Is::of_page(Page(1 << 63 | 1 << 61)), Is::Other);
        assert_eq!(Is::of_page(Page(0)), Is::Absent);
    }
}
