// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which regions to collapse, in which order: decided from what was read, nothing else.

use std::collections::{BTreeSet, VecDeque};

use cowlab_model::application::MOST_ABSENT_PAGES;
use serde::Serialize;

use crate::tend::history::History;
use crate::tend::region::{Pages, Region};

/// What a collapse and a fork cost here, of the machine profile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prices {
    /// Copying one page-table entry at fork.
    pub pte_ns_per_page: f64,
    /// Copying one huge page's entry at fork.
    pub huge_entry_ns: f64,
    /// The first write to a huge page while a child is alive: the split, and the copy of a base page.
    pub split_ns: f64,
    /// One collapse: CPU time of ours.
    pub collapse_ns: f64,
}

impl Prices {
    /// What the next fork saves if a region of that many present pages is huge by then.
    pub fn saved_at_fork_ns(&self, present_pages: u64) -> f64 {
        self.pte_ns_per_page * present_pages as f64 - self.huge_entry_ns
    }
}

/// What may be collapsed at all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rules {
    /// Pages of a region that may be absent: each that is filled in is memory that was not there.
    pub most_absent_pages: u64,
    /// Work that a nanosecond less of stop is worth, in nanoseconds of this program's.
    pub worth: f64,
}

impl Default for Rules {
    fn default() -> Self {
        // 8 of 512 absent pages are 1.6% of a region's memory. A stop is what people wait for: the
        // work is another core's, and its share of that bounds it. A collapse saves some 35 µs of
        // each fork and takes 1.5 to 7 ms where a hypervisor has taken the free memory back.
        Rules { most_absent_pages: MOST_ABSENT_PAGES, worth: 500.0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Step {
    /// Its first address.
    pub start: u64,
    /// What the next fork is expected to save by it.
    pub saved_ns: f64,
    /// How many forks it is expected to stay huge for.
    pub forks: f64,
    /// Pages that will be filled in.
    pub absent_pages: u64,
}

/// Regions to collapse, and why others are left alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CollapsePlan {
    /// What to do, the best first.
    pub steps: Vec<Step>,
    pub huge_regions: u64,
    /// Regions with more absent pages than the rules allow.
    pub sparse_regions: u64,
    pub sparse_pages: u64,
    /// Regions with pages that cannot become part of a huge page: of files, or in swap.
    pub mixed_regions: u64,
    /// Regions that are left alone for a while because they were split without a fork, or refused.
    pub backed_off_regions: u64,
    /// Regions whose collapse would cost more than it saves.
    pub unprofitable_regions: u64,
}

impl CollapsePlan {
    /// The best of it, so many steps; the others are told as not paying.
    pub fn up_to(mut self, steps: usize) -> CollapsePlan {
        self.unprofitable_regions += self.steps.len().saturating_sub(steps) as u64;
        self.steps.truncate(steps);
        self
    }
}

impl Rules {
    /// Why a region that was planned is not to be collapsed after all, now that its pages were looked
    /// at again: the kernel fills in what is absent and copies what is shared, whoever asks.
    pub fn refuse(&self, region: &Pages, pages_per_region: u64) -> Option<&'static str> {
        let absent_pages = pages_per_region.saturating_sub(region.present_pages);
        if region.present_pages == 0 && region.swapped_pages == 0 {
            Some("unmapped")
        } else if region.other_pages > 0 || region.swapped_pages > 0 {
            Some("mixed")
        } else if absent_pages > self.most_absent_pages {
            Some("sparse")
        } else if absent_pages + region.shared_pages > self.most_absent_pages {
            Some("shared")
        } else {
            None
        }
    }
}

/// Decide. `pass` counts the surveys, for back-off.
pub fn plan(
    regions: &[Region],
    pages_per_region: u64,
    history: &History,
    pass: u64,
    prices: &Prices,
    rules: &Rules,
) -> CollapsePlan {
    let mut plan = CollapsePlan::default();
    for region in regions {
        if region.is_huge {
            plan.huge_regions += 1;
            continue;
        }
        if region.other_pages > 0 || region.swapped_pages > 0 {
            plan.mixed_regions += 1;
            continue;
        }
        let absent_pages = pages_per_region.saturating_sub(region.present_pages);
        if absent_pages > rules.most_absent_pages {
            plan.sparse_regions += 1;
            plan.sparse_pages += region.present_pages;
            continue;
        }
        let known = history.of(region.start);
        if known.is_some_and(|known| pass < known.not_before_pass) {
            plan.backed_off_regions += 1;
            continue;
        }
        let forks = known.map_or(1.0, |known| known.expected_forks());
        let saved_ns = prices.saved_at_fork_ns(region.present_pages);
        // It ends with a split, which one write of the target's pays, at any time: work, and no stop.
        if saved_ns * forks * rules.worth < prices.collapse_ns + prices.split_ns {
            plan.unprofitable_regions += 1;
            continue;
        }
        plan.steps.push(Step { start: region.start, saved_ns, forks, absent_pages });
    }
    // What stays huge for many forks comes first: the next fork may come before all is done, and
    // that part need not be done again after it.
    let gain = |step: &Step| step.saved_ns * step.forks;
    plan.steps.sort_by(|a, b| gain(b).total_cmp(&gain(a)).then(a.start.cmp(&b.start)));
    plan
}

/// Regions in the order of the plan, but those of `last` after the others.
pub fn in_turn(planned: impl Iterator<Item = u64>, last: &BTreeSet<u64>) -> VecDeque<u64> {
    let (late, mut queue): (VecDeque<u64>, VecDeque<u64>) =
        planned.partition(|start| last.contains(start));
    queue.extend(late);
    queue
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices =
        Prices { pte_ns_per_page: 45.0, huge_entry_ns: 2000.0, split_ns: 6000.0, collapse_ns: 5e5 };

    fn region(number: u64, present_pages: u64) -> Region {
        Region { start: number << 21, present_pages, ..Region::default() }
    }

    fn starts(plan: &CollapsePlan) -> Vec<u64> {
        plan.steps.iter().map(|step| step.start >> 21).collect()
    }

    #[test]
    fn only_dense_private_memory_of_small_pages_is_taken() {
        let regions = [
            region(1, 512),
            region(2, 503),
            region(3, 504),
            Region { is_huge: true, ..region(4, 512) },
            Region { swapped_pages: 1, ..region(5, 511) },
            Region { other_pages: 1, ..region(6, 511) },
            region(7, 0),
        ];
        let plan = plan(&regions, 512, &History::default(), 1, &PRICES, &Rules::default());
        assert_eq!(starts(&plan), [1, 3]);
        assert_eq!(plan.steps[0].saved_ns, 512.0 * 45.0 - 2000.0);
        assert_eq!((plan.steps[0].absent_pages, plan.steps[1].absent_pages), (0, 8));
        assert_eq!((plan.huge_regions, plan.sparse_regions, plan.sparse_pages), (1, 2, 503));
        assert_eq!((plan.mixed_regions, plan.backed_off_regions), (2, 0));
    }

    #[test]
    fn what_lasted_comes_first_and_what_was_split_without_a_fork_waits() {
        let mut history = History::default();
        for number in [1, 2] {
            history.collapsed(number << 21, 1);
        }
        // A fork later: 1 is split, 2 is whole.
        history.surveyed(&[region(1, 512), Region { is_huge: true, ..region(2, 512) }], 2, 1);
        // Split without a fork.
        history.collapsed(3 << 21, 2);
        let huge = Region { is_huge: true, ..region(2, 512) };
        history.surveyed(&[region(1, 512), huge, region(3, 512)], 3, 0);
        let regions = [region(1, 512), region(2, 512), region(3, 512)];
        let now = plan(&regions, 512, &history, 3, &PRICES, &Rules::default());
        assert_eq!((starts(&now), now.backed_off_regions), (vec![2, 1], 1));
        let later = plan(&regions, 512, &history, 5, &PRICES, &Rules::default());
        assert_eq!(starts(&later).len(), 3);
    }

    #[test]
    fn a_part_of_a_plan_is_its_best() {
        let regions: Vec<Region> = (1..=6).map(|number| region(number, 512)).collect();
        let all = plan(&regions, 512, &History::default(), 1, &PRICES, &Rules::default());
        assert_eq!(starts(&all.clone().up_to(9)).len(), 6);
        let some = all.up_to(4);
        assert_eq!((starts(&some), some.unprofitable_regions), (vec![1, 2, 3, 4], 2));
        // What it costs decides: 17 ms for the 21 µs that a fork saves is too much.
        let dear = Prices { collapse_ns: 17e6, ..PRICES };
        let none = plan(&regions, 512, &History::default(), 1, &dear, &Rules::default());
        assert_eq!((none.steps.len(), none.unprofitable_regions), (0, 6));
    }

    #[test]
    fn what_has_changed_since_it_was_planned_is_left_alone() {
        let rules = Rules::default();
        let refuse = |pages: Pages| rules.refuse(&pages, 512);
        let dense = Pages { present_pages: 512, ..Pages::default() };
        assert_eq!(refuse(dense), None);
        assert_eq!(refuse(Pages { present_pages: 504, ..dense }), None);
        assert_eq!(refuse(Pages { present_pages: 503, ..dense }), Some("sparse"));
        assert_eq!(refuse(Pages { present_pages: 506, shared_pages: 2, ..dense }), None);
        assert_eq!(refuse(Pages { present_pages: 506, shared_pages: 3, ..dense }), Some("shared"));
        assert_eq!(refuse(Pages { shared_pages: 512, ..dense }), Some("shared"));
        assert_eq!(refuse(Pages { present_pages: 511, swapped_pages: 1, ..dense }), Some("mixed"));
        assert_eq!(refuse(Pages::default()), Some("unmapped"));
    }

    #[test]
    fn nothing_is_done_where_it_does_not_pay() {
        // A machine on which entries cost next to nothing.
        let cheap = Prices { pte_ns_per_page: 4.0, ..PRICES };
        let none = plan(&[region(1, 512)], 512, &History::default(), 1, &cheap, &Rules::default());
        assert_eq!((none.steps.len(), none.unprofitable_regions), (0, 1));
    }

    #[test]
    fn who_had_no_huge_page_comes_last() {
        let planned = [9, 2, 5, 7];
        assert_eq!(in_turn(planned.into_iter(), &BTreeSet::new()), planned);
        assert_eq!(in_turn(planned.into_iter(), &[2, 9, 100].into()), [5, 7, 9, 2]);
    }
}
