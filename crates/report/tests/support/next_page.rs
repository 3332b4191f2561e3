// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel on which a fault costs 5 µs and a page copied ahead 2 µs, and the samples of guests.

use cowlab_schema::cow_faults::{self, CowFaults};
use cowlab_schema::fork_sweep::{self, DoFork};
use cowlab_schema::{Cell as _, Metric, Pattern, Policy, QUANTILE, Quantile, VARIANT, command};
use cowlab_store::{Accelerator, Environment, KernelBuild, Params, Run, RunInfo, Sample};

pub const FAULT_NS: f64 = 5000.0;
pub const AHEAD_NS: f64 = 2000.0;

/// Rounds, each a little faster or slower than the middle one.
const ROUNDS: [(u32, f64); 3] = [(0, 0.99), (1, 1.0), (2, 1.01)];

fn environment(variant: &str, accelerator: Accelerator) -> Environment {
    Environment {
        host: "guest".into(),
        kernel: format!("6.12.117-cowlab-{variant}"),
        page_size_bytes: 4096,
        cpus: 2,
        accelerator,
        build: Some(KernelBuild { variant: variant.into(), hash: None, source: None }),
        ..Environment::default()
    }
}

/// Two guests under TCG and two whose clock counts.
pub fn run() -> Run {
    let mut info = RunInfo::begin("kernel-bench-pre-copy", 1, Environment::default());
    info.environments = vec![
        environment("patched", Accelerator::Tcg),
        environment("plain", Accelerator::Icount),
        environment("patched", Accelerator::Icount),
    ];
    let mut run = Run { info, samples: Vec::new() };
    for (pattern, mib) in [
        (Pattern::Sequential, 16),
        (Pattern::Sequential, 64),
        (Pattern::Random, 16),
        (Pattern::Random, 64),
    ] {
        for threads in [0, 1] {
            for depth in [0, 1, 16, 512] {
                bulk(&mut run, pattern, mib, threads, depth);
            }
        }
    }
    for depth in [0, 1, 16, 512] {
        single(&mut run, depth);
    }
    for (index, variant, factor) in [(1, "plain", 1.0), (2, "patched", 1.004)] {
        counted(&mut run, index, variant, factor);
    }
    run
}

fn policy(depth: u32) -> Policy {
    match depth {
        0 => Policy::Off,
        pages => Policy::Next(pages),
    }
}

fn workload(pattern: Pattern, mib: u64, threads: u32, policy: Policy) -> Params {
    let cell =
        CowFaults { pattern, size_bytes: mib << 20, threads, policy, ..CowFaults::default() };
    with_variant(cell.params(), "patched")
}

fn with_variant(mut params: Params, variant: &str) -> Params {
    VARIANT.put(&mut params, variant);
    params
}

struct Add<'a> {
    run: &'a mut Run,
    environment: u32,
    params: Params,
}

impl Add<'_> {
    /// A count: the same in every round.
    fn count(&mut self, metric: Metric, value: f64) {
        self.values(metric, value, |_| 1.0);
    }

    fn time(&mut self, metric: Metric, value: f64) {
        self.values(metric, value, |factor| factor);
    }

    fn values(&mut self, metric: Metric, value: f64, scatter: fn(f64) -> f64) {
        for (rep, factor) in ROUNDS {
            self.run.samples.push(Sample {
                environment: self.environment,
                rep,
                start_unix_ns: rep.into(),
                ..Sample::of(metric, self.params.clone(), value * scatter(factor))
            });
        }
    }

    fn quantile(&mut self, metric: Metric, quantile: Quantile, value: f64) {
        QUANTILE.put(&mut self.params, quantile);
        self.time(metric, value);
        self.params.remove(QUANTILE.name());
    }
}

fn bulk(run: &mut Run, pattern: Pattern, mib: u64, threads: u32, depth: u32) {
    let pages = (mib * 256) as f64;
    let share = match (pattern, depth) {
        (_, 0) => 1.0,
        (Pattern::Random, 1) => 1.0 - (-1f64).exp(),
        (Pattern::Random, depth) => 3.0 / f64::from(depth + 3),
        (_, depth) => 1.0 / f64::from(depth + 1),
    };
    let faults = (pages * share).round();
    let ahead = pages - faults;
    let flush = if threads > 0 { 10_000.0 } else { 0.0 };
    let scattered = if pattern == Pattern::Random { 1.1 } else { 1.0 };
    let params = workload(pattern, mib, threads, policy(depth));
    let mut add = Add { run, environment: 0, params };
    add.count(cow_faults::PAGES_WRITTEN, pages);
    add.time(cow_faults::ELAPSED_NS, (faults * (FAULT_NS + flush) + ahead * AHEAD_NS) * scattered);
    for (metric, value) in [
        (cow_faults::COW_FAULTS, faults),
        (cow_faults::FLUSHES, faults),
        (cow_faults::PTL_HOLDS, faults * 2.0),
        (cow_faults::ALLOCATIONS, faults),
        (cow_faults::PRECOPY_PAGES, ahead),
        (cow_faults::PRECOPY_SUCCESS, ahead),
        (cow_faults::PRECOPY_ATTEMPTS, if depth == 0 { 0.0 } else { ahead / (1.0 - share) }),
        (cow_faults::PRECOPY_WRITTEN, ahead),
        (cow_faults::PRECOPY_WASTED, 0.0),
    ] {
        add.count(metric, value);
    }
    for (quantile, ns) in [
        (Quantile::Mean, 1000.0),
        (Quantile::P50, 900.0),
        (Quantile::P99, 1500.0),
        (Quantile::Max, 20_000.0),
    ] {
        add.quantile(cow_faults::COPY_NS, quantile, ns);
    }
}

fn single(run: &mut Run, depth: u32) {
    let params = workload(Pattern::Single, 16, 0, policy(depth));
    let mut add = Add { run, environment: 0, params };
    add.count(cow_faults::PAGES_WRITTEN, 1.0);
    add.count(cow_faults::COW_FAULTS, 1.0);
    for metric in [
        cow_faults::PRECOPY_PAGES,
        cow_faults::PRECOPY_ATTEMPTS,
        cow_faults::PRECOPY_SUCCESS,
        cow_faults::PRECOPY_WASTED,
    ] {
        add.count(metric, depth.into());
    }
    add.count(cow_faults::PRECOPY_WRITTEN, 0.0);
    let ns = FAULT_NS + AHEAD_NS * f64::from(depth);
    for quantile in [Quantile::Min, Quantile::P50, Quantile::Max] {
        add.quantile(cow_faults::FAULT_NS, quantile, ns);
    }
}

fn counted(run: &mut Run, environment: u32, variant: &str, factor: f64) {
    let faults = workload(Pattern::Sequential, 16, 0, Policy::Off);
    let mut command = Params::new();
    command::COMMAND.put(&mut command, "sh build.sh");
    command::POLICY.put(&mut command, Policy::Off);
    let forks = DoFork::new(100, 10_000_000, 0.0, 4096).params();
    for (params, metric, value) in [
        (faults.clone(), cow_faults::PAGES_WRITTEN, 4096.0),
        (faults, cow_faults::ELAPSED_INSTRUCTIONS, 4200.0 * 4096.0 * factor),
        (forks, fork_sweep::CHILD_START_INSTRUCTIONS, 500_000.0 * factor),
        (command, command::CPU_INSTRUCTIONS, 9e9 * factor),
    ] {
        let params = with_variant(params, variant);
        Add { run: &mut *run, environment, params }.count(metric, value);
    }
}
