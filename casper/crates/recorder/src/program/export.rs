// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `export`: a trace for Perfetto, in the Trace Event Format. Each call and event as the profile's pass goes through
//! them, so that what is exported is what a report counts; memory is bounded by what a trace names, not by what
//! happened in it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, ensure};
use cowlab_casper::meta::Metadata;
use cowlab_casper::profile::{Ended, Functions, Place, Profile, ProfileSettings, Step, Watcher};
use cowlab_casper::read::{Clock, Record, Value};
use cowlab_casper::symbol::{Symbol, Symbols};
use cowlab_document::output;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::{Value as Json, json};
use tempfile::NamedTempFile;

use super::args::ExportArgs;
use super::open;

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
    let mut file = OutputFile::create(&args.output)?;
    let began = json!({
        "began_monotonic_ns": header.first_monotonic_ns, "began_unix_ns": header.first_realtime_ns,
    });
    file.write(format!("{{\"otherData\":{began},\"traceEvents\":[").as_bytes())?;
    let mut exporter = Exporter {
        file,
        metadata: trace.metadata()?,
        clock: trace.clock(),
        symbols: Symbols::default(),
        processes: HashSet::new(),
        threads: HashSet::new(),
        functions: HashMap::new(),
        separator: "\n",
        calls: 0,
        events: 0,
        failed: None,
    };
    let profile = Profile::watched(&trace, &ProfileSettings::default(), &mut exporter)?;
    let Exporter { mut file, calls, events, failed, .. } = exporter;
    failed.map_or(Ok(()), Err)?;
    file.write(b"\n]}\n")?;
    file.commit()?;
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

/// What stands in a trace for a thread's signal handlers that interrupted a recording: no thread has such a number.
const HANDLERS: u64 = 1 << 22;

/// An event of the Trace Event Format.
#[derive(Serialize)]
struct Event<'a> {
    /// What it is: `B`egin, `E`nd, `i`nstant, `M`etadata.
    ph: char,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    pid: u32,
    tid: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    args: BTreeMap<&'a str, Json>,
}

impl<'a> Event<'a> {
    fn new(ph: char, place: &Place, name: &'a str) -> Event<'a> {
        let tid = u64::from(place.level) * HANDLERS + u64::from(place.owner.tid);
        let (pid, args) = (place.owner.pid, BTreeMap::new());
        Event { ph, ts: None, pid, tid, cat: "", name, args }
    }
}

struct Exporter {
    file: OutputFile,
    metadata: Metadata,
    clock: Clock,
    symbols: Symbols,
    processes: HashSet<u32>,
    threads: HashSet<Place>,
    functions: HashMap<u32, Symbol>,
    /// What stands before the next event.
    separator: &'static str,
    calls: u64,
    events: u64,
    /// What ended the export; nothing is written after it.
    failed: Option<Error>,
}

impl Exporter {
    fn put(&mut self, event: &Event<'_>) -> Result<()> {
        self.file.write(std::mem::replace(&mut self.separator, ",\n").as_bytes())?;
        self.file.write(&serde_json::to_vec(event)?)
    }

    fn put_name(&mut self, kind: &str, place: &Place, name: &str) -> Result<()> {
        let args = BTreeMap::from([("name", name.into())]);
        self.put(&Event { args, ..Event::new('M', place, kind) })
    }

    /// Name a place's process and thread.
    fn introduce(&mut self, place: &Place) -> Result<()> {
        if !self.threads.insert(*place) {
            return Ok(());
        }
        let (process, tid) = (place.owner.process, place.owner.tid);
        if self.processes.insert(process) {
            // A forked child runs the program of the process that executed it.
            let name = self.metadata.program(process).unwrap_or_default().to_owned();
            self.put_name("process_name", place, &name)?;
        }
        if place.level > 0 {
            let name = format!("signal handlers in thread {tid}, depth {}", place.level);
            self.put_name("thread_name", place, &name)?;
        } else if let Some(name) = self.metadata.thread(process, tid).map(str::to_owned) {
            self.put_name("thread_name", place, &name)?;
        }
        Ok(())
    }

    fn time(&self, ticks: u64) -> Option<f64> {
        Some(self.clock.ns(ticks) as f64 / 1000.0)
    }

    fn write_step(&mut self, place: &Place, step: &Step, functions: &Functions) -> Result<()> {
        self.introduce(place)?;
        match *step {
            Step::Began { function: index, ticks } => {
                let (metadata, symbols) = (&self.metadata, &mut self.symbols);
                let describe = || functions.describe(index as usize, metadata, symbols);
                let function = self.functions.entry(index).or_insert_with(describe).clone();
                let mut event = Event::new('B', place, &function.name);
                (event.ts, event.cat) = (self.time(ticks), "function");
                event.args.extend(function.file.map(|file| ("file", file.into())));
                event.args.extend(function.line.map(|line| ("line", line.into())));
                self.put(&event)
            }
            Step::Ended { ticks, ended, .. } => {
                self.calls += 1;
                let how = match ended {
                    Ended::Returned => None,
                    Ended::Left => Some("left by longjmp"),
                    Ended::CutByLoss => Some("unknown: events were lost"),
                    Ended::Open => Some("not over when the recording was"),
                };
                let mut event = Event::new('E', place, "");
                event.ts = self.time(ticks);
                event.args.extend(how.map(|how| ("ended", how.into())));
                self.put(&event)
            }
        }
    }

    fn write_event(&mut self, place: &Place, record: &Record) -> Result<()> {
        self.introduce(place)?;
        self.events += 1;
        let number = || format!("type-{}", record.event_type);
        let name = record.schema.map_or_else(number, |schema| schema.name.clone());
        let args = record.fields().map(|field| (field.name, value(&field.value))).collect();
        let ts = self.time(record.ticks);
        self.put(&Event { ts, cat: "event", args, ..Event::new('i', place, &name) })
    }
}

fn value(of: &Value<'_>) -> Json {
    match of {
        Value::List(values) => values.iter().map(value).collect(),
        Value::Unsigned(value) => (*value).into(),
        Value::Signed(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Address(_) | Value::Text(_) => of.to_string().into(),
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
    file: GzEncoder<BufWriter<NamedTempFile>>,
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
        let file = GzEncoder::new(BufWriter::with_capacity(1 << 20, file), Compression::fast());
        Ok(OutputFile { path: path.to_owned(), file })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).with_context(|| failed(&self.path))
    }

    /// It is whole: give it its name.
    fn commit(self) -> Result<()> {
        let OutputFile { path, file } = self;
        let named = file.finish().and_then(|file| {
            let file = file.into_inner().map_err(|error| error.into_error())?;
            file.as_file().sync_all()?;
            file.persist_noclobber(&path).map_err(|error| error.error)
        });
        named.with_context(|| failed(&path)).map(drop)
    }
}

fn failed(path: &Path) -> String {
    format!("cannot write the export {}: nothing was kept", path.display())
}
