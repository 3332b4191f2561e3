// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel on which a fault costs 5 µs and a page copied ahead 2 µs, and the samples of guests.

use cowlab_store::{Accelerator, Environment, KernelBuild, Params, Run, RunInfo, Sample};

/// A page written that faults.
pub const FAULT_NS: f64 = 5000.0;
/// A page copied ahead.
pub const AHEAD_NS: f64 = 2000.0;
/// The same into a folio.
pub const AHEAD_IN_FOLIO_NS: f64 = 1400.0;

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
    for (pattern, mib) in [("sequential", 16), ("sequential", 64), ("random", 16), ("random", 64)] {
        for threads in [0, 1] {
            for depth in [0, 1, 16, 512] {
                bulk(&mut run, pattern, mib, threads, depth, 0);
            }
            bulk(&mut run, pattern, mib, threads, 512, 4);
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

fn policy(depth: u32, order: u32) -> String {
    match (depth, order) {
        (0, _) => "off".into(),
        (1, 0) => "next".into(),
        (pages, 0) => format!("next:{pages}"),
        (pages, order) => format!("next:{pages}:{order}"),
    }
}

fn params(pairs: &[(&str, &str)]) -> Params {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

fn workload(pattern: &str, mib: u64, threads: u32, policy: &str) -> Params {
    params(&[
        ("pattern", pattern),
        ("size_bytes", &(mib << 20).to_string()),
        ("threads", &threads.to_string()),
        ("writer", "child"),
        ("children", "1"),
        ("page_size_bytes", "4096"),
        ("policy", policy),
        ("variant", "patched"),
    ])
}

struct Add<'a> {
    run: &'a mut Run,
    environment: u32,
    bench: &'static str,
    params: Params,
}

impl Add<'_> {
    /// A count: the same in every round.
    fn count(&mut self, metric: &str, value: f64) {
        self.values(metric, value, |_| 1.0);
    }

    /// A time.
    fn time(&mut self, metric: &str, value: f64) {
        self.values(metric, value, |factor| factor);
    }

    fn values(&mut self, metric: &str, value: f64, scatter: fn(f64) -> f64) {
        for (rep, factor) in ROUNDS {
            self.run.samples.push(Sample {
                environment: self.environment,
                rep,
                start_unix_ns: rep.into(),
                ..Sample::new(self.bench, self.params.clone(), metric, value * scatter(factor))
            });
        }
    }

    fn quantile(&mut self, metric: &str, quantile: &str, value: f64) {
        self.params.insert("quantile".into(), quantile.into());
        self.time(metric, value);
        self.params.remove("quantile");
    }
}

fn bulk(run: &mut Run, pattern: &str, mib: u64, threads: u32, depth: u32, order: u32) {
    let pages = (mib * 256) as f64;
    let share = match (pattern, depth) {
        (_, 0) => 1.0,
        ("random", 1) => 1.0 - (-1f64).exp(),
        ("random", depth) => 3.0 / f64::from(depth + 3),
        (_, depth) => 1.0 / f64::from(depth + 1),
    };
    let faults = (pages * share).round();
    let ahead = pages - faults;
    let flush = if threads > 0 { 10_000.0 } else { 0.0 };
    let scattered = if pattern == "random" { 1.1 } else { 1.0 };
    let ahead_ns = if order == 0 { AHEAD_NS } else { AHEAD_IN_FOLIO_NS };
    let params = workload(pattern, mib, threads, &policy(depth, order));
    let mut add = Add { run, environment: 0, bench: "cow-faults", params };
    add.count("pages_written", pages);
    add.time("elapsed_ns", (faults * (FAULT_NS + flush) + ahead * ahead_ns) * scattered);
    for (metric, value) in [
        ("cow_faults", faults),
        ("flushes", faults),
        ("ptl_holds", faults * 2.0),
        ("allocations", faults),
        ("precopy_pages", ahead),
        ("precopy_success", ahead),
        ("precopy_attempts", if depth == 0 { 0.0 } else { ahead / (1.0 - share) }),
        ("precopy_written", ahead),
        ("precopy_wasted", 0.0),
    ] {
        add.count(metric, value);
    }
    for (quantile, ns) in [("mean", 1000.0), ("p50", 900.0), ("p99", 1500.0), ("max", 20_000.0)] {
        add.quantile("copy_ns", quantile, ns);
    }
}

fn single(run: &mut Run, depth: u32) {
    let params = workload("single", 16, 0, &policy(depth, 0));
    let mut add = Add { run, environment: 0, bench: "cow-faults", params };
    add.count("pages_written", 1.0);
    add.count("cow_faults", 1.0);
    for metric in ["precopy_pages", "precopy_attempts", "precopy_success", "precopy_wasted"] {
        add.count(metric, depth.into());
    }
    add.count("precopy_written", 0.0);
    let ns = FAULT_NS + AHEAD_NS * f64::from(depth);
    for quantile in ["min", "p50", "max"] {
        add.quantile("fault_ns", quantile, ns);
    }
}

fn counted(run: &mut Run, environment: u32, variant: &str, factor: f64) {
    let mut faults = workload("sequential", 16, 0, "off");
    faults.insert("variant".into(), variant.into());
    let mut add = Add { run: &mut *run, environment, bench: "cow-faults", params: faults };
    add.count("pages_written", 4096.0);
    add.count("elapsed_instructions", 4200.0 * 4096.0 * factor);
    let forks =
        params(&[("heap_bytes", "10000000"), ("write_fraction", "0"), ("variant", variant)]);
    let mut add = Add { run: &mut *run, environment, bench: "fork-sweep", params: forks };
    add.count("child_start_instructions", 500_000.0 * factor);
    let command = params(&[("command", "sh build.sh"), ("policy", "off"), ("variant", variant)]);
    let mut add = Add { run, environment, bench: "command", params: command };
    add.count("cpu_instructions", 9e9 * factor);
}
