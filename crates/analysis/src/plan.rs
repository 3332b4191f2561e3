// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a warm-up of the parent would save its workers, from runs in which workers served different
//! numbers of requests.
//!
//! Cold runs, whose parent served nothing before it forked, bound it. A worker that serves `n` requests
//! and one that serves more write the same pages in their first `n`: a parent that served these has written
//! no others for them. So it saves at most what a worker has of its own after `n`; whether a later request
//! writes these pages again no cold run can say, since a page is copied once. A run whose parent was warmed
//! measures it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Result, bail};
use cowlab_schema::footprint::{COW_PAGES, Method, NEW_PAGES, START_PAGES};
use cowlab_schema::{Writer, blame, footprint};
use cowlab_store::Run;
use cowlab_store::stacks::{Copy, CopyStacks};
use serde::Serialize;

use crate::application::subjects;
use crate::samples::Samples;

/// Of a worker's memory so much is nothing: two runs of the same differ by as much.
const NOTHING: f64 = 0.01;

/// How often a parent and its workers were asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Requests {
    /// Requests that the parent served before it forked.
    #[serde(rename = "warmed_requests")]
    pub warmed: u64,
    /// Requests that each worker served.
    #[serde(rename = "requests")]
    pub served: u64,
}

/// What a run says of one worker, on average.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen {
    /// How often they were asked.
    #[serde(flatten)]
    pub requests: Requests,
    /// The verb that made the run.
    #[serde(skip)]
    pub verb: &'static str,
    /// The workers' program.
    #[serde(skip)]
    pub program: String,
    /// Workers that it rests on.
    pub workers: u64,
    /// Shared memory that a worker copied.
    pub copied_bytes: f64,
    /// Memory that it made new; `None` of a blame.
    pub new_bytes: Option<f64>,
    /// Memory that its fork shared; `None` of a blame.
    pub forked_bytes: Option<f64>,
    /// What two workers of one parent copied at the same addresses; `None` of a footprint, and where not
    /// every copy was told.
    pub common_bytes: Option<f64>,
}

impl Seen {
    /// What `run` says, with its stacks if it is a blame.
    pub fn of(run: &Run, stacks: Option<&CopyStacks>, requests: Requests) -> Result<Seen> {
        let page_bytes =
            run.info.environments.first().map_or(4096.0, |of| of.page_size_bytes as f64);
        match run.info.name.as_str() {
            "blame" => of_blame(run, stacks, requests, page_bytes),
            "footprint" => of_footprint(run, requests, page_bytes),
            other => {
                bail!("this is a run of `{other}`: a plan takes runs of `blame` or `footprint`")
            }
        }
    }

    /// What a worker has of its own.
    pub fn own_bytes(&self) -> f64 {
        self.copied_bytes + self.new_bytes.unwrap_or(0.0)
    }
}

fn of_blame(
    run: &Run,
    stacks: Option<&CopyStacks>,
    requests: Requests,
    page_bytes: f64,
) -> Result<Seen> {
    let samples = Samples::of(&run.samples, blame::BENCH).with(blame::WRITER, Writer::Child);
    let copied = |of: &Samples| of.first(blame::COPIED_PAGES).unwrap_or(0.0);
    let programs = samples.by(blame::PROGRAM);
    let most = programs.iter().max_by(|one, two| copied(&one.1).total_cmp(&copied(&two.1)));
    let Some((program, of)) = most else {
        bail!("no worker copied anything while this run was made");
    };
    let workers = of.first(blame::PROCESSES).unwrap_or(1.0).max(1.0);
    let lost = Samples::of(&run.samples, blame::BENCH).first(blame::LOST_STACKS).unwrap_or(0.0);
    let is_whole =
        |stacks: &&CopyStacks| lost == 0.0 && stacks.copies.iter().all(|copy| copy.every == 1);
    let common =
        stacks.filter(is_whole).and_then(|stacks| common_pages(stacks, program, page_bytes as u64));
    Ok(Seen {
        requests,
        verb: "blame",
        program: (*program).to_owned(),
        workers: workers as u64,
        copied_bytes: copied(of) / workers * page_bytes,
        new_bytes: None,
        forked_bytes: None,
        common_bytes: common.map(|pages| pages * page_bytes),
    })
}

/// Pages that two workers copied at one address, averaged over the pairs of those of one parent.
fn common_pages(stacks: &CopyStacks, program: &str, page_bytes: u64) -> Option<f64> {
    let is_worker =
        |copy: &&Copy| copy.process == program && copy.writer == Writer::Child.to_string();
    let copies: Vec<&Copy> = stacks.copies.iter().filter(is_worker).collect();
    // Those of one parent have a file at one address. Another parent's is elsewhere: addresses are
    // random from its exec on.
    let mut layouts: BTreeMap<(&str, u64), BTreeSet<u32>> = BTreeMap::new();
    for copy in copies.iter().filter(|copy| copy.mapping.starts_with('/')) {
        let Some(start) = copy.offset_bytes.and_then(|at| copy.address.checked_sub(at)) else {
            continue;
        };
        layouts.entry((&copy.mapping, start)).or_default().insert(copy.pid);
    }
    let siblings = layouts.into_values().max_by_key(BTreeSet::len)?;
    let count = siblings.len() as f64;
    if count < 2.0 {
        return None;
    }
    let mut pages: HashMap<u64, BTreeSet<u32>> = HashMap::new();
    for copy in copies.iter().filter(|copy| siblings.contains(&copy.pid)) {
        pages.entry(copy.address / page_bytes.max(1)).or_default().insert(copy.pid);
    }
    let pairs = pages.values().map(|by| (by.len() * (by.len() - 1)) as f64).sum::<f64>();
    Some(pairs / (count * (count - 1.0)))
}

fn of_footprint(run: &Run, requests: Requests, page_bytes: f64) -> Result<Seen> {
    let samples = &Samples::of(&run.samples, footprint::BENCH);
    let all = subjects(samples);
    let mut forks = all.iter().filter(|of| of.is_fork() && of.method != Method::Snapshot);
    let Some(subject) = forks.clone().find(|of| of.writer == Writer::Child) else {
        match forks.next() {
            Some(_) => bail!(
                "this footprint does not say which side wrote: record it as root, so that workers' copies can be \
                 told from their parent's"
            ),
            None => bail!(
                "this footprint has no fork that ended: follow some with --forks, or a command behind `--`"
            ),
        }
    };
    let figure = |metric| subject.total(samples, metric);
    let Some(copied) = figure(COW_PAGES) else {
        bail!("this footprint lacks its totals: it is cut");
    };
    Ok(Seen {
        requests,
        verb: "footprint",
        program: subject.program.clone(),
        workers: subject.spans(samples),
        copied_bytes: copied * page_bytes,
        new_bytes: figure(NEW_PAGES).map(|pages| pages * page_bytes),
        forked_bytes: figure(START_PAGES).map(|pages| pages * page_bytes),
        common_bytes: None,
    })
}

/// What one warm-up saves a worker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Warmup {
    /// The warm-up, and what workers serve after it.
    #[serde(flatten)]
    pub requests: Requests,
    /// What a worker saves at the least; below 0 where it has more of its own.
    pub saved_least_bytes: f64,
    /// At most.
    pub saved_most_bytes: f64,
    /// What it has of its own without the warm-up.
    pub own_bytes: f64,
    /// Whether a parent was warmed so; else these are bounds.
    pub is_measured: bool,
}

impl Warmup {
    /// Whether it saves nothing that a run could show.
    pub fn is_nothing(&self) -> bool {
        self.saved_most_bytes < NOTHING * self.own_bytes
    }
}

/// Each warm-up, and what it rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Requests that a worker serves: as many as in the longest run of a cold parent.
    pub served: u64,
    /// The runs, those of cold parents first.
    pub runs: Vec<Seen>,
    /// By the requests that the parent serves.
    pub warmups: Vec<Warmup>,
}

impl Plan {
    /// The plan that these runs allow. An error says which run is needed.
    pub fn of(mut runs: Vec<Seen>) -> Result<Plan> {
        runs.sort_by_key(|of| of.requests);
        check(&runs)?;
        let (cold, warm): (Vec<&Seen>, Vec<&Seen>) =
            runs.iter().partition(|of| of.requests.warmed == 0);
        let Some(longest) = cold.last() else {
            bail!("no run without a warm-up was given: add one (RUN:N) to compare with");
        };
        let mut warmups = Vec::new();
        for of in &warm {
            let served = of.requests.served;
            let Some(base) = cold.iter().find(|base| base.requests.served == served) else {
                bail!("no run of {served} requests without a warm-up to compare with: record one");
            };
            let saved = base.own_bytes() - of.own_bytes();
            warmups.push(Warmup {
                requests: of.requests,
                saved_least_bytes: saved,
                saved_most_bytes: saved,
                own_bytes: base.own_bytes(),
                is_measured: true,
            });
        }
        let served = longest.requests.served;
        let measured: Vec<Warmup> =
            warmups.iter().copied().filter(|of| of.requests.served == served).collect();
        for of in &cold {
            let warmed = of.requests.served;
            if measured.iter().all(|known| known.requests.warmed != warmed) {
                warmups.push(bounds(of, longest, &measured));
            }
        }
        if warmups.len() < 2 && warm.is_empty() {
            bail!("both runs served the same number of requests: a plan needs different numbers");
        }
        warmups.sort_by_key(|of| of.requests);
        Ok(Plan { served, warmups, runs })
    }

    /// The run of a cold parent with the most requests.
    pub fn longest(&self) -> Option<&Seen> {
        self.runs.iter().find(|of| of.requests == Requests { warmed: 0, served: self.served })
    }

    /// Warm-ups before as many requests as the longest run has.
    fn of_longest(&self) -> impl Iterator<Item = &Warmup> {
        self.warmups.iter().filter(|of| of.requests.served == self.served)
    }

    /// What is best known of warm-ups before as many requests: what was measured, or else the bounds.
    pub fn known(&self) -> impl Iterator<Item = &Warmup> {
        let is_measured = self.of_longest().any(|of| of.is_measured);
        self.of_longest().filter(move |of| of.is_measured == is_measured)
    }

    /// The one of these to choose: the shortest that saves nine tenths of what any does.
    pub fn chosen(&self) -> Option<&Warmup> {
        let most = self.known().map(|of| of.saved_most_bytes).reduce(f64::max)?;
        self.known().find(|of| of.saved_most_bytes >= most - 0.1 * most.abs())
    }
}

/// What a parent that serves as many requests as the workers of `of` would save those of `longest`.
fn bounds(of: &Seen, longest: &Seen, measured: &[Warmup]) -> Warmup {
    // What one worker writes and another does not depends on their requests: the parent is as another.
    let common = longest.common_bytes.unwrap_or(f64::INFINITY);
    let copied = of.copied_bytes.min(longest.copied_bytes).min(common);
    let made = of.new_bytes.unwrap_or(0.0).min(longest.new_bytes.unwrap_or(0.0));
    let warmed = of.requests.served;
    let (mut least, mut most) = (0.0_f64, copied + made);
    // A longer warm-up writes what a shorter one does, and more.
    for known in measured {
        match known.requests.warmed < warmed {
            true => least = least.max(known.saved_least_bytes),
            false => most = most.min(known.saved_most_bytes.max(0.0)),
        }
    }
    Warmup {
        requests: Requests { warmed, served: longest.requests.served },
        saved_least_bytes: least.min(most),
        saved_most_bytes: most,
        own_bytes: longest.own_bytes(),
        is_measured: false,
    }
}

/// Whether runs, in order, can be set beside each other.
fn check(runs: &[Seen]) -> Result<()> {
    let [first, rest @ ..] = runs else { bail!("no run was named") };
    if rest.is_empty() {
        bail!(
            "one run is no plan: name two or more of the same program, made after different numbers of \
             requests, as RUN:1 RUN:10 RUN:100"
        );
    }
    for of in rest {
        if of.program != first.program {
            bail!("these are runs of different programs: {} and {}", first.program, of.program);
        }
        if of.verb != first.verb {
            bail!(
                "these are runs of `{}` and `{}`, which count different things: use only one kind",
                first.verb,
                of.verb
            );
        }
    }
    for pair in runs.windows(2) {
        let Requests { warmed, served } = pair[0].requests;
        if pair[0].requests == pair[1].requests {
            match warmed {
                0 => bail!("two runs have {served} requests: one of each number is enough"),
                _ => {
                    bail!("two runs have {warmed}+{served} requests: one of each number is enough")
                }
            }
        }
        let is_less = pair[1].own_bytes() < 0.9 * pair[0].own_bytes();
        if is_less && pair[1].requests.warmed == warmed {
            bail!(
                "after {} requests workers have less of their own than after {served}: these runs differ by more \
                 than their requests",
                pair[1].requests.served
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
