// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What parent and child wrote after a fork, by what became of the frames that they shared.
//!
//! Fork leaves both with the same frame for each page. The first of the two to write a page gets
//! another frame; the other one may later use the old one as its own. So a changed frame tells who
//! paid for the copy, and exactly; that the other wrote the page later is not seen. Frames are shown
//! only with CAP_SYS_ADMIN. Without, pagemap's bit 56 still tells that a page is no longer shared,
//! but not by whom.

use cowlab_machine::process::Page;
use cowlab_machine::process::mappings::Kind;

use super::reading::{Placed, Reading, join};
use super::tally::{Fate, Tally};

/// What was written since a fork.
#[derive(Debug, Clone, Default)]
pub struct Shares {
    /// Of the pages that the fork shared, by whomever: only `start_pages`, `pages_mapped` (of both
    /// together), what was written, and the fork's mappings.
    pub either: Tally,
    /// By the parent; `None` where that cannot be told.
    pub parent: Option<Tally>,
    /// By the child; `None` where that cannot be told.
    pub child: Option<Tally>,
    /// Pages of which nothing can be said: in swap at one of the moments.
    pub unknown_pages: u64,
}

/// Judges the pages of `fork` by what `parent` and `child` have now. `None`: that one has ended, or
/// has other memory by now.
pub fn shares(fork: &Reading, parent: Option<&Reading>, child: Option<&Reading>) -> Shares {
    let has_frames = fork.private_pages().any(|placed| placed.page.frame().is_some());
    let own = |now: &Reading| side(fork, now);
    let sides = (parent.filter(|_| has_frames).map(own), child.filter(|_| has_frames).map(own));
    let mut shares = Shares {
        parent: sides.0.as_ref().map(|side| side.0.clone()),
        child: sides.1.as_ref().map(|side| side.0.clone()),
        unknown_pages: sides.0.map_or(0, |side| side.1).max(sides.1.map_or(0, |side| side.1)),
        ..Shares::default()
    };
    let empty = Reading::default();
    let parents = parent.unwrap_or(&empty).private_pages();
    let children = child.unwrap_or(&empty).private_pages();
    let with_parent = join(fork.private_pages(), parents)
        .filter_map(|(_, before, now)| Some((before?, now)))
        .collect::<Vec<_>>();
    let mut at = children.peekable();
    for (before, parent) in with_parent {
        while at.next_if(|page| page.address < before.address).is_some() {}
        let child = at.next_if(|page| page.address == before.address);
        let nows = [parent, child];
        let mut pages = nows.into_iter().flatten().map(|now| now.page);
        let was_swapped = before.page.is_swapped() || pages.clone().any(Page::is_swapped);
        shares.unknown_pages += u64::from(!has_frames && was_swapped);
        let is_written = pages.any(|now| match has_frames {
            true => wrote(before.page, now).unwrap_or(false),
            // Who is alone with a page that came back from swap may not have written it.
            false if was_swapped => false,
            false => now.is_anonymous() && (now.is_exclusive() || before.page.is_file()),
        });
        let is_there = nows.into_iter().any(|now| now.is_some());
        let fate = Fate { was_there: true, is_there, is_written };
        shares.either.add(before.address, before.kind, fate);
    }
    add_mappings(&mut shares.either, fork);
    shares
}

/// One of the two: what it wrote of the pages of the fork, what it has new, and how many pages
/// cannot be judged.
fn side(fork: &Reading, now: &Reading) -> (Tally, u64) {
    let (mut tally, mut unknown) = (Tally::default(), 0);
    for (address, before, after) in join(fork.private_pages(), now.private_pages()) {
        let (was_there, is_there) = (before.is_some(), after.is_some());
        let is_written = match (before, after) {
            (Some(before), Some(after)) => {
                let judged = wrote(before.page, after.page);
                unknown += u64::from(judged.is_none());
                judged.unwrap_or(false)
            }
            (None, Some(after)) => after.is_anonymous(),
            _ => false,
        };
        let kind = after.or(before).map_or(Kind::Anonymous, |placed| placed.kind);
        tally.add(address, kind, Fate { was_there, is_there, is_written });
    }
    add_files(&mut tally, now);
    add_mappings(&mut tally, fork);
    (tally, unknown)
}

/// Whether the page was copied for its owner; `None` where the one or the other is in swap.
fn wrote(before: Page, now: Page) -> Option<bool> {
    if before.is_file() || now.is_file() {
        return Some(before.is_file() && now.is_anonymous());
    }
    Some(before.frame()? != now.frame()?)
}

/// Adds the pages of files and shared memory.
pub fn add_files(tally: &mut Tally, now: &Reading) {
    let is_file = |placed: &Placed| placed.kind == Kind::Named && !placed.is_private();
    now.pages().filter(is_file).for_each(|placed| tally.add_file(placed.kind));
}

/// Adds the mappings that a fork at that moment copies.
pub fn add_mappings(tally: &mut Tally, at: &Reading) {
    let mut own = at.pages().filter(Placed::is_anonymous).map(|placed| placed.address).peekable();
    for mapping in &at.mappings {
        while own.next_if(|address| *address < mapping.range.start).is_some() {}
        let is_anon = own.peek().is_some_and(|address| mapping.range.contains(address));
        // The kernel's own have no row of theirs: nobody writes them.
        let kind = if mapping.kind == Kind::Special { Kind::Named } else { mapping.kind };
        tally.add_vma(kind, is_anon);
    }
}

/// What the page table alone tells of a program from its exec on: each page that is its own by then
/// was written by it, since none was at exec but for arguments.
pub fn since_exec(start: &Reading, now: &Reading) -> Tally {
    let mut tally = Tally::default();
    for (address, before, after) in join(start.private_pages(), now.private_pages()) {
        let (was_there, is_there) = (before.is_some(), after.is_some());
        let is_written = match (before, after) {
            (Some(before), Some(after)) => {
                let moved = before.page.frame().zip(after.page.frame());
                let is_copied = before.page.is_file() && after.is_anonymous();
                // The stack was written by exec itself, and it is the same memory afterwards.
                is_copied || (before.is_anonymous() && moved.is_some_and(|(a, b)| a != b))
            }
            (None, Some(after)) => after.is_anonymous(),
            _ => false,
        };
        let kind = after.or(before).map_or(Kind::Anonymous, |placed| placed.kind);
        tally.add(address, kind, Fate { was_there, is_there, is_written });
    }
    add_files(&mut tally, now);
    tally
}

/// Pages that the process had alone before `now` and that did not move: whether it wrote them the page
/// table does not tell, since no copy was due.
pub fn unseen(start: &Reading, now: &Reading) -> u64 {
    let both = join(start.private_pages(), now.private_pages());
    let both = both.filter_map(|(_, before, after)| Some((before?, after?)));
    let is_unseen = |(before, after): &(Placed, Placed)| {
        let is_alone = before.page.is_exclusive() || after.page.is_exclusive();
        let may_be_alone = is_alone || before.page.is_swapped() || after.page.is_swapped();
        before.is_anonymous() && may_be_alone && wrote(before.page, after.page) != Some(true)
    };
    both.filter(is_unseen).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use cowlab_machine::process::mappings;

    const PRESENT: u64 = 1 << 63;
    const EXCLUSIVE: u64 = 1 << 56;
    const FILE: u64 = 1 << 61;
    const SWAPPED: u64 = 1 << 62;

    fn reading(entries: &[u64]) -> Reading {
        let maps = "10000-20000 rw-p 00000000 00:00 0 [heap]\n";
        let pages = entries.iter().map(|entry| Page(*entry)).collect();
        Reading::of(mappings::decode(maps).unwrap(), vec![(0x10000, pages)], 4096)
    }

    #[test]
    fn frames_tell_who_paid_for_a_copy() {
        let fork = reading(&[PRESENT | 1, PRESENT | 2, PRESENT | 3, PRESENT | 4]);
        // The parent wrote the first, the child the second; the third is shared; the child gave
        // the fourth back, which makes it the parent's alone.
        let parent = reading(&[
            PRESENT | EXCLUSIVE | 11,
            PRESENT | EXCLUSIVE | 2,
            PRESENT | 3,
            PRESENT | EXCLUSIVE | 4,
            PRESENT | EXCLUSIVE | 15,
        ]);
        let child = reading(&[PRESENT | EXCLUSIVE | 1, PRESENT | EXCLUSIVE | 12, PRESENT | 3, 0]);
        let found = shares(&fork, Some(&parent), Some(&child));
        let (parent, child) = (found.parent.unwrap().total(), found.child.unwrap().total());
        assert_eq!((parent.cow_pages, parent.new_pages, parent.pages_written), (1, 1, 2));
        assert_eq!((child.cow_pages, child.gone_pages), (1, 1));
        let either = found.either.total();
        assert_eq!((either.cow_pages, either.start_pages, found.unknown_pages), (2, 4, 0));
    }

    #[test]
    fn what_was_its_own_before_is_not_seen() {
        let worker = reading(&[PRESENT | EXCLUSIVE | 1, PRESENT | 2, PRESENT | 3, SWAPPED | 4]);
        let now =
            reading(&[PRESENT | EXCLUSIVE | 1, PRESENT | 2, PRESENT | EXCLUSIVE | 13, PRESENT | 5]);
        assert_eq!((unseen(&worker, &now), unseen(&now, &now)), (2, 2));
        assert_eq!(since_exec(&worker, &now).total().pages_written, 1);
    }

    #[test]
    fn without_frames_only_that_somebody_wrote_is_told() {
        let fork = reading(&[PRESENT, PRESENT, PRESENT]);
        let parent = reading(&[PRESENT | EXCLUSIVE, PRESENT | EXCLUSIVE, PRESENT]);
        let child = reading(&[PRESENT | EXCLUSIVE, PRESENT | EXCLUSIVE, PRESENT]);
        let found = shares(&fork, Some(&parent), Some(&child));
        assert!(found.parent.is_none() && found.child.is_none());
        assert_eq!(found.either.total().cow_pages, 2);
        assert_eq!(shares(&fork, Some(&parent), None).either.total().cow_pages, 2);
    }

    #[test]
    fn without_frames_what_was_in_swap_at_one_of_the_moments_is_unknown() {
        let fork = reading(&[PRESENT, SWAPPED | 4, PRESENT, PRESENT]);
        let parent = reading(&[SWAPPED | 5, PRESENT | EXCLUSIVE, PRESENT | EXCLUSIVE, PRESENT]);
        let child = reading(&[PRESENT, SWAPPED | 4, PRESENT | EXCLUSIVE, SWAPPED | 6]);
        let found = shares(&fork, Some(&parent), Some(&child));
        assert_eq!((found.unknown_pages, found.either.total().cow_pages), (3, 1));
        assert_eq!(shares(&fork, None, Some(&child)).unknown_pages, 2);
    }

    #[test]
    fn mappings_are_those_of_the_fork_and_anonymous_where_a_page_is() {
        let maps = "10000-12000 rw-p 00000000 00:00 0 [heap]\n\
                    20000-22000 r-xp 00000000 00:01 7 /bin/true\n\
                    30000-32000 rw-p 00002000 00:01 7 /bin/true\n\
                    40000-42000 rw-p 00000000 00:00 0\n";
        let pages = |entries: &[u64]| entries.iter().map(|entry| Page(*entry)).collect();
        let runs = vec![
            (0x10000, pages(&[0, PRESENT | EXCLUSIVE | 1])),
            (0x20000, pages(&[PRESENT | FILE | 2, PRESENT | FILE | 3])),
            (0x30000, pages(&[PRESENT | EXCLUSIVE | 4, PRESENT | FILE | 5])),
        ];
        let fork = Reading::of(mappings::decode(maps).unwrap(), runs, 4096);
        let found = shares(&fork, Some(&reading(&[PRESENT | 1])), None);
        for total in [found.either.total(), found.parent.unwrap().total()] {
            assert_eq!((total.vmas, total.vmas_anon), (4, 2));
        }
    }

    #[test]
    fn a_page_in_swap_is_unknown_and_a_files_page_counts_when_it_is_copied() {
        let fork = reading(&[PRESENT | 1, PRESENT | FILE | 2, PRESENT | FILE | 3]);
        let child = reading(&[SWAPPED | 5, PRESENT | EXCLUSIVE | 12, PRESENT | FILE | 3]);
        let found = shares(&fork, None, Some(&child));
        assert_eq!(found.unknown_pages, 1);
        assert_eq!(found.child.unwrap().total().cow_pages, 1);
        let run = since_exec(&fork, &child).total();
        assert_eq!(run.pages_mapped, 3);
    }
}
