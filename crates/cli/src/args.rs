// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. Nothing deeper than this folder knows clap.

mod kernel;
mod redis;
mod snapshot;
mod trace_report;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use cowlab_bench::precopy::DEPTHS;
use cowlab_bench::trace::Tool;
use cowlab_machine::Policy;
use cowlab_model::units::parse_bytes;
use cowlab_probes::{Method, Pattern, Reap, Writer};

pub use kernel::{
    ForkStudyArgs, GuestArgs, Kernel, KernelBenchArgs, KernelBootArgs, KernelBuildArgs,
    KernelFetchArgs, KernelPlace, KernelSeriesArgs, KernelTestArgs,
};
pub use redis::RedisArgs;
pub use snapshot::SnapshotArgs;
pub use trace_report::TraceReportArgs;

/// What fork() and copy-on-write cost, and how to pay less.
#[derive(Debug, Parser)]
#[command(name = "cowlab", version, max_term_width = 100, subcommand_required = true)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags that every verb takes.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, global = true)]
    pub json: bool,
    /// Folder that holds the runs
    #[arg(long, global = true, value_name = "DIR", default_value = "runs")]
    pub output: PathBuf,
    /// Seed of every random choice
    #[arg(long, global = true, value_name = "N", default_value_t = 1988)]
    pub seed: u64,
    /// Set the page size's THP setting for this run (needs root) and put it back afterwards
    #[arg(long, global = true)]
    pub set_mthp: bool,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measure this machine, fit the model, compare with the papers, write one report
    Study(StudyArgs),
    /// Say again what a study's samples say
    Report(ReportArgs),
    /// What can be measured here, and whether a fork of a process would fail
    Doctor(DoctorArgs),
    /// Measure the machine profile, in under a minute
    Calibrate(CalibrateArgs),
    /// Run one measurement
    #[command(subcommand)]
    Bench(Bench),
    /// CASPER: record and read the events of programs that use libcasper
    #[command(subcommand)]
    Trace(Trace),
    /// The patched Linux: built, booted and tested in a virtual machine
    #[command(subcommand)]
    Kernel(Kernel),
    /// Predict what a fork costs on the machine of a profile
    Predict(PredictArgs),
    /// Compare two runs, figure by figure
    Compare(CompareArgs),
    /// Write copies of C sources that tell CASPER when their functions begin and end
    Insert(InsertArgs),
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        directory: PathBuf,
    },
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub struct StudyArgs {
    /// About 3 minutes; the default
    #[arg(long, group = "extent")]
    pub quick: bool,
    /// More forks and more rounds, about 15 minutes
    #[arg(long, group = "extent")]
    pub full: bool,
    /// The papers' own sizes and repetitions as well; hours
    #[arg(long, group = "extent")]
    pub paper: bool,
    /// Document 002's kernel as well, built and booted in a virtual machine; some 15 minutes more
    #[arg(long)]
    pub kernel: bool,
    #[command(flatten)]
    pub guest: GuestArgs,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The run of a study
    pub run: PathBuf,
    /// Write the page to this file as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Judge a fork of this process
    #[arg(long, value_name = "PID", allow_negative_numbers = true)]
    pub pid: Option<i32>,
}

#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Rounds; the intervals narrow with their number
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..=100))]
    pub rounds: u32,
}

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Document 000's program: forks of a heap of which a fraction is written
    ForkSweep(ForkSweepArgs),
    /// Document 004's and TLPI's table: fork, vfork, spawn and exec by size
    ForkTable(ForkTableArgs),
    /// Document 002's workloads: each write after a fork
    CowFaults(CowFaultsArgs),
    /// Document 002 whole: its workloads under its policy and deeper ones (patched kernel, root)
    PreCopy(PreCopyArgs),
    /// Document 003's microbenchmark: writes after Zipf's law in a space that is forked again and
    /// again
    Snapshot(SnapshotArgs),
    /// Document 003's second benchmark: a real redis-server that takes snapshots under YCSB's updates
    Redis(RedisArgs),
    /// A program of yours, under each policy in turn
    Command(CommandArgs),
    /// Check that copy-on-write keeps parent and children apart
    CowCheck(CowCheckArgs),
    /// Our times of fork and vfork beside the kernel's own trace events (needs root)
    CrossCheck(CrossCheckArgs),
    /// Document 001's Table I: forks by the kernel's sections (on a kernel built with
    /// --variant traced)
    ForkSections(ForkSectionsArgs),
    /// What an event and an instrumented call cost, beside LTTng-UST and uftrace
    Trace(BenchTraceArgs),
}

impl Bench {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Bench::ForkSweep(_) => "fork-sweep",
            Bench::ForkTable(_) => "fork-table",
            Bench::CowFaults(_) => "cow-faults",
            Bench::PreCopy(_) => "pre-copy",
            Bench::Snapshot(_) => "snapshot",
            Bench::Redis(_) => "redis",
            Bench::Command(_) => "command",
            Bench::CowCheck(_) => "cow-check",
            Bench::CrossCheck(_) => "cross-check",
            Bench::Trace(_) => "trace",
            Bench::ForkSections(_) => "fork-sections",
        }
    }
}

/// A size: bytes, or with a unit.
fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text)
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e9 => Ok(value),
        _ => Err(format!("'{text}' is not a number of seconds above 0")),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err(format!("'{text}' is not in 0..1")),
    }
}

#[derive(Debug, Args)]
pub struct ForkSweepArgs {
    /// Forks of one program run
    #[arg(long, value_delimiter = ',', default_value = "100", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub forks: Vec<u64>,
    /// Size of the heap
    #[arg(long, alias = "size-bytes", value_delimiter = ',', default_value = "16MiB", value_parser = size)]
    pub heap_bytes: Vec<u64>,
    /// Share of the heap that is written, 0..1
    #[arg(long, value_delimiter = ',', default_value = "0.5", value_parser = fraction, allow_negative_numbers = true)]
    pub write_fraction: Vec<f64>,
    /// fork, vfork, clone-vm-vfork, posix-spawn
    #[arg(long, value_delimiter = ',', default_value = "fork")]
    pub method: Vec<Method>,
    /// child, parent (a child is held alive), parent-reuse (it has ended)
    #[arg(long, value_delimiter = ',', default_value = "child")]
    pub writer: Vec<Writer>,
    /// How children are reaped: each, never (as published), or at most N alive
    #[arg(long, default_value = "each")]
    pub reap: Reap,
    /// Size of the heap's pages: the base page, THP or an mTHP size
    #[arg(long, value_delimiter = ',', value_parser = size)]
    pub page_size_bytes: Vec<u64>,
    /// Other running threads of the forking process
    #[arg(long, value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub threads: Vec<u32>,
    /// Leave the heap untouched before the fork, as malloc alone does
    #[arg(long)]
    pub untouched: bool,
    /// Make one fork before, of which nothing is recorded
    #[arg(long)]
    pub settle: bool,
    #[command(flatten)]
    pub how: How,
}

#[derive(Debug, Args)]
pub struct ForkSectionsArgs {
    /// Forks of each size
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub forks: u32,
    /// Heaps beyond the smallest possible process, which has one page each of text, data and stack
    #[arg(long, alias = "heap-bytes", value_delimiter = ',', default_value = "0,10MiB,100MiB,1GiB", value_parser = size)]
    pub size_bytes: Vec<u64>,
    #[command(flatten)]
    pub how: How,
}

#[derive(Debug, Args)]
pub struct ForkTableArgs {
    /// fork, vfork, posix-spawn, fork+exec, vfork+exec
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "fork,vfork,posix-spawn,fork+exec,vfork+exec"
    )]
    pub method: Vec<Method>,
    /// What the program allocates before
    #[arg(long, value_delimiter = ',', default_value = "1782579,2831155,12268339", value_parser = size)]
    pub size_bytes: Vec<u64>,
    /// Processes created in one run
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub iterations: u64,
    /// Write every page before; both if not given
    #[arg(long, value_name = "BOOL")]
    pub touched: Option<bool>,
    /// The document's 100,000 iterations and 10 runs
    #[arg(long)]
    pub paper: bool,
    #[command(flatten)]
    pub how: How,
}

#[derive(Debug, Args)]
pub struct CowFaultsArgs {
    /// single, sequential, random
    #[arg(long, value_delimiter = ',', default_value = "single,sequential,random")]
    pub pattern: Vec<Pattern>,
    /// Memory that the fork shares
    #[arg(long, value_delimiter = ',', default_value = "16MiB,64MiB", value_parser = size)]
    pub size_bytes: Vec<u64>,
    /// child, parent
    #[arg(long, value_delimiter = ',', default_value = "child")]
    pub writer: Vec<Writer>,
    /// Children alive at once
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub children: Vec<u32>,
    /// Other running threads of each writing process
    #[arg(long, value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub threads: Vec<u32>,
    /// Size of the memory's pages
    #[arg(long, value_delimiter = ',', value_parser = size)]
    pub page_size_bytes: Vec<u64>,
    /// What the kernel copies at a fault, in turn: off, next, next:PAGES, next:PAGES:ORDER, ccow, ccow:THRESHOLD, ccow:THRESHOLD:ORDER; as it is, if not given
    #[arg(long, value_delimiter = ',')]
    pub policy: Vec<Policy>,
    #[command(flatten)]
    pub how: How,
}

#[derive(Debug, Args)]
pub struct PreCopyArgs {
    /// Pages copied ahead of a write; the first depth is also measured at 16 MiB
    #[arg(long, value_name = "PAGES", value_delimiter = ',', default_values_t = DEPTHS, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub depths: Vec<u32>,
    /// Rounds; each measures everything once, in an order of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
}

#[derive(Debug, Args)]
pub struct CommandArgs {
    /// What the kernel copies at a fault, in turn: off, next, next:PAGES, next:PAGES:ORDER, ccow, ccow:THRESHOLD, ccow:THRESHOLD:ORDER; as it is, if not given
    #[arg(long, value_delimiter = ',')]
    pub policy: Vec<Policy>,
    /// Rounds; each runs the program once under each policy
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub struct CowCheckArgs {
    /// Children at once
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5,6,7,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub children: Vec<u32>,
    /// Memory that the processes change
    #[arg(long, default_value = "16MiB", value_parser = size)]
    pub size_bytes: u64,
    /// Size of its pages; base pages and THP if not given
    #[arg(long, value_delimiter = ',', value_parser = size)]
    pub page_size_bytes: Vec<u64>,
    /// Share the memory, so that the check must fail
    #[arg(long, hide = true)]
    pub broken: bool,
}

#[derive(Debug, Args)]
pub struct CrossCheckArgs {
    /// Calls of each method in a round
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    pub calls: u64,
    #[command(flatten)]
    pub how: How,
}

#[derive(Debug, Args)]
pub struct BenchTraceArgs {
    /// floor, casper, casper-finstrument, lttng-ust, uftrace
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "floor,casper,casper-finstrument,lttng-ust,uftrace"
    )]
    pub tool: Vec<Tool>,
    /// Threads that make events at once
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Vec<u32>,
    /// Timed events of each thread in a round
    #[arg(long, default_value_t = 800_000, value_parser = clap::value_parser!(u64).range(8..=100_000_000))]
    pub events: u64,
    /// Size of a thread's ring, a power of two
    #[arg(long, default_value = "1MiB", value_parser = size)]
    pub buffer_bytes: u64,
    #[command(flatten)]
    pub how: How,
}

/// How a measurement is repeated.
#[derive(Debug, Clone, Args)]
pub struct How {
    /// Rounds; each measures everything once, in an order of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Let the scheduler place parent, children and threads
    #[arg(long)]
    pub no_pin: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PredictWriter {
    /// The child
    Child,
    /// The parent, while the child lives
    Parent,
}

#[derive(Debug, Args)]
pub struct PredictArgs {
    /// A profile.json or a run folder; by default the newest run here that has one
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    /// Private memory of the forking process
    #[arg(long, value_parser = size, value_delimiter = ',', conflicts_with = "pages", required_unless_present = "pages")]
    pub size_bytes: Vec<u64>,
    /// The same in base pages
    #[arg(long, value_delimiter = ',')]
    pub pages: Vec<u64>,
    /// Share of it that is written after the fork, 0..1
    #[arg(long, value_delimiter = ',', default_value = "0.1", value_parser = fraction, allow_negative_numbers = true)]
    pub write_fraction: Vec<f64>,
    /// Share of it that the parent wrote since its last fork, 0..1
    #[arg(long, default_value = "1", value_parser = fraction, allow_negative_numbers = true)]
    pub written_before_fraction: f64,
    /// Who writes
    #[arg(long, value_enum, default_value = "parent")]
    pub writer: PredictWriter,
    /// Other running threads of the forking process
    #[arg(long, value_delimiter = ',', default_value = "0")]
    pub threads: Vec<u32>,
    /// Size of its pages: the base page or THP
    #[arg(long, value_parser = size, value_delimiter = ',')]
    pub page_size_bytes: Vec<u64>,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The first run
    pub first: PathBuf,
    /// The second run, whose figures are divided by the first's
    pub second: PathBuf,
    /// Relative difference that two runs of the same thing show anyway, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub drift_percent: f64,
    /// Only this benchmark
    #[arg(long)]
    pub bench: Option<String>,
    /// Show every figure, not only those that differ
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Record a command, or a running program that uses libcasper
    Record(TraceRecordArgs),
    /// What a trace says: functions, events, and the time between them
    Report(TraceReportArgs),
    /// Write a trace as Perfetto, CSV or Parquet
    Export(TraceExportArgs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WhenFull {
    /// Drop what comes, and count it
    Drop,
    /// Overwrite the oldest: a flight recorder
    Overwrite,
    /// Let the program wait until there is room
    Wait,
}

#[derive(Debug, Args)]
pub struct TraceRecordArgs {
    /// The trace
    #[arg(long, short = 'o', value_name = "FILE", default_value = "trace.casper")]
    pub file: PathBuf,
    /// Replace the trace that is there
    #[arg(long)]
    pub force: bool,
    /// What a thread's full buffer does
    #[arg(long, value_enum, default_value = "drop")]
    pub when_full: WhenFull,
    /// Size of each thread's buffer, a power of two
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size)]
    pub buffer_bytes: u64,
    /// Threads that may record at the same time
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub buffers: u32,
    /// Record only events of this type, by name or number; may be repeated
    #[arg(long, value_name = "TYPE", conflicts_with = "kernel")]
    pub only: Vec<String>,
    /// Record the kernel, by way of /dev/casper: until the command ends, or Ctrl-C
    #[arg(long, conflicts_with_all = ["pid", "preload"])]
    pub kernel: bool,
    /// Of the kernel's instrumented functions only those whose name matches; may be repeated
    #[arg(long, value_name = "GLOB", requires = "kernel")]
    pub function: Vec<String>,
    /// Not those of the kernel's functions whose name matches
    #[arg(long, value_name = "GLOB", requires = "kernel")]
    pub exclude: Vec<String>,
    /// Do not record the functions that are instrumented
    #[arg(long)]
    pub no_functions: bool,
    /// Load libcasper into the command: for programs that were compiled with
    /// -finstrument-functions and are not linked with it
    #[arg(long, requires = "command")]
    pub preload: bool,
    /// The library for --preload, if not the one that was built or installed with cowlab
    #[arg(long, value_name = "FILE", requires = "preload")]
    pub library: Option<PathBuf>,
    /// Record this running process and what it forks, until Ctrl-C
    #[arg(
        long,
        value_name = "PID",
        conflicts_with = "command",
        required_unless_present_any = ["command", "kernel"]
    )]
    pub pid: Option<u32>,
    /// End the recording after this time; the program goes on
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration_s: Option<f64>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

/// For whom a trace is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One file for ui.perfetto.dev and trace_processor
    Perfetto,
    /// A folder with a file of each event type, and one of calls
    Csv,
    /// The same as Parquet, for DuckDB, pandas or Spark
    Parquet,
}

#[derive(Debug, Args)]
pub struct TraceExportArgs {
    /// The trace
    pub file: PathBuf,
    /// For whom
    #[arg(long, value_enum, default_value = "perfetto")]
    pub format: ExportFormat,
    /// The file, or folder, to write; it must not exist
    #[arg(long, short = 'o', value_name = "PATH")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct InsertArgs {
    /// C sources, and directories of which all .c and .h are taken and the rest is copied
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Folder for the copies; the sources are never written over
    #[arg(long, value_name = "DIR")]
    pub output_dir: PathBuf,
    /// Folder whose tree the copies repeat; by default the one that holds all that is named
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Only files whose path below the root matches, as 'src/*.c'; others are copied as they are
    #[arg(long, value_name = "GLOB")]
    pub file: Vec<String>,
    /// Only functions whose name matches
    #[arg(long, value_name = "GLOB")]
    pub function: Vec<String>,
    /// No functions whose name matches
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Only functions with at least this many lines, from the first of their definition to that of
    /// the closing brace, all counted
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_lines: u32,
    /// The sources are the Linux kernel's: copies include <linux/casper.h>, and what the kernel
    /// keeps from being instrumented (noinstr, notrace, __init) is left alone
    #[arg(long)]
    pub kernel: bool,
    /// List the functions that are instrumented, with their exits, as well as those left alone
    #[arg(long)]
    pub list: bool,
}
