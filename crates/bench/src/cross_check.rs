// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cross-check`: our times of fork and vfork beside the kernel's own trace events of the same
//! calls, and beside stress-ng's figures.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use cowlab_probes::{Probe, Runner, unix_ns};
use cowlab_schema::cow_faults::CowFaults;
use cowlab_schema::cross_check::{self, CrossCheck};
use cowlab_schema::fork_sweep::DoFork;
use cowlab_schema::{Cell, Method, Pattern, Writer};
use cowlab_store::Params;

use crate::kernel_trace::Instance;
use crate::task::{Task, median_of};

/// The name of this benchmark in samples.
pub const BENCH: &str = cross_check::BENCH.name;

/// Heaps at which fork is compared; vfork's time does not depend on it.
const HEAPS_BYTES: [u64; 3] = [0, 1_000_000, 31_622_000];

/// Seconds of one stress-ng stressor.
const STRESS_S: u32 = 2;

/// Both sides of the same `calls` calls, for fork at several heaps and for vfork.
pub fn trace_tasks(mount_point: &str, asked: &CrossCheck, page: u64) -> Vec<Task> {
    let forks = HEAPS_BYTES.map(|heap_bytes| CrossCheck { heap_bytes, ..asked.clone() });
    let others = [Method::Vfork, Method::CloneVmVfork].map(|method| CrossCheck {
        method,
        heap_bytes: 0,
        ..asked.clone()
    });
    let task = |cell: CrossCheck| {
        let mount_point = mount_point.to_owned();
        let settings =
            DoFork { method: cell.method, ..DoFork::new(cell.calls, cell.heap_bytes, 0.0, page) };
        Task::new(
            format!("{BENCH}: {} calls of {}", cell.calls, cell.method),
            move |runner, round| {
                let trace =
                    Instance::begin(Path::new(&mount_point), &["clone", "clone3", "vfork"])?;
                let result = settings.run(runner)?;
                let kernel = trace.take(result.pid)?;
                let count = result.fork_ns.len();
                if kernel.len() < count {
                    bail!(
                        "the kernel traced {} of {count} calls: its buffer was too small",
                        kernel.len()
                    );
                }
                let kernel: u64 = kernel[kernel.len() - count..].iter().map(|call| call.ns).sum();
                let ours: u64 = result.fork_ns.iter().sum();
                let params = |source: &str| -> Params {
                    let mut params = cell.params();
                    cross_check::SOURCE.put(&mut params, source);
                    params
                };
                for (source, total) in [("cowlab", ours), ("kernel-trace", kernel)] {
                    let mut out = round.record(BENCH, params(source), result.start_unix_ns);
                    out.add(cross_check::MEAN_FORK_NS, total as f64 / count as f64);
                }
                // After a fork the parent's own stack is shared: its next write there is a fault, which
                // the call's time holds and the system call's does not. vfork has none.
                let faults = result.program.minor_faults as f64;
                let copying =
                    ours as f64 - faults * single_fault_ns(runner, settings.page_size_bytes)?;
                let mut out = round.record(BENCH, params("both"), result.start_unix_ns);
                out.add(cross_check::PARENT_FAULTS_PER_FORK, faults / count as f64);
                out.add(cross_check::COWLAB_TO_KERNEL_RATIO, ours as f64 / kernel as f64);
                out.add(
                    cross_check::WITHOUT_PARENT_FAULTS_TO_KERNEL_RATIO,
                    copying / kernel as f64,
                );
                Ok(())
            },
        )
    };
    forks.into_iter().chain(others).map(task).collect()
}

/// What one copy-on-write fault of a parent costs now.
fn single_fault_ns(runner: &Runner, page: u64) -> Result<f64> {
    let settings = CowFaults {
        pattern: Pattern::Single,
        size_bytes: page,
        writer: Writer::Parent,
        page_size_bytes: page,
        repetitions: 40,
        seed: 1,
        ..CowFaults::default()
    };
    let result = settings.run(runner)?;
    let (fault, timer) = (median_of(&result.write_ns), median_of(&result.timer_ns));
    Ok(fault.context("no fault was timed")? - timer.context("the timer was not measured")?)
}

/// stress-ng's fork and vfork stressors: time of one operation, where it is installed.
pub fn stress_ng_tasks() -> Vec<Task> {
    let task = |stressor: Method| {
        Task::new(format!("{BENCH}: stress-ng --{stressor}"), move |_, round| {
            let start_unix_ns = unix_ns();
            let per_s = stress_ng_rate(stressor)?;
            let mut params = Params::new();
            cross_check::METHOD.put(&mut params, stressor);
            cross_check::SOURCE.put(&mut params, "stress-ng");
            let mut out = round.record(BENCH, params, start_unix_ns);
            out.add(cross_check::OPERATION_NS, 1e9 / per_s);
            Ok(())
        })
        .at_most(3)
    };
    [Method::Fork, Method::Vfork].into_iter().map(task).collect()
}

/// Whether stress-ng can be run.
pub fn has_stress_ng() -> bool {
    Command::new("stress-ng").arg("--version").output().is_ok_and(|output| output.status.success())
}

fn stress_ng_rate(stressor: Method) -> Result<f64> {
    // Its files have names that others can guess.
    let folder = tempfile::tempdir().context("cannot make a folder for stress-ng")?;
    let output = Command::new("stress-ng")
        .args([&format!("--{stressor}"), "1", "--timeout", &format!("{STRESS_S}s")])
        .args(["--metrics-brief", "--temp-path"])
        .arg(folder.path())
        .output()
        .context("cannot run stress-ng")?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    rate_of(&text, stressor.name()).with_context(|| format!("stress-ng printed no metrics: {text}"))
}

/// Operations per second of real time, the fifth figure of a line of `--metrics-brief`.
fn rate_of(text: &str, stressor: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == stressor)?;
        let figures: Vec<f64> = words[at + 1..].iter().map_while(|w| w.parse().ok()).collect();
        figures.get(4).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_stress_ngs_metrics() {
        let text = "stress-ng: metrc: [71] stressor bogo ops real time usr time sys time bogo ops/s bogo ops/s\n\
                    stress-ng: metrc: [71]                 (secs)  (secs)  (secs) (real time) (usr+sys time)\n\
                    stress-ng: metrc: [71] fork      7123   2.00  0.10  1.85   3561.20   3652.82\n";
        assert_eq!(rate_of(text, "fork"), Some(3561.20));
        assert_eq!(rate_of(text, "vfork"), None);
    }
}
