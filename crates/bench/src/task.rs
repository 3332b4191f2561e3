// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements in rounds: every round measures everything once, in an order of its own, so that
//! what is compared is interleaved and the machine's drift falls on all of it.

use std::time::{Duration, Instant};

use crate::probes::Runner;
use anyhow::{Context, Result};
use cowlab_machine::process::{Target, children};
use cowlab_machine::{Root, Smaps};
use cowlab_schema::{Metric, Params, QUANTILE, QUANTILES, Quantile};
use cowlab_store::{Histogram, Sample, serialise, value_at};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::precision::{Known, least_known};

/// Measures once, and records what that gives.
type Measure = Box<dyn Fn(&Runner, &mut Round) -> Result<()>>;

/// Something to measure once a round.
pub struct Task {
    pub name: String,
    /// How many rounds measure it; later ones leave it out.
    pub rounds: u32,
    run: Measure,
}

impl Task {
    /// A task that is measured in every round.
    pub fn new(
        name: impl Into<String>,
        run: impl Fn(&Runner, &mut Round) -> Result<()> + 'static,
    ) -> Task {
        Task { name: name.into(), rounds: u32::MAX, run: Box::new(run) }
    }

    /// Measure once.
    pub fn measure(&self, runner: &Runner, round: &mut Round) -> Result<()> {
        (self.run)(runner, round).with_context(|| self.name.clone())
    }

    /// The same, in the first `rounds` rounds only.
    pub fn at_most(mut self, rounds: u32) -> Task {
        self.rounds = rounds;
        self
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// Made however long they take, and of everything. Later ones leave out what is known precisely, and
    /// the half of the rest that has taken the most time: a cheap cell is measured several times for once
    /// of a dear one.
    pub least: u32,
    /// Never exceeded.
    pub most: u32,
    /// No round is begun that would end later, judged by those before it.
    pub within: Duration,
}

impl Rounds {
    pub fn exactly(count: u32) -> Rounds {
        Rounds { least: count, most: count, within: Duration::MAX }
    }
}

/// Run `tasks` in rounds. `progress` hears of each task before it runs: its name and the share of
/// the work that is done. `whole` gets the samples of each round that was measured to its end: what
/// is compared was measured equally often, up to the least number of rounds.
pub fn run_rounds(
    runner: &Runner,
    tasks: &[Task],
    rounds: Rounds,
    seed: u64,
    mut progress: impl FnMut(&str, f64),
    mut whole: impl FnMut(Vec<Sample>) -> Result<()>,
) -> Result<()> {
    let began = Instant::now();
    let mut random = StdRng::seed_from_u64(seed);
    let mut known = vec![Known::default(); tasks.len()];
    for number in 0..rounds.most {
        let mut order: Vec<usize> =
            (0..tasks.len()).filter(|task| number < tasks[*task].rounds).collect();
        if number >= rounds.least {
            order = least_known(order, &known);
        }
        if order.is_empty() {
            break;
        }
        let expected: Duration = order.iter().map(|task| known[*task].last).sum();
        if number >= rounds.least && began.elapsed() + expected > rounds.within {
            break;
        }
        order.shuffle(&mut random);
        let mut round = Round::new(number);
        for (index, at) in order.iter().enumerate() {
            let task = &tasks[*at];
            let by_rounds =
                (f64::from(number) + index as f64 / order.len() as f64) / f64::from(rounds.most);
            let by_time = began.elapsed().as_secs_f64() / rounds.within.as_secs_f64();
            progress(&task.name, by_rounds.max(by_time).min(1.0));
            let task_began = Instant::now();
            let before = round.samples.len();
            task.measure(runner, &mut round)?;
            known[*at].add(&round.samples[before..], task_began.elapsed());
        }
        whole(round.samples)?;
    }
    Ok(())
}

#[derive(Debug)]
pub struct Round {
    pub number: u32,
    samples: Vec<Sample>,
}

impl Round {
    /// The round of that number, without samples.
    pub fn new(number: u32) -> Round {
        Round { number, samples: Vec::new() }
    }

    /// To add figures of `bench` with `params`.
    pub fn record(
        &mut self,
        bench: &'static str,
        params: Params,
        start_unix_ns: i64,
    ) -> Recorder<'_> {
        Recorder { bench, params, start_unix_ns, round: self }
    }

    pub fn append(&mut self, other: Round) {
        self.samples.extend(other.samples);
    }

    pub fn finish(self) -> Vec<Sample> {
        self.samples
    }
}

/// A figure, of whatever type it is measured as.
pub trait Number {
    fn figure(self) -> f64;
}

macro_rules! numbers {
    ($($type:ty),+) => {$(impl Number for $type { fn figure(self) -> f64 { self as f64 } })+};
}
numbers!(f64, u64, u32, usize);

/// Makes the samples of one measurement.
pub struct Recorder<'a> {
    bench: &'static str,
    params: Params,
    start_unix_ns: i64,
    round: &'a mut Round,
}

impl Recorder<'_> {
    pub fn add(&mut self, metric: Metric, value: impl Number) -> &mut Sample {
        self.round.samples.push(Sample {
            bench: self.bench.to_owned(),
            rep: self.round.number,
            start_unix_ns: self.start_unix_ns,
            ..Sample::of(metric, self.params.clone(), value.figure())
        });
        self.round.samples.last_mut().expect("one was pushed")
    }

    /// Add a figure if it is known.
    pub fn known(&mut self, metric: Metric, value: Option<impl Number>) {
        value.map(|value| self.add(metric, value));
    }

    pub fn add_known(&mut self, figures: impl IntoIterator<Item = (Metric, Option<f64>)>) {
        figures.into_iter().for_each(|(metric, value)| self.known(metric, value));
    }

    pub fn add_quantile(
        &mut self,
        metric: Metric,
        quantile: Quantile,
        value: impl Number,
    ) -> &mut Sample {
        let sample = self.add(metric, value);
        QUANTILE.put(&mut sample.params, quantile);
        sample
    }

    /// Add a distribution: its quantiles, and itself with the median.
    pub fn add_distribution(
        &mut self,
        metric: Metric,
        histogram: &Histogram<u64>,
    ) -> &mut [Sample] {
        let before = self.round.samples.len();
        for quantile in QUANTILES {
            let sample = self.add_quantile(metric, quantile, value_at(histogram, quantile));
            if quantile == Quantile::P50 {
                sample.histogram = Some(serialise(histogram));
            }
        }
        &mut self.round.samples[before..]
    }
}

/// The CPU time of a process's threads so far; `None` where the kernel does not tell it (schedstat).
pub(crate) fn cpu_ns(pid: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of = |task: std::fs::DirEntry| -> Option<u64> {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    let all: Vec<u64> = tasks.flatten().filter_map(of).collect();
    (!all.is_empty()).then(|| all.iter().sum())
}

/// The memory of a process and its children, `None` of one that has none; or `None` where the
/// children cannot be told.
pub(crate) fn family(pid: u32) -> Result<Option<Vec<Option<Smaps>>>> {
    let target = Target::open(pid as i32);
    let Ok(pids) = target.and_then(|target| children::pids(&target)) else { return Ok(None) };
    let all = pids.into_iter().map(|child| child as u32).chain([pid]);
    let rollups = all.map(|pid| Smaps::read(&Root::default(), pid)).collect::<Result<_, _>>()?;
    Ok(Some(rollups))
}

/// CPU time that a hypervisor gave to others while a CPU of this machine had work to do, so far, of all
/// CPUs (proc_stat(5), steal); `None` where the kernel does not tell it.
pub(crate) fn stolen_ns() -> Option<u64> {
    stolen_ticks(&std::fs::read_to_string("/proc/stat").ok()?)
        .map(|ticks| ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

fn stolen_ticks(stat: &str) -> Option<u64> {
    stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().nth(7)?.parse().ok()
}

/// The median of whole numbers, as a figure; `None` without any.
pub(crate) fn median_of(values: &[u64]) -> Option<f64> {
    let values: Vec<f64> = values.iter().map(|v| *v as f64).collect();
    cowlab_model::stats::median(&values)
}

#[cfg(test)]
mod tests {

    use cowlab_schema::cow_faults::ELAPSED_NS;

    use super::*;

    #[test]
    fn what_is_known_precisely_is_measured_no_more() {
        let runner = Runner::new(Default::default()).unwrap();
        let task = |name: &'static str, scatter: f64| {
            Task::new(name, move |_, round| {
                let value = 1000.0 * (1.0 + scatter * f64::from(round.number % 3));
                round.record(name, Params::new(), 0).add(ELAPSED_NS, value);
                Ok(())
            })
        };
        let tasks = [task("steady", 0.01), task("scattered", 0.5), task("once", 0.5).at_most(1)];
        let mut counts = std::collections::BTreeMap::new();
        let rounds = Rounds { least: 6, most: 9, within: Duration::MAX };
        let count = |samples: Vec<Sample>| {
            samples.into_iter().for_each(|of| *counts.entry(of.bench).or_insert(0) += 1);
            Ok(())
        };
        run_rounds(&runner, &tasks, rounds, 1, |_, _| {}, count).unwrap();
        assert_eq!(
            counts.into_iter().collect::<Vec<_>>(),
            [("once".to_owned(), 1), ("scattered".to_owned(), 9), ("steady".to_owned(), 6)]
        );
    }

    #[test]
    fn stolen_time_is_the_eighth_of_all_cpus() {
        let stat = "cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 0 0 0 0 0 0 0 44 0 0\n";
        assert_eq!(stolen_ticks(stat), Some(88));
        assert_eq!(stolen_ticks("cpu  1 2 3 4\n"), None);
    }
}
