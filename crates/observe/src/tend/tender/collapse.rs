// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One collapse, and what follows from how it went.

use std::time::{Duration, Instant};

use cowlab_machine::ProcessError;

use super::{NO_PAGE_REST, TIGHT_REST, Tender};
use crate::tend::act::Outcome;
use crate::tend::event::{Rest, Step};
use crate::tend::forks::sharing;
use crate::tend::pace::Next;
use crate::tend::pressure;
use crate::tend::region::Pages;

/// How often a busy region is tried in one pass.
const MOST_TRIES: u32 = 4;

impl Tender {
    pub(super) fn collapse(
        &mut self,
        start: u64,
        now: Duration,
        step: &mut Step,
    ) -> Result<(), ProcessError> {
        self.did_work = true;
        // The plan may be minutes old, and the kernel fills in whatever is absent.
        let region = start..start + self.huge_page_bytes;
        let pages = Pages::of(&self.target, &mut self.pagemap, region)?;
        let pages_per_region = self.huge_page_bytes / self.page_bytes();
        if let Some(reason) = self.settings.rules.refuse(&pages, pages_per_region) {
            self.failed(reason, start, step);
            return Ok(());
        }
        let Some(pidfd) = self.target.pidfd() else { return Ok(()) };
        let began = Instant::now();
        let outcome = self.collapser.collapse(&self.target, pidfd, start);
        self.gauges.waited_ourselves(began.elapsed());
        self.judge(outcome, start, now, step)
    }

    pub(super) fn judge(
        &mut self,
        outcome: Outcome,
        start: u64,
        now: Duration,
        step: &mut Step,
    ) -> Result<(), ProcessError> {
        match outcome {
            Outcome::Collapsed(cost) => {
                self.waits.no_page_rest = NO_PAGE_REST;
                self.history.collapsed(start, self.pass.number);
                self.pass.last.remove(&start);
                self.figures.collapsed_regions += 1;
                // A fork that came in between is its own stall, and not the collapse's.
                if !sharing(&self.target)?.is_empty() {
                    step.wait = Duration::ZERO;
                    return Ok(());
                }
                self.figures.call_ns.record(cost.call_ns.max(1)).expect("it resizes itself");
                self.figures.stall_ns.record(cost.stall_ns().max(1)).expect("it resizes itself");
                self.pass.is_cold |= cost.stall_ns() > self.pace.limits().budget_ns;
                match self.pace.after(&cost, self.haste(now)) {
                    Next::Pause { ns } => {
                        self.waits.next_at = self.began.elapsed() + Duration::from_nanos(ns);
                        step.wait = Duration::ZERO;
                    }
                    // After the last there is nothing to be left alone for.
                    Next::Rest { ns } if !self.pass.queue.is_empty() => {
                        self.rest(now, Rest::Stalls, Duration::from_nanos(ns), step);
                    }
                    Next::Rest { .. } => step.wait = Duration::ZERO,
                }
            }
            Outcome::NoHugePage => {
                self.pass.queue.push_front(start);
                self.rest_without_page(now, step);
            }
            Outcome::NoneForTarget => {
                self.pass.queue.push_back(start);
                self.pass.last.insert(start);
                self.rest_without_page(now, step);
            }
            // The kernel's number for it also stands for absent pages that a userfaultfd waits for.
            Outcome::GroupFull
                if !pressure::is_group_full(self.target.pid(), self.huge_page_bytes) =>
            {
                self.failed("not_eligible", start, step);
            }
            Outcome::GroupFull => {
                self.pass.queue.push_front(start);
                self.rest(now, Rest::GroupFull, TIGHT_REST, step);
            }
            Outcome::Gone => return Err(self.target.lost_memory()),
            Outcome::Forbidden => {
                return Err(self.target.failed("mem", rustix::io::Errno::PERM.into()));
            }
            Outcome::Busy => {
                // Pages that were made a moment ago, or are written out: soon they are not.
                let tries = self.pass.tries.entry(start).or_insert(0);
                *tries += 1;
                if *tries < MOST_TRIES {
                    self.pass.queue.push_back(start);
                    step.wait = self.pace.busy_pause();
                } else {
                    self.failed("busy", start, step);
                }
            }
            Outcome::NotEligible => self.failed("not_eligible", start, step),
            Outcome::Unmapped => self.failed("unmapped", start, step),
            Outcome::Failed(_) => self.failed("other", start, step),
        }
        Ok(())
    }

    fn failed(&mut self, reason: &'static str, start: u64, step: &mut Step) {
        *self.figures.failed_regions.entry(reason).or_insert(0) += 1;
        self.history.refused(start, self.pass.number);
        step.wait = Duration::from_nanos(self.pace.limits().shortest_pause_ns);
    }
}
