// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace for other programs: Perfetto's own format, CSV, Parquet.
//!
//! An [`Output`] is told processes, threads, calls and events as they are read, and writes them as
//! they come: memory is bounded by what a trace names, not by what happened in it. Whatever fails,
//! a full disk included, nothing is left that looks whole.

mod csv;
mod parquet;
mod perfetto;
mod place;
mod read;
mod schema;
mod table;
mod value;

use std::path::Path;

use anyhow::Result;

use cowlab_casper::read::Record;

pub use cowlab_casper::profile::Ended;
pub use read::{Exported, export};
pub use value::Value;

/// The moment from which times on other clocks follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// CLOCK_MONOTONIC, in ns: what all times of an export are.
    pub monotonic_ns: u64,
    /// The same moment in ns since 1970, UTC.
    pub realtime_ns: i64,
}

/// A traced process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number within the trace: pids are used again.
    pub number: u32,
    /// Its pid.
    pub pid: u32,
    /// The program's path.
    pub name: Option<String>,
}

/// A traced thread; one for each process that ran in it, and for each depth of signal handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its number within the export, chosen by the caller.
    pub number: u32,
    /// The process's number.
    pub process: u32,
    /// The process's pid.
    pub pid: u32,
    /// The thread's id.
    pub tid: u32,
    /// Its name.
    pub name: Option<String>,
    /// 0; n: of signal handlers that interrupted the recording of level n - 1.
    pub level: u32,
}

/// A function that was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its number within the export, chosen by the caller.
    pub number: u32,
    /// Its name, or its address where that is not known.
    pub name: String,
    /// The source file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

/// A call that is over.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// What was called.
    pub function: &'a Function,
    /// When it began.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Calls around it.
    pub depth: u32,
    /// How it ended.
    pub ended: Ended,
}

/// What takes a trace. Processes and threads are told before they are referred to, and what a
/// thread did in the order of time.
pub trait Output {
    /// A process.
    fn process(&mut self, process: &Process) -> Result<()>;
    /// A thread.
    fn thread(&mut self, thread: &Thread) -> Result<()>;
    /// A call begins.
    fn begin(&mut self, thread: &Thread, time_ns: u64, function: &Function) -> Result<()>;
    /// The innermost call of the thread ends.
    fn end(&mut self, thread: &Thread, call: &Call) -> Result<()>;
    /// A developer's event.
    fn event(&mut self, thread: &Thread, record: &Record) -> Result<()>;
    /// All was told: the export gets its name.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// The formats of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One file for ui.perfetto.dev and trace_processor.
    Perfetto,
    /// A folder with a file for each event type.
    Csv,
    /// The same, as Parquet.
    Parquet,
}

/// Begin an export to `path`, which must not exist.
pub fn create(format: Format, path: &Path, clocks: Clocks) -> Result<Box<dyn Output>> {
    Ok(match format {
        Format::Perfetto => Box::new(perfetto::Perfetto::create(path, clocks)?),
        Format::Csv => Box::new(table::Tables::create(path, clocks, csv::CSV)?),
        Format::Parquet => Box::new(table::Tables::create(path, clocks, parquet::PARQUET)?),
    })
}
