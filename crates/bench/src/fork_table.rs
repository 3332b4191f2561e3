// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fork-table`: TLPI's Table 28-3 and its replay.

use crate::probes::{ForkTableResult, Probe};
pub use cowlab_analysis::study::fork_table::PAPER_ITERATIONS;
use cowlab_schema::Cell;
use cowlab_schema::fork_table::{self, ForkTable, METHODS, SIZES_BYTES};

use crate::task::{Round, Task};

/// The name of this benchmark in samples.
pub const BENCH: &str = fork_table::BENCH.name;

pub const PAPER_RUNS: u32 = 10;

/// Every method at every size, touched and untouched, `iterations` times each.
pub fn document_table(iterations: u64) -> Vec<Task> {
    let mut cells = Vec::new();
    for touched in [false, true] {
        for method in METHODS {
            for size_bytes in SIZES_BYTES {
                cells.push(ForkTable { method, size_bytes, iterations, touched, pinned: true });
            }
        }
    }
    tasks(cells)
}

pub fn tasks(settings: impl IntoIterator<Item = ForkTable>) -> Vec<Task> {
    let task = |settings: ForkTable| {
        let name = format!(
            "{BENCH}: {} × {} at {} bytes{}",
            settings.iterations,
            settings.method,
            settings.size_bytes,
            if settings.touched { ", touched" } else { "" }
        );
        Task::new(name, move |runner, round| {
            record(round, &settings, &settings.run(runner)?);
            Ok(())
        })
    };
    settings.into_iter().map(task).collect()
}

/// What one invocation gave. `cpu_ns` is the program's own; `cpu_with_children_ns` adds its
/// children's.
fn record(round: &mut Round, settings: &ForkTable, result: &ForkTableResult) {
    let mut out = round.record(BENCH, settings.params(), result.start_unix_ns);
    let elapsed_ns = result.elapsed_ns as f64;
    out.add(fork_table::ELAPSED_NS, elapsed_ns);
    out.add(fork_table::CPU_NS, result.program_cpu_ns);
    let with_children_ns = result.program_cpu_ns + result.children_cpu_ns;
    out.add(fork_table::CPU_WITH_CHILDREN_NS, with_children_ns);
    out.add(fork_table::RATE_PER_S, settings.iterations as f64 / (elapsed_ns / 1e9));
}
