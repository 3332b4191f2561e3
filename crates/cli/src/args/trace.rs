// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flags of `trace`, but for its report.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

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
