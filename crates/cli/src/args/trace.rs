// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flags of `trace`, but for its report.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use cowlab_observe::watch::Wanted;

use super::{TraceReportArgs, seconds, size};

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
    pub output: PathBuf,
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
    /// The Linux kernel instead of a program, by way of /dev/casper: until the command ends, or
    /// Ctrl-C
    #[arg(long, conflicts_with_all = ["target", "preload"])]
    pub kernel: bool,
    /// Record only kernel functions whose name matches, or with '!GLOB' only others; may be repeated.
    /// For a program, all are recorded, or with '!*' none
    #[arg(long, value_name = "GLOB")]
    pub function: Vec<String>,
    /// Load libcasper into the command, for programs that were compiled with
    /// -finstrument-functions and are not linked with it: the one that was built or installed with
    /// cowlab, or FILE
    #[arg(long, value_name = "FILE", requires = "command", num_args = 0..=1, require_equals = true)]
    pub preload: Option<Option<PathBuf>>,
    /// Record this running process and what it forks, until Ctrl-C
    #[arg(
        value_name = "PID|NAME",
        conflicts_with = "command",
        required_unless_present_any = ["command", "kernel"],
        value_parser = Wanted::parse
    )]
    pub target: Option<Wanted>,
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
    pub output: PathBuf,
}
