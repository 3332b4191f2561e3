// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs that run beside a study and fork: its report tells what their next forks cost.

use std::collections::BTreeSet;

use cowlab_machine::Facts;
use cowlab_machine::process::Target;
use cowlab_model::application::Children;
use cowlab_observe::forkers::{self, Process};
use cowlab_observe::tend::Survey;
use cowlab_schema::running::{self, HUGE_PAGES, SMALL_PAGES};
use cowlab_store::{Params, Sample};

/// Smaller ones are stopped for about as long as an empty one.
const LEAST_BYTES: u64 = 1 << 20;
/// As many are told, the largest of each name.
const TOLD: usize = 12;
/// Larger ones are told by their size alone: a look at all of their pages would take seconds.
const LOOKED_AT_BYTES: u64 = 64 << 30;

/// What their next forks would copy, at this moment.
pub fn samples(facts: &Facts) -> Vec<Sample> {
    let forkers = forkers::forkers(&forkers::look(), |of| Children::of(&of.name) == Children::Save);
    let mut large: Vec<Process> = forkers.into_iter().map(|of| of.process).collect();
    large.retain(|of| of.anonymous_bytes.is_some_and(|bytes| bytes >= LEAST_BYTES));
    large.sort_by_key(|of| std::cmp::Reverse(of.anonymous_bytes));
    let mut names = BTreeSet::new();
    large.retain(|of| names.insert(of.name.clone()));
    large.iter().take(TOLD).flat_map(|of| of_one(of, facts)).collect()
}

fn of_one(of: &Process, facts: &Facts) -> [Sample; 2] {
    let bytes = of.anonymous_bytes.unwrap_or_default();
    let huge_bytes = facts.thp.as_ref().and_then(|thp| thp.pmd_size_bytes).unwrap_or(2 << 20);
    let surveyed = (of.may_look && bytes < LOOKED_AT_BYTES)
        .then(|| Survey::take(&Target::open(of.pid).ok()?, huge_bytes).ok())
        .flatten();
    let (small, huge) = surveyed
        .map_or((bytes / facts.page_size_bytes, 0), |seen| (seen.small_pages, seen.huge_regions));
    let mut params = Params::new();
    running::NAME.put(&mut params, &of.name);
    running::PID.put(&mut params, u64::from(of.pid.unsigned_abs()));
    let now = jiff::Timestamp::now().as_nanosecond() as i64;
    [(SMALL_PAGES, small), (HUGE_PAGES, huge)].map(|(metric, pages)| Sample {
        start_unix_ns: now,
        ..Sample::of(metric, params.clone(), pages as f64)
    })
}
