// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `export`: a trace for Perfetto. Each call and event as the profile's pass goes through them, so that what is
//! exported is what a report counts; memory is bounded by what a trace names, not by what happened in it.

mod perfetto;
mod schema;

use std::collections::{HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, ensure};
use cowlab_casper::meta::Metadata;
use cowlab_casper::profile::{Functions, Place, Profile, ProfileSettings, Step, Watcher};
use cowlab_casper::read::{Clock, Record};
use cowlab_casper::symbol::Symbols;
use cowlab_document::output;
use serde::Serialize;
use tempfile::NamedTempFile;

use super::args::ExportArgs;
use super::open;
use perfetto::Perfetto;

#[derive(Serialize)]
struct ExportSummary<'a> {
    file: &'a Path,
    output: &'a Path,
    calls: u64,
    events: u64,
    /// Events that the trace lacks: lost while recording, or from the file since.
    missing_events: u64,
}

pub fn run(json: bool, args: &ExportArgs) -> Result<()> {
    let trace = open(&args.file)?;
    let header = trace.header();
    let file = OutputFile::create(&args.output)?;
    let mut exporter = Exporter {
        perfetto: Perfetto::begin(file, header.first_monotonic_ns, header.first_realtime_ns)?,
        metadata: trace.metadata()?,
        clock: trace.clock(),
        symbols: Symbols::default(),
        processes: HashSet::new(),
        threads: HashMap::new(),
        functions: HashMap::new(),
        calls: 0,
        events: 0,
        failed: None,
    };
    let profile = Profile::watched(&trace, &ProfileSettings::default(), &mut exporter)?;
    let Exporter { perfetto, calls, events, failed, .. } = exporter;
    failed.map_or(Ok(()), Err)?;
    perfetto.finish()?;
    let (damage, lost) = (&profile.damage, &profile.damage.lost);
    let missing_events =
        damage.missing_events + lost.dropped + lost.overwritten + lost.no_buffer + lost.disk;
    if missing_events > 0 {
        output::say(&format!("the trace lacks {missing_events} events, so the export does"));
    }
    if json {
        let (file, output) = (&*args.file, &*args.output);
        return output::json(&ExportSummary { file, output, calls, events, missing_events });
    }
    output::say(&format!(
        "{} has {calls} calls and {events} events: open it in ui.perfetto.dev, or with trace_processor",
        args.output.display()
    ));
    Ok(())
}

/// A traced thread; one for each process that ran in it, and for each depth of signal handlers.
struct Thread {
    number: u32,
    /// The process's number within the trace: pids are used again.
    process: u32,
    pid: u32,
    tid: u32,
    name: Option<String>,
    /// 0; n: of signal handlers that interrupted the recording of level n - 1.
    level: u32,
}

struct Function {
    number: u32,
    /// Its name, or its address where that is not known.
    name: String,
    file: Option<String>,
    line: Option<u32>,
}

struct Exporter {
    perfetto: Perfetto,
    metadata: Metadata,
    clock: Clock,
    symbols: Symbols,
    processes: HashSet<u32>,
    threads: HashMap<Place, Thread>,
    functions: HashMap<u32, Function>,
    calls: u64,
    events: u64,
    /// What ended the export; nothing is written after it.
    failed: Option<Error>,
}

impl Exporter {
    /// Write a place's process and thread before what refers to them.
    fn introduce(&mut self, place: &Place) -> Result<()> {
        if self.threads.contains_key(place) {
            return Ok(());
        }
        let owner = place.owner;
        if self.processes.insert(owner.process) {
            // A forked child runs the program of the process that executed it.
            let image = self.metadata.image(owner.process);
            let known = self.metadata.processes().get(&image);
            let name = known.map(|process| process.program.clone()).filter(|p| !p.is_empty());
            self.perfetto.process(owner.process, owner.pid, name)?;
        }
        let thread = Thread {
            number: self.threads.len() as u32,
            process: owner.process,
            pid: owner.pid,
            tid: owner.tid,
            name: self.metadata.thread(owner.process, owner.tid).map(str::to_owned),
            level: place.level,
        };
        self.perfetto.thread(&thread)?;
        self.threads.insert(*place, thread);
        Ok(())
    }

    fn write_step(&mut self, place: &Place, step: &Step, functions: &Functions) -> Result<()> {
        self.introduce(place)?;
        let thread = &self.threads[place];
        match *step {
            Step::Began { function: index, ticks, .. } => {
                let (metadata, symbols) = (&self.metadata, &mut self.symbols);
                let function = self.functions.entry(index).or_insert_with(|| {
                    let found = functions.describe(index as usize, metadata, symbols);
                    Function { number: index, name: found.name, file: found.file, line: found.line }
                });
                self.perfetto.call_begins(thread, self.clock.ns(ticks), function)
            }
            Step::Ended { ticks, ended, .. } => {
                self.calls += 1;
                self.perfetto.call_ends(thread, self.clock.ns(ticks), ended)
            }
        }
    }

    fn write_event(&mut self, place: &Place, record: &Record) -> Result<()> {
        self.introduce(place)?;
        self.events += 1;
        self.perfetto.event(&self.threads[place], record)
    }
}

impl Watcher for Exporter {
    fn step(&mut self, place: &Place, step: &Step, functions: &Functions) {
        if self.failed.is_none() {
            self.failed = self.write_step(place, step, functions).err();
        }
    }

    fn event(&mut self, place: &Place, record: &Record<'_>) {
        if self.failed.is_none() {
            self.failed = self.write_event(place, record).err();
        }
    }

    fn is_done(&self) -> bool {
        self.failed.is_some()
    }
}

/// A file under a temporary name beside its own, which it gets when it is whole. Only its owner may read it: a trace
/// holds addresses, paths and what programs recorded.
struct OutputFile {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl OutputFile {
    fn create(path: &Path) -> Result<OutputFile> {
        let exists = path.symlink_metadata().is_ok();
        ensure!(!exists, "{} exists: give another -o, or remove it first", path.display());
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(".unfinished-")
            .tempfile_in(parent.unwrap_or(Path::new(".")))
            .with_context(|| failed(path))?;
        Ok(OutputFile { path: path.to_owned(), file: BufWriter::with_capacity(1 << 20, file) })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).with_context(|| failed(&self.path))
    }

    /// It is whole: give it its name.
    fn commit(self) -> Result<()> {
        let OutputFile { path, file } = self;
        let named = file.into_inner().map_err(|error| error.into_error()).and_then(|file| {
            file.as_file().sync_all()?;
            file.persist_noclobber(&path).map_err(|error| error.error)
        });
        named.with_context(|| failed(&path)).map(drop)
    }
}

fn failed(path: &Path) -> String {
    format!("cannot write the export {}: nothing was kept", path.display())
}
