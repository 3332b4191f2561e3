// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `advise --verify`: processes shaped like an application under each choice, measured in turn.

use cowlab_model::advice::Shape;
use cowlab_model::profile::Writer;
use cowlab_probes::Probe;
use cowlab_schema::fork_sweep::DoFork;
use cowlab_schema::{Figure, Method, Params, advise};

use crate::calibrate::WORK_US;
use crate::task::{Task, median_of};

/// The name of this benchmark in samples.
pub const BENCH: &str = advise::BENCH.name;

/// The probe's settings for a shape: one fork of a fresh process each time, since huge pages are
/// split by the first.
pub fn probe_of(shape: &Shape, base_page_bytes: u64, scatter_bytes: u64) -> DoFork {
    let vmas = shape.vmas.beyond_a_probe();
    // Each of those mappings has a page.
    let pages = shape.pages.saturating_sub(vmas.anon);
    let fraction = if pages == 0 { 0.0 } else { shape.written as f64 / pages as f64 };
    let mut probe = DoFork::new(1, pages * base_page_bytes, fraction.min(1.0), base_page_bytes);
    probe.method = if shape.spawned { Method::PosixSpawn } else { Method::Fork };
    probe.writer = match shape.writer {
        Writer::Parent if !shape.spawned => Writer::Parent,
        _ => Writer::Child,
    };
    probe.page_size_bytes = shape.page_size_bytes;
    probe.threads = shape.threads;
    probe.spread = shape.spread;
    (probe.vmas_anon, probe.vmas) = (vmas.anon, vmas.others);
    // As forecasts price it. Huge pages would be split by it.
    probe.scattered = !shape.spawned && shape.page_size_bytes == base_page_bytes;
    probe.scatter_bytes = if probe.scattered { scatter_bytes } else { 0 };
    probe.work_us = WORK_US;
    probe
}

/// One task for each shape. Its samples have the parameter `choice`: `stop_ns`, `writes_ns` and
/// `copied_bytes`, by the faults that were counted.
pub fn tasks(shapes: Vec<(String, Shape)>, base_page_bytes: u64, scatter_bytes: u64) -> Vec<Task> {
    let task = |(choice, shape): (String, Shape)| {
        let probe = probe_of(&shape, base_page_bytes, scatter_bytes);
        Task::new(format!("{BENCH}: {choice}"), move |runner, round| {
            let result = probe.run(runner)?;
            let mut params = Params::new();
            advise::CHOICE.put(&mut params, &choice);
            advise::FIGURE.put(&mut params, Figure::Measured);
            let mut out = round.record(BENCH, params, result.start_unix_ns);
            out.known(advise::STOP_NS, median_of(&result.fork_ns));
            // A spawned child has nothing to write, and its faults are of the program that it executes.
            if !shape.spawned {
                out.known(advise::WRITES_NS, median_of(&result.write_ns));
                let faults = match probe.writer {
                    Writer::Child => result.children.minor_faults,
                    _ => result.program.minor_faults,
                };
                out.add(advise::COPIED_BYTES, faults * base_page_bytes);
            }
            Ok(())
        })
    };
    shapes.into_iter().map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cowlab_model::cost::Vmas;

    #[test]
    fn a_shape_is_what_the_probe_does() {
        let of_a_probe = Vmas::OF_A_PROBE;
        let shape = Shape {
            spawned: false,
            pages: 1020,
            written: 250,
            writer: Writer::Parent,
            spread: true,
            threads: 1,
            page_size_bytes: 2 << 20,
            vmas: Vmas { anon: 20 + of_a_probe.anon, others: 60 + of_a_probe.others },
        };
        let probe = probe_of(&shape, 4096, 1 << 30);
        assert_eq!((probe.forks, probe.heap_bytes, probe.write_fraction), (1, 4_096_000, 0.25));
        assert_eq!((probe.threads, probe.spread, probe.settled), (1, true, false));
        assert_eq!((probe.writer, probe.page_size_bytes), (Writer::Parent, 2 << 20));
        assert_eq!((probe.vmas_anon, probe.vmas, probe.scattered), (20, 60, false));
        assert_eq!(probe.scatter_bytes, 0);
        let base = probe_of(&Shape { page_size_bytes: 4096, ..shape.clone() }, 4096, 1 << 30);
        assert_eq!((base.scattered, base.scatter_bytes), (true, 1 << 30));
        assert_eq!(probe.check(), Ok(()));
        let spawned = probe_of(&Shape { spawned: true, written: 0, ..shape }, 4096, 1 << 30);
        assert_eq!((spawned.method, spawned.check()), (Method::PosixSpawn, Ok(())));
    }
}
