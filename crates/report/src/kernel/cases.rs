// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The samples of one workload under one policy, and how two of them differ.

use cowlab_analysis::compared::ratio;
use cowlab_analysis::names::COW_FAULTS as BENCH;
use cowlab_analysis::picked::Picked;
use cowlab_model::Estimate;
use cowlab_store::{Accelerator, Environment, Run};

use crate::fmt;

/// The policy that copies the written page alone.
pub(super) const OFF: &str = "off";
/// Document 002's own.
pub(super) const NEXT: &str = "next";

/// Everything that was measured under policies, in the one environment that has them.
pub(super) struct Measured<'a> {
    samples: Picked<'a>,
    environment: &'a Environment,
}

/// A workload: one child writes base pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Workload {
    /// `single`, `sequential`, `random`.
    pub(super) pattern: &'static str,
    /// What the fork shares.
    pub(super) bytes: u64,
    /// Other running threads.
    pub(super) threads: u32,
}

impl Workload {
    pub(super) const fn of(pattern: &'static str, mib: u64) -> Workload {
        Workload { pattern, bytes: mib << 20, threads: 0 }
    }

    /// `random, 64 MiB, another thread running`.
    pub(super) fn name(&self) -> String {
        let with = if self.threads == 0 { "" } else { ", another thread running" };
        match self.pattern {
            "single" => format!("a single write{with}"),
            pattern => format!("{pattern}, {}{with}", fmt::size(self.bytes)),
        }
    }
}

/// How many pages a policy copies ahead, and into what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Depth {
    /// Of the folios that aligned runs go into; 0: base pages.
    pub order: u32,
    pub pages: u32,
    pub policy: String,
}

impl Depth {
    /// Of `next`, `next:16`, `next:512:4`.
    fn of(policy: &str) -> Option<Depth> {
        let (pages, order) = match policy.strip_prefix(NEXT)? {
            "" => (1, 0),
            depth => {
                let depth = depth.strip_prefix(':')?;
                let (pages, order) = depth.split_once(':').unwrap_or((depth, "0"));
                (pages.parse().ok()?, order.parse().ok()?)
            }
        };
        Some(Depth { order, pages, policy: policy.to_owned() })
    }
}

impl<'a> Measured<'a> {
    /// The first environment with a policy that copies ahead; one that counts has no times.
    pub(super) fn of(run: &'a Run) -> Option<Measured<'a>> {
        let all = Picked::of(&run.samples, BENCH);
        let environments = (0u32..).zip(&run.info.environments);
        environments.filter(|(_, e)| e.accelerator != Accelerator::Icount).find_map(
            |(index, environment)| {
                let samples = all.in_environment(index);
                let ahead = samples.words("policy").iter().any(|name| name.starts_with(NEXT));
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

    /// The samples of one workload under one policy.
    pub(super) fn case(&self, workload: Workload, policy: &str) -> Picked<'a> {
        self.samples
            .with("pattern", workload.pattern)
            .with("size_bytes", workload.bytes)
            .with("threads", workload.threads)
            .with("writer", "child")
            .with("children", 1)
            .with("page_size_bytes", self.page())
            .with("policy", policy)
    }

    /// The depths that were measured for a workload, those into base pages first, ascending.
    pub(super) fn depths(&self, workload: Workload) -> Vec<Depth> {
        let names = self.samples.with("pattern", workload.pattern).words("policy");
        let mut depths: Vec<Depth> = names
            .into_iter()
            .filter_map(Depth::of)
            .filter(|depth| !self.case(workload, &depth.policy).is_empty())
            .collect();
        depths.sort_unstable();
        depths
    }
}

/// A metric for each page written.
pub(super) fn per_page(samples: &Picked, metric: &str) -> Option<Estimate> {
    ratio(samples, metric, "pages_written")
}
