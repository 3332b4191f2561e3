// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The account of one process.

use super::super::frame::{Epoch, Totals};
use super::super::reading::Reading;
use super::super::sample::Sample;

#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) pid: u32,
    pub(super) name: String,
    /// The name under which it is summed.
    pub(super) group: String,
    pub(super) start_ticks: Option<u64>,
    /// The watched process whose child it is; `None` where it is watched for itself.
    pub(super) parent: Option<u32>,
    /// CLOCK_MONOTONIC; 0 of one that was there before.
    pub(super) born_ns: u64,
    pub(super) ended: bool,
    pub(super) totals: Totals,
    pub(super) now: Reading,
    /// Minor faults and writes to present pages.
    pub(super) per_s: (Option<f64>, Option<f64>),
    /// Counted since the last rates.
    since: (u64, Option<u64>),
    /// When they were; `None` before the first.
    rated_ns: Option<u64>,
    /// While it shares its parent's memory.
    pub(super) share: Option<Share>,
    pub(super) last_epoch: Option<Epoch>,
}

/// A child's sharing with its parent.
#[derive(Debug, Clone)]
pub(super) struct Share {
    pub(super) stop_ns: Option<u64>,
    pub(super) parent_at_fork: Reading,
    pub(super) own_at_fork: Reading,
    pub(super) walk: Option<Walk>,
    /// When it was last its turn to be walked.
    pub(super) looked_ns: u64,
}

/// A walk, and the counters at its time.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    pub(super) time_ns: u64,
    pub(super) sample: Sample,
    parent: Reading,
    own: Reading,
    /// Pages that the child got for itself by fault, of both, up to this walk: not every fault
    /// copies, and some copy more than a page.
    pages_per_fault: f64,
}

/// From so many faults on they say how many pages a fault gives the child.
const ENOUGH_FAULTS: u64 = 64;

/// Writes that copy in the parent: as they are counted, else every minor fault.
fn copies(then: &Reading, now: &Reading) -> u64 {
    match (then.counts, now.counts) {
        (Some(then), Some(now)) => now.writes_to_present.saturating_sub(then.writes_to_present),
        _ => now.minor_faults.saturating_sub(then.minor_faults),
    }
}

/// Faults that give a child a page for itself: copies, and new memory.
fn gains(then: &Reading, now: &Reading) -> u64 {
    match (then.counts, now.counts) {
        (Some(then), Some(now)) => {
            let all =
                |counts: crate::bpf::Counts| counts.writes_to_present + counts.writes_to_absent;
            all(now).saturating_sub(all(then))
        }
        _ => now.minor_faults.saturating_sub(then.minor_faults),
    }
}

impl Account {
    pub(super) fn new(
        pid: u32,
        name: String,
        group: String,
        parent: Option<u32>,
        now: Reading,
    ) -> Account {
        Account {
            pid,
            name,
            group,
            start_ticks: None,
            parent,
            born_ns: 0,
            ended: false,
            totals: Totals::default(),
            now,
            per_s: (None, None),
            since: (0, None),
            rated_ns: None,
            share: None,
            last_epoch: None,
        }
    }

    /// Takes a reading; the faults since the one before, and the writes to present pages.
    /// `rates_ns`: when, where rates are wanted.
    pub(super) fn read(&mut self, now: Reading, rates_ns: Option<u64>) -> (u64, Option<u64>) {
        let faults = now.minor_faults.saturating_sub(self.now.minor_faults);
        let count = |reading: &Reading| reading.counts.map(|counts| counts.writes_to_present);
        let writes = count(&now).map(|now| now.saturating_sub(count(&self.now).unwrap_or(0)));
        self.totals.minor_faults += faults;
        self.since.0 += faults;
        if let Some(writes) = writes {
            *self.totals.writes_to_present.get_or_insert(0) += writes;
            *self.since.1.get_or_insert(0) += writes;
        }
        // What could not be read this time is not known now.
        self.now = now;
        if let Some(time_ns) = rates_ns {
            // Its own time, not a refresh's: of very many processes each is read at some of them.
            let before_ns = self.rated_ns.replace(time_ns);
            let passed_ns = before_ns.map_or(0, |before_ns| time_ns.saturating_sub(before_ns));
            if passed_ns > 0 {
                let per_s = |count: u64| count as f64 * 1e9 / passed_ns as f64;
                self.per_s = (Some(per_s(self.since.0)), self.since.1.map(per_s));
            }
            self.since = (0, None);
        }
        (faults, writes)
    }

    pub(super) fn walked(&mut self, sample: Sample, time_ns: u64, parent: Reading) {
        let own = self.now.clone();
        let Some(share) = &mut self.share else { return };
        let (parent_then, own_then, pages_then, ratio_then, most) = match &share.walk {
            Some(walk) => {
                (&walk.parent, &walk.own, walk.sample.private_pages, walk.pages_per_fault, 2.0)
            }
            // The fork may have been read late: pages without their faults say nothing of a fault.
            None => (&share.parent_at_fork, &share.own_at_fork, 0, 1.0, 1.0),
        };
        let faults = copies(parent_then, &parent) + gains(own_then, &own);
        let pages = sample.private_pages.saturating_sub(pages_then);
        let pages_per_fault = match faults >= ENOUGH_FAULTS {
            true => (pages as f64 / faults as f64).min(most),
            false => ratio_then,
        };
        share.walk = Some(Walk { time_ns, sample, parent, own, pages_per_fault });
    }

    /// Whether a walk now would find other than the last one: nobody copies without a fault.
    pub(super) fn has_news(&self, parent: &Reading) -> bool {
        match self.share.as_ref().and_then(|share| share.walk.as_ref()) {
            Some(walk) => copies(&walk.parent, parent) + gains(&walk.own, &self.now) > 0,
            None => true,
        }
    }

    /// Since the fork; `None` of one that was there before.
    pub(super) fn age_ns(&self, time_ns: u64) -> Option<u64> {
        (self.born_ns > 0).then(|| time_ns.saturating_sub(self.born_ns))
    }

    /// What the child has copied by now; `is_only`: no other child shares the parent's memory.
    pub(super) fn epoch(
        &self,
        parent: &Reading,
        is_only: bool,
        page_bytes: u64,
        time_ns: u64,
    ) -> Option<Epoch> {
        let share = self.share.as_ref()?;
        let walk = share.walk.as_ref();
        let (parent_then, own_then) = match walk {
            Some(walk) => (&walk.parent, &walk.own),
            None => (&share.parent_at_fork, &share.own_at_fork),
        };
        let pages_per_fault = walk.map_or(1.0, |walk| walk.pages_per_fault);
        let pages = |faults: u64| (faults as f64 * pages_per_fault).round() as u64;
        let by_parent = copies(parent_then, parent);
        // What a parent copies away from several children, they still share: it is no child's.
        let away = if is_only { by_parent } else { 0 };
        let since = pages(away + gains(own_then, &self.now));
        let walked = walk.map(|walk| walk.sample.private_pages);
        // Of one that was there before, only a walk tells what it had copied by then.
        let is_known = walk.is_some() || self.born_ns > 0;
        let shared_pages = match walk {
            Some(walk) => Some(walk.sample.shared_pages),
            None => share.parent_at_fork.anonymous_bytes.map(|bytes| bytes / page_bytes),
        }
        .filter(|_| is_known);
        let shared_pages = shared_pages
            .map(|left| left.saturating_sub(pages(by_parent + copies(own_then, &self.now))));
        Some(Epoch {
            child: self.pid,
            age_ns: self.age_ns(time_ns),
            stop_ns: share.stop_ns,
            copied_bytes: is_known.then(|| (walked.unwrap_or(0) + since) * page_bytes),
            walked_bytes: walked.map(|pages| pages * page_bytes),
            shared_bytes: shared_pages.map(|pages| pages * page_bytes),
            walk_age_ns: walk.map(|walk| time_ns.saturating_sub(walk.time_ns)),
            parent_faults: copies(&share.parent_at_fork, parent),
            regions: walk.map(|walk| walk.sample.regions.clone()).unwrap_or_default(),
            mappings: walk.map(|walk| walk.sample.mappings.clone()).unwrap_or_default(),
        })
    }
}
