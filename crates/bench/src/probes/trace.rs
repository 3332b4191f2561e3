// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings and results of the programs in probes/trace, and compiling those that need a tracer's
//! own library.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::probes::program::{LIBCASPER, LIBCASPER_NAME, Program};
use crate::probes::runner::{Outcome, Runner};

/// Calls that one call of the outermost nested function makes, itself included: NESTED in
/// trace_calls.c.
pub const NESTED_CALLS: u64 = 8;

/// One invocation of a program of probes/trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceRun {
    /// Threads that make events at once.
    pub threads: u32,
    /// Events of each thread before the clock starts.
    pub warm_events: u64,
    /// Batches of each thread, each timed as a whole.
    pub batches: u64,
    /// Events of a batch.
    pub batch_events: u64,
    /// Size of the ring of a program that brings its own.
    pub buffer_bytes: u64,
    /// Between the warm lap and the timed batches.
    pub pause_ms: u64,
    /// Whether thread n has the n-th CPU.
    pub pinned: bool,
    /// Calls: nested ones instead of leaves.
    pub nested: bool,
}

impl TraceRun {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--threads={}", self.threads),
            format!("--warm={}", self.warm_events.next_multiple_of(NESTED_CALLS)),
            format!("--batches={}", self.batches),
            format!("--batch={}", self.batch_events.next_multiple_of(NESTED_CALLS)),
            format!("--buffer-bytes={}", self.buffer_bytes),
            format!("--pause-ms={}", self.pause_ms),
        ];
        if self.pinned {
            arguments.push("--pin".to_owned());
        }
        if self.nested {
            arguments.push("--nested".to_owned());
        }
        arguments
    }

    /// Run one of the embedded programs.
    pub fn run(&self, runner: &Runner, program: Program) -> Result<TraceResult> {
        self.run_with(runner, program, &[])
    }

    /// The same with more in its environment.
    pub fn run_with(
        &self,
        runner: &Runner,
        program: Program,
        environment: &[(&str, &str)],
    ) -> Result<TraceResult> {
        TraceResult::of(&runner.run_with(program, &self.arguments(), environment)?)
    }

    /// Run `command`: a compiled program, or a tracer with it as its last argument. `name` is for
    /// messages.
    pub fn run_command(
        &self,
        runner: &Runner,
        name: &str,
        mut command: Command,
    ) -> Result<TraceResult> {
        command.args(self.arguments());
        TraceResult::of(&runner.run_command(name, command)?)
    }
}

/// What a program of probes/trace measured.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceResult {
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    /// Events of a batch.
    pub batch_events: u64,
    /// By thread, what each batch took.
    pub batch_ns: Vec<Vec<u64>>,
    /// By thread, all events that it made, the untimed ones included.
    pub made_events: Vec<u64>,
    /// Whether somebody recorded them, as far as the program can tell.
    pub recorded: Option<bool>,
}

impl TraceResult {
    fn of(outcome: &Outcome) -> Result<TraceResult> {
        let rows = &outcome.rows;
        let of_threads =
            |metric| rows.iter().filter(move |row| row.metric == metric).map(|row| &row.values);
        let result = TraceResult {
            start_unix_ns: outcome.start_unix_ns,
            batch_events: rows.value("batch_events")?,
            batch_ns: of_threads("batch_ns").cloned().collect(),
            made_events: of_threads("made_events").flatten().copied().collect(),
            recorded: rows.values("recording_programs").first().map(|programs| *programs > 0),
        };
        if result.batch_ns.is_empty() || result.batch_ns.iter().any(Vec::is_empty) {
            bail!("no batch was timed");
        }
        Ok(result)
    }
}

/// The sources of the programs that are compiled with a tracer's own library or options, in a
/// folder of their own. The folder goes when this is dropped.
pub struct TraceSources {
    folder: TempDir,
}

/// What `cowlab` carries in itself for it, by its place under probes/.
const SOURCES: [(&str, &str); 5] = [
    ("probe.h", include_str!("../../../../probes/probe.h")),
    ("trace/trace.h", include_str!("../../../../probes/trace/trace.h")),
    ("trace/trace_calls.c", include_str!("../../../../probes/trace/trace_calls.c")),
    ("trace/trace_lttng.c", include_str!("../../../../probes/trace/trace_lttng.c")),
    (
        "trace/trace_lttng_provider.h",
        include_str!("../../../../probes/trace/trace_lttng_provider.h"),
    ),
];

impl TraceSources {
    /// Lay them out in memory (/dev/shm) where there is such a place.
    pub fn new() -> Result<TraceSources> {
        let place = Path::new("/dev/shm");
        let place = if place.is_dir() { place.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new()
            .prefix("cowlab-trace-")
            .tempdir_in(&place)
            .with_context(|| format!("cannot make a folder in {}", place.display()))?;
        std::fs::create_dir(folder.path().join("trace"))?;
        for (path, text) in SOURCES {
            let path = folder.path().join(path);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(TraceSources { folder })
    }

    /// The folder, where tracers may leave their output too.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Put libcasper there, for programs that find it in LD_LIBRARY_PATH.
    pub fn lay_out_libcasper(&self) -> Result<()> {
        let path = self.folder().join(LIBCASPER_NAME);
        std::fs::write(&path, LIBCASPER).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Compile `source` (trace_calls.c) into the program `name`, as the embedded ones are compiled
    /// but for `flags`, which come last.
    pub fn compile(&self, source: &str, name: &str, flags: &[&str]) -> Result<PathBuf> {
        let program = self.folder().join(name);
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let output = Command::new(&compiler)
            .args(["-std=gnu11", "-O2", "-D_GNU_SOURCE", "-o"])
            .arg(&program)
            .arg(self.folder().join("trace").join(source))
            .args(flags)
            .output()
            .with_context(|| format!("cannot run the C compiler {compiler}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let first = said.lines().find(|line| line.contains("error")).unwrap_or(said.trim());
            bail!("{source} does not compile with {}: {first}", flags.join(" "));
        }
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn quick(threads: u32) -> TraceRun {
        TraceRun {
            threads,
            warm_events: 100,
            batches: 3,
            batch_events: 80,
            buffer_bytes: 4096,
            pause_ms: 0,
            pinned: false,
            nested: false,
        }
    }

    #[test]
    fn every_thread_makes_its_batches() {
        let runner = Runner::new(Arc::default()).unwrap();
        for program in [Program::TraceFloor, Program::TraceCalls] {
            for nested in [false, program == Program::TraceCalls] {
                let run = TraceRun { nested, ..quick(2) };
                let result = run.run(&runner, program).unwrap();
                assert_eq!(result.batch_events, 80);
                assert_eq!(result.batch_ns.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
                // The warm lap, the batch after it, the timed ones and whole batches after them.
                for made in result.made_events {
                    assert!(made >= 104 + 4 * 80 && (made - 104) % 80 == 0, "{made}");
                }
            }
        }
    }

    #[test]
    fn a_program_compiled_here_gives_the_same_rows() {
        let runner = Runner::new(Arc::default()).unwrap();
        let sources = TraceSources::new().unwrap();
        let program = sources.compile("trace_calls.c", "calls", &[]).unwrap();
        let result = quick(1).run_command(&runner, "calls", Command::new(program)).unwrap();
        assert_eq!(result.batch_ns[0].len(), 3);
        let error = sources.compile("trace_calls.c", "calls", &["-include", "no/such.h"]);
        assert!(error.unwrap_err().to_string().contains("no/such.h"));
        let folder = sources.folder().to_owned();
        drop(sources);
        assert!(!folder.exists());
    }
}
