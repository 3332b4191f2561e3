// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies that were recorded with their stacks, as the samples of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cowlab_observe::blame::Collected;
use cowlab_schema::blame as names;
use cowlab_schema::{Metric, Params, Writer};
use cowlab_store::{Missing, Sample};
use rustix::process::{getpriority_process, setpriority_process};

/// Niceness while it records: enough to be no rival, and a tenth of a busy CPU is left to read in time.
const NICE: i32 = 10;

/// Other programs that want the CPU go first: where all CPUs were busy, unwinding took Redis 4% of its requests.
pub fn give_way() {
    // Where it fails, it costs them a little more.
    if getpriority_process(None).is_ok_and(|nice| nice < NICE) {
        let _ = setpriority_process(None, NICE);
    }
}

pub fn samples(got: &Collected, lasted: Duration, start_unix_ns: i64) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut add = |metric: Metric, params: &Params, value: f64| {
        samples.push(Sample { start_unix_ns, ..Sample::of(metric, params.clone(), value) });
    };
    #[derive(Default)]
    struct Sum {
        pages: f64,
        stacks: u64,
        whole: u64,
        processes: BTreeSet<u32>,
    }
    let mut sums: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
    for copy in &got.stacks.copies {
        let sum = sums.entry((&copy.process, &copy.writer)).or_default();
        sum.pages += f64::from(copy.every);
        sum.stacks += 1;
        sum.whole += u64::from(copy.is_whole);
        sum.processes.insert(copy.pid);
    }
    let told: f64 = sums.values().map(|sum| sum.pages).sum();
    for ((program, writer), sum) in &sums {
        let mut params = Params::new();
        names::PROGRAM.put(&mut params, *program);
        params.insert(names::WRITER.name().to_owned(), (*writer).to_owned());
        add(names::COPIED_PAGES, &params, sum.pages * got.copies as f64 / told);
        let seen = sum.processes.len() as u64;
        let counted = got.workers.get(*program).filter(|_| *writer == Writer::Child.to_string());
        add(names::PROCESSES, &params, *counted.unwrap_or(&seen).max(&seen) as f64);
        add(names::TOLD_STACKS, &params, sum.stacks as f64);
        add(names::WHOLE_STACKS, &params, sum.whole as f64);
    }
    let all = Params::new();
    if sums.is_empty() {
        add(names::COPIED_PAGES, &all, got.copies as f64);
    }
    let every = got.stacks.copies.iter().map(|copy| copy.every).max();
    if let Some(every) = every {
        add(names::TOLD_EVERY_COPIES, &all, every.into());
    }
    add(names::LOST_STACKS, &all, got.lost.copies as f64);
    add(names::REUSE_FAULTS, &all, got.reuses as f64);
    add(names::TELLING_NS, &all, got.telling_ns as f64);
    add(names::READING_NS, &all, got.reading_ns as f64);
    add(names::RAN_NS, &all, got.ran_ns as f64);
    add(names::DURATION_NS, &all, lasted.as_nanos() as f64);
    samples
}

/// What this run could not see.
pub fn lacking(got: &Collected) -> Vec<Missing> {
    let mut rows = Vec::new();
    let mut lacks = |metric: &str, reason: String| {
        rows.push(Missing { metric: metric.to_owned(), reason });
    };
    if let Some(why) = &got.sees_kernel {
        lacks("copies in system calls", format!("this kernel does not show them ({why})"));
    }
    if got.lost.copies > 0 {
        lacks(
            "told_stacks",
            format!(
                "{} stacks were lost because they came faster than they could be read: their copies are \
                 counted, but the places of bursts are under-represented; a larger --every loses fewer",
                got.lost.copies
            ),
        );
    }
    if !got.sees_children {
        lacks(
            "copied_pages",
            "this kernel does not tell which process forks which: children that are forked meanwhile are not seen".to_owned(),
        );
    }
    if got.lost.events > 0 || got.lost.processes > 0 {
        let (events, processes) = (got.lost.events, got.lost.processes);
        lacks(
            "copied_pages",
            format!("{events} forks and ends were missed, and {processes} processes had no room"),
        );
    }
    let is_unnamed = |of: &&cowlab_store::stacks::Copy| of.mapping.is_empty();
    let unnamed = got.stacks.copies.iter().filter(is_unnamed).count();
    if unnamed > 0 {
        lacks(
            "mapping",
            format!("{unnamed} stacks are of programs that ended before they could be looked at"),
        );
    }
    for what in &got.left_out {
        lacks("stacks", what.clone());
    }
    for hint in &got.hints {
        lacks("names of interpreted code", hint.clone());
    }
    rows
}
