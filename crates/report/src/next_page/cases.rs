// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The samples of one workload under one policy, and how two of them differ.

use cowlab_analysis::compared::ratio;
use cowlab_analysis::samples::Samples;
use cowlab_model::Estimate;
use cowlab_schema::cow_faults::{
    self, BENCH, CHILDREN, PAGE_SIZE_BYTES, PATTERN, POLICY, SIZE_BYTES, THREADS, WRITER,
};
use cowlab_schema::{Metric, Pattern, Policy, Writer};
use cowlab_store::{Accelerator, Environment, Run};

use crate::fmt;

/// The policy that copies the written page alone.
pub(super) const OFF: Policy = Policy::Off;
pub(super) const NEXT: Policy = Policy::Next(1);

/// Everything that was measured under policies, in the one environment that has them.
pub(super) struct Measured<'a> {
    samples: Samples<'a>,
    environment: &'a Environment,
}

/// A workload: one child writes base pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Workload {
    pub(super) pattern: Pattern,
    pub(super) bytes: u64,
    pub(super) threads: u32,
}

impl Workload {
    pub(super) const fn of(pattern: Pattern, mib: u64) -> Workload {
        Workload { pattern, bytes: mib << 20, threads: 0 }
    }

    /// `random, 64 MiB, another thread running`.
    pub(super) fn name(&self) -> String {
        let with = if self.threads == 0 { "" } else { ", another thread running" };
        match self.pattern {
            Pattern::Single => format!("a single write{with}"),
            pattern => format!("{pattern}, {}{with}", fmt::size(self.bytes)),
        }
    }
}

/// How many pages a policy copies ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Depth {
    pub pages: u32,
    pub policy: Policy,
}

impl Depth {
    /// Of a policy that copies the pages which follow.
    fn of(policy: Policy) -> Option<Depth> {
        match policy {
            Policy::Next(pages) => Some(Depth { pages, policy }),
            _ => None,
        }
    }
}

impl<'a> Measured<'a> {
    /// The first environment with a policy that copies ahead; one that counts has no times.
    pub(super) fn of(run: &'a Run) -> Option<Measured<'a>> {
        let all = Samples::of(&run.samples, BENCH);
        let environments = (0u32..).zip(&run.info.environments);
        environments.filter(|(_, e)| e.accelerator != Accelerator::Icount).find_map(
            |(index, environment)| {
                let samples = all.in_environment(index);
                let ahead =
                    samples.each(POLICY).into_iter().any(|policy| Depth::of(policy).is_some());
                ahead.then_some(Measured { samples, environment })
            },
        )
    }

    pub(super) fn accelerator(&self) -> Accelerator {
        self.environment.accelerator
    }

    pub(super) fn page(&self) -> u64 {
        self.environment.page_size_bytes
    }

    pub(super) fn case(&self, workload: Workload, policy: Policy) -> Samples<'a> {
        self.samples
            .with(PATTERN, workload.pattern)
            .with(SIZE_BYTES, workload.bytes)
            .with(THREADS, workload.threads)
            .with(WRITER, Writer::Child)
            .with(CHILDREN, 1)
            .with(PAGE_SIZE_BYTES, self.page())
            .with(POLICY, policy)
    }

    /// The depths that were measured for a workload, ascending.
    pub(super) fn depths(&self, workload: Workload) -> Vec<Depth> {
        let all = self.samples.with(PATTERN, workload.pattern).each(POLICY);
        let mut depths: Vec<Depth> = all
            .into_iter()
            .filter_map(Depth::of)
            .filter(|depth| !self.case(workload, depth.policy).is_empty())
            .collect();
        depths.sort_unstable();
        depths
    }
}

pub(super) fn per_page(samples: &Samples, metric: Metric) -> Option<Estimate> {
    ratio(samples, metric, cow_faults::PAGES_WRITTEN)
}
