// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine that obeys document 000's equation exactly, and the samples of a study on it.

use cowlab_analysis::names::{COW_FAULTS, FORK_SWEEP, FORK_TABLE};
use cowlab_analysis::study::sweep::{FRACTIONS, PAPER_HEAPS_BYTES};
use cowlab_analysis::{check, machine};
use cowlab_model::profile::MachineProfile;
use cowlab_schema::fork_table::METHODS;
use cowlab_schema::{Method, QUANTILES, Quantile};
use cowlab_store::{
    Accelerator, Environment, Params, Run, RunInfo, Sample, histogram_of, serialise,
};

pub(super) const PAGE: u64 = 4096;
pub(super) const HUGE: u64 = 2 << 20;
/// A new process: fork, and its end.
pub(super) const FORK_NS: f64 = 30_000.0;
pub(super) const END_NS: f64 = 50_000.0;
/// A page-table entry: copied, and torn down.
pub(super) const ENTRY_NS: f64 = 40.0;
pub(super) const TEARDOWN_NS: f64 = 60.0;
/// A page written: copied, and freed.
pub(super) const WRITE_NS: f64 = 2_000.0;
pub(super) const FREE_NS: f64 = 100.0;
/// A write while another thread runs.
pub(super) const THREADS_NS: f64 = 10_000.0;

/// Rounds, each a little faster or slower than the middle one.
const ROUNDS: [(u32, f64); 3] = [(0, 0.999), (1, 1.0), (2, 1.001)];

pub(super) fn environment() -> Environment {
    Environment {
        host: "example".into(),
        architecture: "x86_64".into(),
        cpu_model: None,
        cpus: 2,
        hypervisor: None,
        kernel: "6.12".into(),
        page_size_bytes: PAGE,
        memory_bytes: Some(8 << 30),
        thp_size_bytes: Some(HUGE),
        thp: Some("madvise".into()),
        mthp: Default::default(),
        mitigations: Default::default(),
        overcommit_memory: Some(0),
        clocksource: Some("tsc".into()),
        load_average: None,
        accelerator: Accelerator::Native,
        build: None,
    }
}

/// A run without samples.
pub(super) fn empty() -> Run {
    let info = RunInfo {
        command: vec!["/usr/bin/cowlab".into(), "study".into()],
        ..RunInfo::begin("study", 1, environment())
    };
    Run { info, samples: Vec::new() }
}

/// A run with every bench.
pub(super) fn full() -> Run {
    let mut run = empty();
    calibration(&mut run);
    primitives(&mut run);
    fork_sweep(&mut run);
    fork_table(&mut run);
    cow_faults(&mut run);
    predict_check(&mut run);
    for children in ["1", "8"] {
        let of = params(&[("children", children), ("page_size_bytes", "4096")]);
        add(&mut run, "cow-check", &of, "checked_pages", 1024.0);
    }
    run
}

/// What a run's calibration comes to.
pub(super) fn profile(run: &Run) -> MachineProfile {
    machine::profile_of(&run.samples, PAGE, Some(HUGE)).unwrap()
}

fn params(pairs: &[(&str, &str)]) -> Params {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn add(run: &mut Run, bench: &str, params: &Params, metric: &str, value: f64) {
    for (rep, factor) in ROUNDS {
        run.samples.push(Sample {
            rep,
            start_unix_ns: rep.into(),
            ..Sample::new(bench, params.clone(), metric, value * factor)
        });
    }
}

fn write_ns(writer: &str, threads: u32) -> f64 {
    if writer == "parent" && threads > 0 { THREADS_NS } else { WRITE_NS }
}

/// A cycle of fork, writes and end.
fn cycle_ns(pages: f64, written: f64, each: f64) -> f64 {
    FORK_NS + END_NS + (ENTRY_NS + TEARDOWN_NS) * pages + (each + FREE_NS) * written
}

pub(super) fn calibration(run: &mut Run) {
    for writer in ["child", "parent"] {
        for threads in [0, 1] {
            for heap in [0u64, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30] {
                for fraction in ["0", "1"] {
                    let pages = (heap / PAGE) as f64;
                    let written = if fraction == "1" { pages } else { 0.0 };
                    let of = params(&[
                        ("heap_bytes", &heap.to_string()),
                        ("write_fraction", fraction),
                        ("writer", writer),
                        ("threads", &threads.to_string()),
                        ("page_size_bytes", "4096"),
                    ]);
                    let writes = write_ns(writer, threads) * written;
                    let rest = END_NS + TEARDOWN_NS * pages + FREE_NS * written;
                    add(run, machine::CYCLES, &of, "fork_ns", FORK_NS + ENTRY_NS * pages);
                    add(run, machine::CYCLES, &of, "write_ns", writes);
                    add(run, machine::CYCLES, &of, "rest_ns", rest);
                }
            }
        }
    }
}

fn primitives(run: &mut Run) {
    let of = params(&[("page_size_bytes", "4096"), ("threads", "0")]);
    for (metric, value) in [
        ("new_process_ns", FORK_NS + END_NS),
        ("pte_ns_per_page", ENTRY_NS),
        ("pte_teardown_ns_per_page", TEARDOWN_NS),
        ("first_fork_ns_per_page", ENTRY_NS),
        ("cow_fault_ns", WRITE_NS),
        ("copy_free_ns_per_page", FREE_NS),
        ("trap_ns", 500.0),
        ("copy_ns_per_page", 400.0),
        ("fault_rest_ns", 1_100.0),
        ("cow_fault_threads_ns", THREADS_NS),
        ("remote_flush_ns", THREADS_NS - WRITE_NS),
        // A page of 4096 bytes in 400 ns.
        ("memcpy_bytes_per_s", 10.24e9),
        ("first_touch_ns_per_page", 250.0),
        ("cold_touch_ns_per_page", 2_500.0),
        ("thp_fork_among_work_ns_per_huge_page", 500.0),
        ("thp_split_ns", 8_000.0),
        ("thp_split_threads_ns", 90_000.0),
    ] {
        add(run, machine::BENCH, &of, metric, value);
    }
}

fn fork_case(run: &mut Run, heap: u64, fraction: f64, forks: u64, departs: &[(&str, &str)]) {
    let mut of = params(&[
        ("forks", &forks.to_string()),
        ("heap_bytes", &heap.to_string()),
        ("write_fraction", &fraction.to_string()),
        ("method", "fork"),
        ("writer", "child"),
        ("reap", "each"),
        ("page_size_bytes", "4096"),
        ("threads", "0"),
        ("populated", "true"),
        ("pinned", "true"),
    ]);
    of.extend(params(departs));
    let mapped = of["populated"] == "true";
    let pages = if mapped { heap as f64 / PAGE as f64 } else { 0.0 };
    let written = heap as f64 / PAGE as f64 * fraction;
    let cycle = cycle_ns(pages, written, WRITE_NS);
    let real = cycle * forks as f64;
    for (metric, value) in [
        ("real_ns", real),
        ("user_ns", real * 0.3),
        // The tick saw a single fork never.
        ("sys_ns", if forks == 1 { 0.0 } else { real * 0.7 }),
        ("outside_real_ns", real + 1e6),
        ("outside_sys_ns", real * 0.7),
        ("minor_faults", written * forks as f64),
        ("fork_ns", FORK_NS + ENTRY_NS * pages),
        ("write_ns", WRITE_NS * written),
        ("cycle_ns", cycle),
    ] {
        add(run, FORK_SWEEP, &of, metric, value);
    }
}

fn fork_sweep(run: &mut Run) {
    for fraction in FRACTIONS {
        fork_case(run, 0, fraction, 1000, &[]);
        for heap in PAPER_HEAPS_BYTES.map(|bytes| bytes * 1000) {
            fork_case(run, heap, fraction, 20, &[]);
            fork_case(run, heap, fraction, 1, &[]);
        }
    }
    fork_case(run, 31_622_000, 0.0, 40, &[("populated", "false")]);
    fork_case(run, 31_622_000, 0.5, 40, &[("reap", "4"), ("pinned", "false")]);
    fork_case(run, 268_435_456, 0.0, 20, &[("page_size_bytes", "2097152")]);
}

fn fork_table(run: &mut Run) {
    for touched in ["false", "true"] {
        for method in METHODS.map(Method::name) {
            for size in cowlab_probes_sizes() {
                let copies = method.starts_with("fork") && touched == "true";
                let pages = if copies { size as f64 / PAGE as f64 } else { 0.0 };
                let elapsed = cycle_ns(pages, 0.0, 0.0) * 1000.0;
                let of = params(&[
                    ("method", method),
                    ("size_bytes", &size.to_string()),
                    ("iterations", "1000"),
                    ("touched", touched),
                    ("pinned", "true"),
                ]);
                add(run, FORK_TABLE, &of, "elapsed_ns", elapsed);
                add(run, FORK_TABLE, &of, "cpu_ns", elapsed * 0.4);
                add(run, FORK_TABLE, &of, "cpu_with_children_ns", elapsed * 0.9);
                add(run, FORK_TABLE, &of, "rate_per_s", 1000.0 / elapsed * 1e9);
            }
        }
    }
}

fn cowlab_probes_sizes() -> [u64; 3] {
    crate::study::table::SIZES.map(|(bytes, _)| bytes)
}

fn cow_faults(run: &mut Run) {
    for (pattern, size, writer, threads) in [
        ("single", 16u64 << 20, "child", 0),
        ("sequential", 64 << 20, "child", 0),
        ("random", 64 << 20, "child", 0),
        ("random", 16 << 20, "parent", 1),
    ] {
        let pages = if pattern == "single" { 1.0 } else { (size / PAGE) as f64 };
        let mut of = params(&[
            ("pattern", pattern),
            ("size_bytes", &size.to_string()),
            ("writer", writer),
            ("children", "1"),
            ("threads", &threads.to_string()),
            ("page_size_bytes", "4096"),
            ("pinned", "true"),
        ]);
        let each = write_ns(writer, threads) * if pattern == "random" { 1.1 } else { 1.0 };
        add(run, COW_FAULTS, &of, "elapsed_ns", each * pages);
        add(run, COW_FAULTS, &of, "pages_written", pages);
        add(run, COW_FAULTS, &of, "minor_faults", pages);
        for name in QUANTILES.map(Quantile::name) {
            of.insert("quantile".into(), name.into());
            add(run, COW_FAULTS, &of, "fault_ns", each);
            let stored = serialise(&histogram_of([each as u64, each as u64 * 20]));
            for sample in run.samples.iter_mut().rev().take(ROUNDS.len()) {
                sample.histogram = (name == "p50").then(|| stored.clone());
            }
        }
    }
}

fn predict_check(run: &mut Run) {
    let kinds = [("child", 0), ("parent", 0), ("child", 1), ("parent", 1)];
    for (index, (writer, threads)) in (0..40u64).zip(kinds.into_iter().cycle()) {
        // 4 MiB to some 700 MiB, and fractions all over 0..1.
        let pages = (1024.0 * 1.14f64.powi(index as i32)).floor();
        let heap = pages as u64 * PAGE;
        let fraction = (index * 379 % 1000) as f64 / 1000.0;
        let written = (heap as f64 * fraction / PAGE as f64).ceil();
        let of = params(&[
            ("point", &index.to_string()),
            ("heap_bytes", &heap.to_string()),
            ("write_fraction", &fraction.to_string()),
            ("writer", writer),
            ("threads", &threads.to_string()),
        ]);
        let each = write_ns(writer, threads);
        add(run, check::BENCH, &of, "elapsed_ns", cycle_ns(pages, written, each));
    }
}
