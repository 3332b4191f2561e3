// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls traced by uftrace.
//!
//! Its manual has programs compiled with -pg, and knows -finstrument-functions as the other way;
//! both are measured. It has no mode that keeps only the newest events: its recorder drains while
//! the program runs, into memory here (/dev/shm), so that no disk is waited for.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use crate::probes::{Runner, TraceResult, TraceRun, TraceSources};
use anyhow::{Context, Result, anyhow, bail};

use super::{BENCH, INSTALL, Tool, Traced, run_of, samples};
use crate::task::Task;

/// How trace_calls.c is compiled for it.
const BUILDS: [(&str, &[&str]); 2] = [
    ("pg", &["-pg"]),
    (
        "finstrument",
        // What the harness inlines is not to be traced.
        &["-finstrument-functions", "-finstrument-functions-exclude-file-list=probe.h,trace.h"],
    ),
];

/// Warms what uftrace hands its program for records: two of its buffers of 128 KiB, in turn.
const WARM_BYTES: u64 = 4 << 20;

/// What its data files hold for a call: two records of 16 bytes.
const CALL_BYTES: u64 = 32;

/// Tasks for each way of compiling and each number of threads.
pub(super) fn tasks(cells: &[&Traced], sources: &Rc<TraceSources>) -> Result<Vec<Task>> {
    let version = version()?;
    let mut tasks = Vec::new();
    for (build, flags) in BUILDS {
        let program = sources.compile("trace_calls.c", &format!("calls-{build}"), flags)?;
        for &cell in cells {
            let threads = cell.threads;
            let run = run_of(cell, WARM_BYTES);
            let (sources, program, version) =
                (Rc::clone(sources), program.clone(), version.clone());
            let name = format!("{BENCH}: uftrace {build}, {threads} threads");
            tasks.push(Task::new(name, move |runner, round| {
                let params = samples::params(Tool::Uftrace, build, &run, Some(&version));
                samples::of_calls(round, samples::CALLS, &params, &run, runner, |run| {
                    record(runner, run, &program, &sources.folder().join("uftrace"))
                })
            }));
        }
    }
    Ok(tasks)
}

fn version() -> Result<String> {
    let output = Command::new("uftrace")
        .arg("--version")
        .output()
        .map_err(|_| anyhow!("uftrace is not installed: {INSTALL}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // "uftrace v0.13 ( x86_64 dwarf … )"
    let version = text.split_whitespace().nth(1).context("uftrace tells no version")?;
    Ok(version.trim_start_matches('v').to_owned())
}

/// Run `program` under `uftrace record`; an error if a call is not in what it recorded.
fn record(runner: &Runner, run: &TraceRun, program: &Path, data: &PathBuf) -> Result<TraceResult> {
    let mut command = Command::new("uftrace");
    command.args(["record", "--no-pager", "--no-libcall", "-d"]).arg(data).arg(program);
    let result = run.run_command(runner, "uftrace record", command);
    let stored = stored_bytes(data);
    // The next one would keep this one's as uftrace.old.
    let _ = std::fs::remove_dir_all(data);
    let (result, stored) = (result?, stored?);
    let made: u64 = result.made_events.iter().sum();
    if stored < made * CALL_BYTES {
        bail!("uftrace lost calls: {stored} bytes stored for {made} calls of {CALL_BYTES} bytes");
    }
    Ok(result)
}

/// Bytes in the data files of all threads.
fn stored_bytes(data: &Path) -> Result<u64> {
    let mut bytes = 0;
    let entries =
        std::fs::read_dir(data).with_context(|| format!("uftrace left no {}", data.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "dat") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
