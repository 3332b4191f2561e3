// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cow-faults`: document 002's workloads.

use anyhow::{Result, bail};
use cowlab_probes::{CowFaults, CowFaultsResult, Pattern, Writer};
use cowlab_store::{QUANTILES, Sample, histogram_of, serialise};

use crate::task::{Recorder, Task, median_of};

/// The name of this benchmark in samples.
pub const BENCH: &str = "cow-faults";

/// The document's sizes.
pub const SIZES_BYTES: [u64; 2] = [16 << 20, 64 << 20];

/// Repetitions of a pattern in one invocation, half of them timed write by write. A single write
/// needs more of them for its percentiles.
pub fn repetitions_of(pattern: Pattern) -> u64 {
    if pattern == Pattern::Single { 60 } else { 2 }
}

/// The document's workloads, and beyond it: a writing parent, several children, another thread.
pub fn document_workloads(
    page: u64,
    other_cpus: bool,
    huge_page: Option<u64>,
    seed: u64,
) -> Vec<Task> {
    let cell = |pattern, size_bytes| CowFaults {
        pattern,
        size_bytes,
        writer: Writer::Child,
        children: 1,
        threads: 0,
        page_size_bytes: page,
        pinned: true,
        repetitions: repetitions_of(pattern),
        seed,
    };
    let mut cells = Vec::new();
    for size in SIZES_BYTES {
        for pattern in Pattern::ALL {
            cells.push(cell(*pattern, size));
            cells.push(CowFaults { writer: Writer::Parent, ..cell(*pattern, size) });
        }
    }
    for children in [2, 4, 8] {
        cells.push(CowFaults { children, pinned: false, ..cell(Pattern::Random, 16 << 20) });
    }
    if other_cpus {
        for pattern in Pattern::ALL {
            cells.push(CowFaults {
                writer: Writer::Parent,
                threads: 1,
                ..cell(*pattern, 16 << 20)
            });
        }
        cells.push(CowFaults { threads: 1, ..cell(Pattern::Random, 16 << 20) });
    }
    if let Some(huge) = huge_page {
        for pattern in [Pattern::Sequential, Pattern::Random] {
            cells.push(CowFaults { page_size_bytes: huge, ..cell(pattern, 64 << 20) });
        }
    }
    tasks(cells)
}

/// One task for each of the settings.
pub fn tasks(settings: impl IntoIterator<Item = CowFaults>) -> Vec<Task> {
    let task = |settings: CowFaults| {
        let name = format!(
            "{BENCH}: {} over {} MiB, {} writes",
            settings.pattern,
            settings.size_bytes >> 20,
            settings.writer
        );
        Task::new(name, move |runner, rep| {
            // Another order in every round.
            let settings = CowFaults { seed: settings.seed + u64::from(rep), ..settings.clone() };
            samples_of(&settings, &settings.run(runner)?, rep)
        })
    };
    settings.into_iter().map(task).collect()
}

/// The samples of one invocation. Counts are totals over the writers of one repetition, times are
/// those of the slowest writer; the time-stamp's own cost is removed from every write.
fn samples_of(settings: &CowFaults, result: &CowFaultsResult, rep: u32) -> Result<Vec<Sample>> {
    let writers = if settings.writer == Writer::Child { settings.children as usize } else { 1 };
    let mut out = Recorder::new(BENCH, settings.params(), rep, result.start_unix_ns);
    let slowest: Vec<u64> =
        result.elapsed_ns.chunks(writers).filter_map(|chunk| chunk.iter().max().copied()).collect();
    if let Some(median) = median_of(&slowest) {
        out.add("elapsed_ns", median);
    }
    let totals = |values: &[u64]| -> Vec<u64> {
        values.chunks(writers).map(|chunk| chunk.iter().sum()).collect()
    };
    for (metric, values) in
        [("pages_written", &result.pages_written), ("minor_faults", &result.minor_faults)]
    {
        if let Some(median) = median_of(&totals(values)) {
            out.add(metric, median);
        }
    }
    let Some(timer_ns) = median_of(&result.timer_ns) else { bail!("the timer was not measured") };
    out.add("timer_ns", timer_ns);
    if !result.write_ns.is_empty() {
        let without_timer = |ns: &u64| ns.saturating_sub(timer_ns as u64).max(1);
        let histogram = histogram_of(result.write_ns.iter().map(without_timer));
        for (name, quantile) in QUANTILES {
            let value = match name {
                "min" => histogram.min(),
                "max" => histogram.max(),
                _ => histogram.value_at_quantile(quantile),
            };
            let sample = out.add("fault_ns", value as f64);
            sample.params.insert("quantile".to_owned(), name.to_owned());
            if name == "p50" {
                sample.histogram = Some(serialise(&histogram));
            }
        }
    }
    Ok(out.finish())
}
