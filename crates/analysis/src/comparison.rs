// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two runs: which figures differ, by how much, and which could not have been told apart.

use std::collections::BTreeMap;

use cowlab_store::{Accelerator, Run};
use serde::Serialize;

use crate::difference::{Difference, Verdict, compare};
use crate::figures::{Key, grouped};

#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    #[serde(flatten)]
    pub key: Key,
    /// Its median in the first run.
    pub first: f64,
    /// Its median in the second run.
    pub second: f64,
    #[serde(flatten)]
    pub difference: Difference,
}

#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The first run's name.
    pub first: String,
    pub second: String,
    /// What two runs of the same thing differ by anyway.
    pub drift_percent: f64,
    /// How many figures both have.
    pub compared: usize,
    pub different: usize,
    /// How many of them were repeated too rarely to tell.
    pub too_few_repetitions: usize,
    /// How many figures only one of the runs has.
    pub only_in_one: usize,
    /// What of the machines is not the same.
    pub environments_differ: Vec<String>,
    /// Every figure that both have.
    pub figures: Vec<Compared>,
}

/// Compares the figures that two runs have in common, those of `bench` alone if one is named. A
/// difference of up to `drift_percent` is not called one.
pub fn of_runs(
    [first, second]: [&Run; 2],
    names: [String; 2],
    bench: Option<&str>,
    drift_percent: f64,
) -> Comparison {
    let keep = |key: &Key| bench.is_none_or(|bench| bench == key.bench);
    let (a, mut b) = (grouped(&first.samples), grouped(&second.samples));
    let paired = interleaved(first, second);
    let mut figures = Vec::new();
    let mut only_in_one = 0;
    for (key, ours) in a {
        if !keep(&key) {
            continue;
        }
        let Some(theirs) = b.remove(&key) else {
            only_in_one += 1;
            continue;
        };
        // One figure a round: what one process gave has its moment in common.
        let (mut ours, mut theirs) = (ours.all_by_round(), theirs.all_by_round());
        if paired {
            ours.retain(|rep, _| theirs.contains_key(rep));
            theirs.retain(|rep, _| ours.contains_key(rep));
        }
        let x: Vec<f64> = ours.into_values().collect();
        let y: Vec<f64> = theirs.into_values().collect();
        let Some(difference) = compare(&x, &y, paired, drift_percent / 100.0) else {
            // Of rounds that the two have not in common.
            only_in_one += 1;
            continue;
        };
        let median = |values: &[f64]| cowlab_model::stats::median(values).unwrap_or(f64::NAN);
        figures.push(Compared { key, first: median(&x), second: median(&y), difference });
    }
    only_in_one += b.keys().filter(|key| keep(key)).count();
    let with = |verdict| figures.iter().filter(|f| f.difference.verdict == verdict).count();
    let [first_name, second_name] = names;
    Comparison {
        first: first_name,
        second: second_name,
        drift_percent,
        compared: figures.len(),
        different: with(Verdict::Different),
        too_few_repetitions: with(Verdict::TooFew),
        only_in_one,
        environments_differ: environments_differ(first, second),
        figures,
    }
}

/// Whether rounds of the two runs were made in turn, A B A B: only then does a pair share its
/// moment, so that pairing removes the machine's drift.
fn interleaved(first: &Run, second: &Run) -> bool {
    let starts = |run: &Run| {
        let mut starts: BTreeMap<u32, i64> = BTreeMap::new();
        for sample in &run.samples {
            let start = starts.entry(sample.rep).or_insert(i64::MAX);
            *start = sample.start_unix_ns.min(*start);
        }
        starts.into_iter().collect::<Vec<_>>()
    };
    let (a, b) = (starts(first), starts(second));
    let same_rounds = a.len() > 1 && a.iter().map(|s| s.0).eq(b.iter().map(|s| s.0));
    same_rounds
        && a.windows(2).zip(b.windows(2)).all(|(a, b)| a[0].1.max(b[0].1) < a[1].1.min(b[1].1))
}

/// What of the machines is not the same: a difference may come from it.
fn environments_differ(first: &Run, second: &Run) -> Vec<String> {
    let (Some(a), Some(b)) = (first.info.environments.first(), second.info.environments.first())
    else {
        return Vec::new();
    };
    let mut differences = Vec::new();
    let mut check = |what: &str, a: String, b: String| {
        if a != b {
            differences.push(format!("{what}: {a} against {b}"));
        }
    };
    check("host", a.host.clone(), b.host.clone());
    check("kernel", a.kernel.clone(), b.kernel.clone());
    check("CPUs", a.cpus.to_string(), b.cpus.to_string());
    check("CPU", format!("{:?}", a.cpu_model), format!("{:?}", b.cpu_model));
    check("THP", format!("{:?}", a.thp), format!("{:?}", b.thp));
    check("mTHP", format!("{:?}", a.mthp), format!("{:?}", b.mthp));
    let accelerator = |a: Accelerator| format!("{a:?}").to_lowercase();
    check("accelerator", accelerator(a.accelerator), accelerator(b.accelerator));
    differences
}
