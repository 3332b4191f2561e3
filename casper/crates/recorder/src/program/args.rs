// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. Nothing deeper than this file knows clap.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use cowlab_recorder::WhenFull;
use cowlab_schema::units::parse_bytes;

use super::tables::Order;

/// CASPER: trace and time C programs, and a kernel built for it.
#[derive(Debug, Parser)]
#[command(name = "casper-trace", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// Print one JSON document on standard output, and nothing else there
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Record a command, a running program that uses libcasper, or the kernel
    Record(RecordArgs),
    /// What a trace says: functions, events, and the time between them
    Report(ReportArgs),
    /// Write a trace for Perfetto: ui.perfetto.dev and trace_processor
    Export(ExportArgs),
    /// Write copies of C sources that tell CASPER when their functions begin and end
    Insert(InsertArgs),
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        #[arg(long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub struct RecordArgs {
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
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_bytes)]
    pub buffer_bytes: u64,
    /// Threads that may record at the same time
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub buffers: u32,
    /// Record only events of this type, by name or number; may be repeated
    #[arg(long, value_name = "TYPE", conflicts_with = "kernel")]
    pub only: Vec<String>,
    /// The Linux kernel instead of a program, by way of /dev/casper: until the command ends, or
    /// Ctrl-C
    #[arg(long, conflicts_with_all = ["pid", "preload"])]
    pub kernel: bool,
    /// Record only kernel functions whose name matches, or with '!GLOB' only others; may be repeated.
    /// For a program, all are recorded, or with '!*' none
    #[arg(long, value_name = "GLOB")]
    pub function: Vec<String>,
    /// Load libcasper into the command, for programs that were compiled with
    /// -finstrument-functions and are not linked with it: the one that was built or installed with
    /// this program, or FILE
    #[arg(long, value_name = "FILE", requires = "command", num_args = 0..=1, require_equals = true)]
    pub preload: Option<Option<PathBuf>>,
    /// Record this running process and what it forks, until Ctrl-C
    #[arg(
        value_name = "PID",
        conflicts_with = "command",
        required_unless_present_any = ["command", "kernel"],
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub pid: Option<u32>,
    /// End the recording after this time; the program goes on
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub duration_s: Option<f64>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The trace
    pub file: PathBuf,
    /// The file to write; it must not exist
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: PathBuf,
}

const ORDERS: [(&str, Order, &str); 7] = [
    ("self", Order::Own, "Time in the function alone"),
    ("inclusive", Order::Inclusive, "Time in it and in what it called"),
    ("calls", Order::Calls, "Calls"),
    ("mean", Order::Mean, "Mean duration"),
    ("p99", Order::P99, "99th percentile of the durations"),
    ("max", Order::Max, "Longest duration"),
    ("name", Order::Name, "Name"),
];

fn order() -> impl TypedValueParser<Value = Order> {
    let names = ORDERS.map(|(name, _, what)| PossibleValue::new(name).help(what));
    let named = |name: String| ORDERS.into_iter().find(|order| order.0 == name);
    PossibleValuesParser::new(names).map(move |name| named(name).expect("one of them").1)
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The trace
    pub file: PathBuf,
    /// Only the process with this pid
    #[arg(value_name = "PID")]
    pub pid: Option<u32>,
    /// Count events by process, by thread, or by the values of a field
    #[arg(long, value_name = "process|thread|TYPE.FIELD")]
    pub by: Option<String>,
    /// Time from each event of type A to the next of type B; with a name it is a section of
    /// --total; may be repeated
    #[arg(long, value_name = "[NAME=]A,B")]
    pub between: Vec<String>,
    /// The whole that the sections are parts of; what they leave is miscellaneous
    #[arg(long, value_name = "NAME=A,B")]
    pub total: Option<String>,
    /// Only these functions, and what they are made of; * and ? are understood
    #[arg(long, value_name = "GLOB")]
    pub function: Option<String>,
    /// Which functions come first
    #[arg(long, default_value = "self", value_parser = order())]
    pub sort: Order,
    /// Rows of a table; 0: all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Write the report as a page to this file as well
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct InsertArgs {
    /// C sources, or directories: their .c and .h files are instrumented, the rest is copied
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Folder for the copies; the sources are never written over
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
    /// Folder whose tree the copies repeat; by default the one that holds all that is named
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Only files whose path below the root matches, as 'src/*.c'; others are copied as they are
    #[arg(long, value_name = "GLOB")]
    pub file: Vec<String>,
    /// Only functions whose name matches, or with '!GLOB' only others; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub function: Vec<String>,
    /// Only functions of at least this many lines, from definition to closing brace
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_lines: u32,
    /// The Linux kernel instead of a program: copies include <linux/casper.h>, and what it keeps
    /// from being instrumented (noinstr, notrace, __init) is left alone
    #[arg(long)]
    pub kernel: bool,
    /// List the functions that are instrumented, with their exits, as well as those left alone
    #[arg(long)]
    pub list: bool,
}

/// Patterns of names: those that are wanted, and those behind a '!'.
pub fn globs(all: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut wanted, mut excluded) = (Vec::new(), Vec::new());
    for glob in all {
        match glob.strip_prefix('!') {
            Some(glob) => excluded.push(glob.to_owned()),
            None => wanted.push(glob.clone()),
        }
    }
    (wanted, excluded)
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e9 => Ok(value),
        _ => Err(format!("'{text}' is not a number of seconds above 0")),
    }
}
