// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a first pass would take, tried on memory of our own.

use std::time::{Duration, Instant};

use cowlab_machine::ProcessError;

use super::Tender;
use crate::act::{Fetch, thread_cpu_ns};
use crate::forks::sharing;
use crate::pace::{Next, Pace};
use crate::plan::CollapsePlan;
use crate::region::Pages;
use crate::sys::OwnRegion;

/// Regions of our own that a dry run collapses, where an eighth of the memory that is left has room.
const MOST_TRIED: u64 = 32;
const TRIED_PART: u64 = 8;

/// What a first pass takes here and now, by a part of it on memory of our own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trial {
    /// Regions that were collapsed.
    pub regions: u64,
    /// Regions that are to be.
    pub planned_regions: u64,
    elapsed_ns: u64,
    cpu_ns: u64,
    warming_cpu_ns: u64,
}

impl Trial {
    fn of_all(&self, ns: u64) -> f64 {
        ns as f64 * self.planned_regions as f64 / self.regions.max(1) as f64
    }

    /// How long all take.
    pub fn tending_ns(&self) -> f64 {
        self.of_all(self.elapsed_ns)
    }

    /// The CPU time of that.
    pub fn cpu_ns(&self) -> f64 {
        self.of_all(self.cpu_ns)
    }

    /// Of it, what warms huge pages and reads the target's.
    pub fn warming_cpu_ns(&self) -> f64 {
        self.of_all(self.warming_cpu_ns)
    }

    /// CPU time of one.
    pub fn collapse_ns(&self) -> f64 {
        self.cpu_ns as f64 / self.regions.max(1) as f64
    }
}

impl Tender {
    /// The first pass, on memory of our own and at the same pace; all else that a region takes is done
    /// to the target's. Its huge pages are not given back before the end: the next would get those.
    pub(super) fn try_out(
        &mut self,
        plan: &CollapsePlan,
    ) -> Result<Result<Trial, &'static str>, ProcessError> {
        if let Err(tight) = self.gauges.check(self.began.elapsed(), self.target.pid()) {
            return Ok(Err(tight.words()));
        }
        let room = self.gauges.available_bytes().unwrap_or(0) / TRIED_PART / self.huge_page_bytes;
        let page_bytes = self.page_bytes() as usize;
        let like = (0..room.clamp(1, MOST_TRIED)).map(|_| {
            let mut region = OwnRegion::map(self.huge_page_bytes).ok()?;
            region.fill(page_bytes);
            Some(region)
        });
        let mut like: Vec<OwnRegion> = like.take(plan.steps.len()).flatten().collect();
        let mut pace = Pace::new(self.settings.limits);
        let mut trial = Trial { planned_regions: plan.steps.len() as u64, ..Trial::default() };
        let (began, cpu_before) = (Instant::now(), thread_cpu_ns());
        let mut next_at = Instant::now();
        let mut rests_ns = 0;
        for (step, like) in plan.steps.iter().zip(&mut like) {
            let region = step.start..step.start + self.huge_page_bytes;
            sharing(&self.target)?;
            let (memory, pagemap) = (self.memory.as_ref(), &mut self.pagemap);
            let copied = memory.map(|memory| Fetch { memory, pagemap, start: step.start });
            let Ok(warming_ns) = self.collapser.warm(&self.target, copied) else { break };
            std::thread::sleep(next_at.saturating_duration_since(Instant::now()));
            sharing(&self.target)?;
            Pages::of(&self.target, &mut self.pagemap, region)?;
            let Ok(cost) = self.collapser.try_out(&self.target, like) else { break };
            trial.regions += 1;
            trial.warming_cpu_ns += warming_ns;
            next_at = Instant::now();
            match pace.after(&cost, self.haste(Duration::ZERO)) {
                Next::Pause { ns } => next_at += Duration::from_nanos(ns),
                // Minutes: they count, and nobody waits for them.
                Next::Rest { ns } => rests_ns += ns,
            }
        }
        trial.elapsed_ns = began.elapsed().as_nanos() as u64 + rests_ns;
        trial.cpu_ns = thread_cpu_ns().saturating_sub(cpu_before);
        self.collapser.release();
        Ok(match trial.regions {
            0 if !plan.steps.is_empty() => Err("no huge page is free now"),
            _ => Ok(trial),
        })
    }

    /// The CPU time of one with its warming, tried on memory of our own. The first of them meets memory
    /// that nobody has touched for long.
    pub(super) fn collapse_ns(&mut self) -> Option<u64> {
        let mut like = OwnRegion::map(self.huge_page_bytes).ok()?;
        let page_bytes = self.page_bytes() as usize;
        let mut one = || {
            like.fill(page_bytes);
            self.collapser.warm(&self.target, None).ok()?;
            let cost = self.collapser.try_out(&self.target, &mut like).ok()?;
            like.release();
            Some(cost.cpu_ns + cost.warming_cpu_ns)
        };
        (0..3).filter_map(|_| one()).min()
    }
}
