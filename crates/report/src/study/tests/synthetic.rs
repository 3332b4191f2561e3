// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine that obeys Smith & Maguire's equation exactly, and the samples of a study on it.

use cowlab_analysis::machine;
use cowlab_analysis::study::sweep::{FRACTIONS, PAPER_HEAPS_BYTES};
use cowlab_model::profile::MachineProfile;
use cowlab_schema::cow_faults::{self, CowFaults};
use cowlab_schema::fork_sweep::{self, DoFork};
use cowlab_schema::fork_table::{self, ForkTable, METHODS, SIZES_BYTES};
use cowlab_schema::{
    Cell as _, Method, Metric, Pattern, QUANTILES, Quantile, Reap, Writer, calibrate,
    calibrate_cycle, cow_check, predict_check,
};
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

pub(super) fn full() -> Run {
    let mut run = empty();
    calibration(&mut run);
    primitives(&mut run);
    fork_sweep(&mut run);
    fork_table(&mut run);
    cow_faults(&mut run);
    predict_check(&mut run);
    for children in [1, 8] {
        let mut of = Params::new();
        cow_check::CHILDREN.put(&mut of, children);
        cow_check::PAGE_SIZE_BYTES.put(&mut of, PAGE);
        add(&mut run, &of, [(cow_check::CHECKED_PAGES, 1024.0)]);
    }
    run
}

/// What a run's calibration comes to.
pub(super) fn profile(run: &Run) -> MachineProfile {
    machine::profile_of(&run.samples, PAGE, Some(HUGE)).unwrap()
}

fn add<const N: usize>(run: &mut Run, params: &Params, figures: [(Metric, f64); N]) {
    for (metric, value) in figures {
        run.samples.extend(ROUNDS.map(|(rep, factor)| Sample {
            rep,
            start_unix_ns: rep.into(),
            ..Sample::of(metric, params.clone(), value * factor)
        }));
    }
}

fn write_ns(writer: Writer, threads: u32) -> f64 {
    if writer == Writer::Parent && threads > 0 { THREADS_NS } else { WRITE_NS }
}

/// A cycle of fork, writes and end.
fn cycle_ns(pages: f64, written: f64, each: f64) -> f64 {
    FORK_NS + END_NS + (ENTRY_NS + TEARDOWN_NS) * pages + (each + FREE_NS) * written
}

pub(super) fn calibration(run: &mut Run) {
    for writer in [Writer::Child, Writer::Parent] {
        for threads in [0, 1] {
            for heap in [0u64, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30] {
                for fraction in [0.0, 1.0] {
                    let pages = (heap / PAGE) as f64;
                    let written = pages * fraction;
                    let mut of = Params::new();
                    calibrate_cycle::HEAP_BYTES.put(&mut of, heap);
                    calibrate_cycle::WRITE_FRACTION.put(&mut of, fraction);
                    calibrate_cycle::WRITER.put(&mut of, writer);
                    calibrate_cycle::THREADS.put(&mut of, threads);
                    calibrate_cycle::PAGE_SIZE_BYTES.put(&mut of, PAGE);
                    let rest = END_NS + TEARDOWN_NS * pages + FREE_NS * written;
                    let figures = [
                        (calibrate_cycle::FORK_NS, FORK_NS + ENTRY_NS * pages),
                        (calibrate_cycle::WRITE_NS, write_ns(writer, threads) * written),
                        (calibrate_cycle::REST_NS, rest),
                    ];
                    add(run, &of, figures);
                }
            }
        }
    }
}

fn primitives(run: &mut Run) {
    let mut of = Params::new();
    calibrate::PAGE_SIZE_BYTES.put(&mut of, PAGE);
    calibrate::THREADS.put(&mut of, 0);
    let figures = [
        (calibrate::NEW_PROCESS_NS, FORK_NS + END_NS),
        (calibrate::PTE_NS_PER_PAGE, ENTRY_NS),
        (calibrate::PTE_TEARDOWN_NS_PER_PAGE, TEARDOWN_NS),
        (calibrate::FIRST_FORK_NS_PER_PAGE, ENTRY_NS),
        (calibrate::COW_FAULT_NS, WRITE_NS),
        (calibrate::COPY_FREE_NS_PER_PAGE, FREE_NS),
        (calibrate::TRAP_NS, 500.0),
        (calibrate::COPY_NS_PER_PAGE, 400.0),
        (calibrate::FAULT_REST_NS, 1_100.0),
        (calibrate::COW_FAULT_THREADS_NS, THREADS_NS),
        (calibrate::REMOTE_FLUSH_NS, THREADS_NS - WRITE_NS),
        // A page of 4096 bytes in 400 ns.
        (calibrate::MEMCPY_BYTES_PER_S, 10.24e9),
        (calibrate::FIRST_TOUCH_NS_PER_PAGE, 250.0),
        (calibrate::COLD_TOUCH_NS_PER_PAGE, 2_500.0),
        (calibrate::THP_FORK_AMONG_WORK_NS_PER_HUGE_PAGE, 500.0),
        (calibrate::THP_SPLIT_NS, 8_000.0),
        (calibrate::THP_SPLIT_THREADS_NS, 90_000.0),
    ];
    add(run, &of, figures);
}

fn fork_case(run: &mut Run, cell: &DoFork) {
    let forks = cell.forks as f64;
    let all_pages = cell.heap_bytes as f64 / PAGE as f64;
    let pages = if cell.populated { all_pages } else { 0.0 };
    let written = all_pages * cell.write_fraction;
    let cycle = cycle_ns(pages, written, WRITE_NS);
    let real = cycle * forks;
    let figures = [
        (fork_sweep::REAL_NS, real),
        (fork_sweep::USER_NS, real * 0.3),
        // The tick saw a single fork never.
        (fork_sweep::SYS_NS, if cell.forks == 1 { 0.0 } else { real * 0.7 }),
        (fork_sweep::OUTSIDE_REAL_NS, real + 1e6),
        (fork_sweep::OUTSIDE_SYS_NS, real * 0.7),
        (fork_sweep::MINOR_FAULTS, written * forks),
        (fork_sweep::FORK_NS, FORK_NS + ENTRY_NS * pages),
        (fork_sweep::WRITE_NS, WRITE_NS * written),
        (fork_sweep::CYCLE_NS, cycle),
    ];
    add(run, &cell.params(), figures);
}

fn fork_sweep(run: &mut Run) {
    let of = |forks, heap, fraction| DoFork::new(forks, heap, fraction, PAGE);
    for fraction in FRACTIONS {
        fork_case(run, &of(1000, 0, fraction));
        for heap in PAPER_HEAPS_BYTES.map(|bytes| bytes * 1000) {
            fork_case(run, &of(20, heap, fraction));
            fork_case(run, &of(1, heap, fraction));
        }
    }
    fork_case(run, &DoFork { populated: false, ..of(40, 31_622_000, 0.0) });
    let reap = Reap::AtMost(4);
    fork_case(run, &DoFork { reap, pinned: false, ..of(40, 31_622_000, 0.5) });
    fork_case(run, &DoFork { page_size_bytes: HUGE, ..of(20, 268_435_456, 0.0) });
}

fn fork_table(run: &mut Run) {
    for touched in [false, true] {
        for method in METHODS {
            for size_bytes in SIZES_BYTES {
                let copies = touched && matches!(method, Method::Fork | Method::ForkExec);
                let pages = if copies { size_bytes as f64 / PAGE as f64 } else { 0.0 };
                let elapsed = cycle_ns(pages, 0.0, 0.0) * 1000.0;
                let cell = ForkTable { method, size_bytes, touched, ..ForkTable::default() };
                let figures = [
                    (fork_table::ELAPSED_NS, elapsed),
                    (fork_table::CPU_NS, elapsed * 0.4),
                    (fork_table::CPU_WITH_CHILDREN_NS, elapsed * 0.9),
                    (fork_table::RATE_PER_S, 1000.0 / elapsed * 1e9),
                ];
                add(run, &cell.params(), figures);
            }
        }
    }
}

fn cow_faults(run: &mut Run) {
    for (pattern, size_bytes, writer, threads) in [
        (Pattern::Single, 16 << 20, Writer::Child, 0),
        (Pattern::Sequential, 64 << 20, Writer::Child, 0),
        (Pattern::Random, 64 << 20, Writer::Child, 0),
        (Pattern::Random, 16 << 20, Writer::Parent, 1),
    ] {
        let cell = CowFaults { pattern, size_bytes, writer, threads, ..CowFaults::default() };
        let pages = cell.pages_written(PAGE) as f64;
        let mut of = cell.params();
        // As runs of before there were policies.
        of.remove(cow_faults::POLICY.name());
        let scattered = if pattern == Pattern::Random { 1.1 } else { 1.0 };
        let each = write_ns(writer, threads) * scattered;
        let figures = [
            (cow_faults::ELAPSED_NS, each * pages),
            (cow_faults::PAGES_WRITTEN, pages),
            (cow_faults::MINOR_FAULTS, pages),
        ];
        add(run, &of, figures);
        for quantile in QUANTILES {
            cow_faults::QUANTILE.put(&mut of, quantile);
            add(run, &of, [(cow_faults::FAULT_NS, each)]);
            let stored = serialise(&histogram_of([each as u64, each as u64 * 20]));
            for sample in run.samples.iter_mut().rev().take(ROUNDS.len()) {
                sample.histogram = (quantile == Quantile::P50).then(|| stored.clone());
            }
        }
    }
}

fn predict_check(run: &mut Run) {
    let kinds = [0, 1].map(|threads| [(Writer::Child, threads), (Writer::Parent, threads)]);
    for (point, (writer, threads)) in (0..40u64).zip(kinds.into_iter().flatten().cycle()) {
        // 4 MiB to some 700 MiB, and fractions all over 0..1.
        let pages = (1024.0 * 1.14f64.powi(point as i32)).floor();
        let heap_bytes = pages as u64 * PAGE;
        let write_fraction = (point * 379 % 1000) as f64 / 1000.0;
        let written = (heap_bytes as f64 * write_fraction / PAGE as f64).ceil();
        let cell = DoFork { writer, threads, ..DoFork::new(1, heap_bytes, write_fraction, PAGE) };
        let mut of = cell.params();
        predict_check::POINT.put(&mut of, point);
        let cycle = cycle_ns(pages, written, write_ns(writer, threads));
        add(run, &of, [(predict_check::ELAPSED_NS, cycle)]);
    }
}
