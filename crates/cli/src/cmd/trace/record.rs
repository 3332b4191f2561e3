// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `trace record`: record a command, a running program that uses libcasper, or the kernel.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use cowlab_observe::watch::Wanted;
use cowlab_recorder::{
    Account, Clock, Kernel, Options, ProbeCost, Recording, Request, WhenFull, become_user_of,
    children_left, collect_orphans, reap_and_find, record_modules,
};
use serde::Serialize;

use crate::args::{self, TraceRecordArgs, globs};
use crate::output;
use crate::signals;
use crate::usage::{EndedWith, WrongUsage};

#[derive(Serialize)]
struct RecordSummary {
    file: PathBuf,
    stored_events: u64,
    dropped_events: u64,
    overwritten_events: u64,
    no_buffer_events: u64,
    disk_lost_events: u64,
    lost_meta: u64,
    processes: u32,
    streams: u32,
    bytes: u64,
    /// As wait(2) gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_status: Option<i32>,
}

/// Run the verb.
pub fn run(json: bool, args: &TraceRecordArgs) -> Result<()> {
    if args.output.exists() && !args.force {
        bail!("{} exists: give another --output, or --force to replace it", args.output.display());
    }
    let interrupts = signals::last()?;
    if args.kernel && args.when_full == args::WhenFull::Wait {
        bail!(WrongUsage("--when-full wait: a kernel cannot wait for its reader".to_owned()));
    }
    let clock = Clock::choose();
    // Of the kernel's device, a reason for not measuring is one for not recording.
    let cost = if args.kernel {
        Some(ProbeCost::calibrate_kernel(clock)?)
    } else {
        ProbeCost::calibrate(clock).ok()
    };
    let (functions, exclude) = globs(&args.function);
    if !args.kernel && args.function.iter().any(|of| of != "!*") {
        let why = "--function: only with --kernel are some chosen; of a program all are recorded, or with '!*' none";
        bail!(WrongUsage(why.to_owned()));
    }
    let options = Options {
        when_full: when_full(args.when_full),
        buffer_bytes: args.buffer_bytes,
        buffers: args.buffers,
        only: args.only.clone(),
        functions: !args.function.iter().any(|of| of == "!*"),
        clock: Some(clock),
        kernel: args.kernel.then_some(Kernel { functions, exclude }),
    };
    let pid = args.target.as_ref().map(Wanted::only).transpose()?;
    let pid = pid.map(i32::cast_unsigned);
    let what = match pid {
        Some(pid) => format!("process {pid}"),
        None if args.kernel => format!("kernel {}", words(&args.command)).trim_end().to_owned(),
        None => words(&args.command),
    };
    // What the library asks for is found missing before a file is replaced.
    let library = args.preload.as_ref().map(|given| library(given.as_deref())).transpose()?;
    let recording =
        Recording::start(&args.output, options, &what, cost.as_ref()).map_err(usage_or_not)?;
    let limit = args.duration_s.map(Duration::from_secs_f64);
    let mut watch = Watch { recording, interrupts, limit, began: Instant::now(), json };
    let status = match pid {
        Some(pid) => {
            watch.process(pid)?;
            None
        }
        None if args.command.is_empty() => {
            watch.kernel()?;
            None
        }
        None => Some(watch.command(&args.command, library.as_deref())?),
    };
    // A kernel's first process is itself.
    let nobody = watch.recording.processes() == 0;
    if let Some(status) = status {
        watch.recording.file.header_mut().exit_status = status;
    }
    let (account, trouble) = watch.recording.finish()?;
    if nobody {
        let _ = std::fs::remove_file(&args.output);
        bail!(
            "{what} recorded nothing: it does not use libcasper, or could not enter the recording \
             (casper_status(3) tells it why). Link it (-lcasper), instrument it \
             with cowlab insert, or compile it with -finstrument-functions and use --preload"
        );
    }
    tell(json, args, &account, status)?;
    if let Some(error) = trouble {
        return Err(anyhow!(error).context(format!(
            "the trace lacks {} events; what was written before is good",
            account.disk_lost_events
        )));
    }
    if let Some(rule) = account.breach {
        bail!(
            "a program broke the rules of the recording's memory ({rule}), so the recording was \
             closed; what came before is in {}",
            args.output.display()
        );
    }
    match status {
        Some(status) if status != 0 => Err(EndedWith::of_wait_status(status).into()),
        _ => Ok(()),
    }
}

fn when_full(arg: args::WhenFull) -> WhenFull {
    match arg {
        args::WhenFull::Drop => WhenFull::Drop,
        args::WhenFull::Overwrite => WhenFull::Overwrite,
        args::WhenFull::Wait => WhenFull::Wait,
    }
}

/// Sizes that make no session are the caller's.
fn usage_or_not(error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    if text.starts_with("--") { WrongUsage(text).into() } else { error }
}

fn words(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// A recording that goes on until something ends it.
struct Watch {
    recording: Recording,
    interrupts: Arc<AtomicUsize>,
    limit: Option<Duration>,
    began: Instant,
    json: bool,
}

impl Watch {
    fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.began.elapsed() >= limit)
    }

    /// Nothing more that is recorded will come.
    fn ends_recording(&self) -> bool {
        self.signal().is_some() || self.is_over() || self.recording.is_closed()
    }

    /// The last signal that came, once.
    fn signal(&self) -> Option<i32> {
        let signal = self.interrupts.swap(0, Ordering::Relaxed);
        (signal != 0).then_some(signal as i32)
    }

    /// Run a command and record it and what it starts. Returns its wait status.
    fn command(&mut self, command: &[OsString], library: Option<&Path>) -> Result<i32> {
        let (program, arguments) = command.split_first().context("no command was given")?;
        // What the command leaves behind is recorded until it ends.
        collect_orphans()?;
        let mut start = Command::new(program);
        start.args(arguments);
        if self.json {
            // Standard output has the document, and nothing else.
            start.stdout(std::io::stderr());
        }
        if self.recording.session.options.kernel.is_none() {
            start.env("CASPER_SESSION", self.recording.session.path());
        }
        if let Some(library) = library {
            start.env("LD_PRELOAD", library);
        }
        let child = start
            .spawn()
            .inspect_err(|_| self.recording.discard())
            .with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
        let status = self.until_it_ends(child.id())?;
        self.until_orphans_end()?;
        Ok(status)
    }

    fn until_it_ends(&mut self, child: u32) -> Result<i32> {
        let mut signals = 0;
        loop {
            // Orphans are ours as soon as their parents end, and there may be any number of them.
            if let Some(status) = reap_and_find(child)? {
                return Ok(status);
            }
            if let Some(signal) = self.signal() {
                signals += 1;
                if signals == 1 {
                    signals::forward(signal, child.cast_signed());
                }
            }
            // The first is the command's.
            if signals > 1 || self.is_over() {
                return Ok(0);
            }
            self.recording.pump()?;
        }
    }

    fn until_orphans_end(&mut self) -> Result<()> {
        let mut told = false;
        let ended = Instant::now();
        while children_left() && self.signal().is_none() && !self.is_over() {
            if !told && ended.elapsed() > Duration::from_secs(2) {
                told = true;
                output::say(
                    "the command ended, processes that it started go on: Ctrl-C ends the recording",
                );
            }
            self.recording.pump()?;
        }
        Ok(())
    }

    /// Record the kernel until a signal comes or the time is over.
    fn kernel(&mut self) -> Result<()> {
        output::say("recording the kernel; Ctrl-C ends it");
        while !self.ends_recording() {
            self.recording.pump()?;
        }
        Ok(())
    }

    /// Ask a process to enter the session; first take on its user's rights, and no more.
    fn ask(&self, pid: u32) -> Result<Request> {
        self.recording.session.give_to_user_of(pid)?;
        become_user_of(pid)?;
        Request::make(pid, &self.recording.session.path())
    }

    /// Record a running process until a signal comes, the time is over, or it ends.
    fn process(&mut self, pid: u32) -> Result<()> {
        let request = self.ask(pid).inspect_err(|_| self.recording.discard())?;
        let mut entered = false;
        let exists = || Path::new(&format!("/proc/{pid}")).exists();
        output::say(&format!("recording process {pid}; Ctrl-C ends it"));
        while !self.ends_recording() && exists() {
            self.recording.pump()?;
            if !entered && self.recording.processes() > 0 {
                entered = true;
                // Late or never is no reason to end the recording: addresses stay numbers.
                let _ = record_modules(&mut self.recording.file, 1, pid);
            }
        }
        drop(request);
        Ok(())
    }
}

/// The library for LD_PRELOAD: as given, or beside the program.
fn library(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return path.canonicalize().with_context(|| format!("--preload={}", path.display()));
    }
    let program = std::env::current_exe()?;
    let near = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let places = [near.join("libcasper/libcasper.so.1"), near.join("lib/libcasper.so.1")];
    let found = places.iter().find(|place| place.exists());
    let missing =
        || anyhow!("libcasper.so.1 is not beside cowlab: say where it is with --preload=FILE");
    found.cloned().ok_or_else(missing)
}

fn tell(json: bool, args: &TraceRecordArgs, account: &Account, status: Option<i32>) -> Result<()> {
    if json {
        let counters = account.counters;
        let summary = RecordSummary {
            file: args.output.clone(),
            stored_events: account.stored_events,
            dropped_events: account.dropped_events,
            overwritten_events: account.overwritten_events,
            no_buffer_events: counters.no_buffer_events,
            disk_lost_events: account.disk_lost_events,
            lost_meta: counters.lost_meta,
            processes: counters.processes,
            streams: account.streams,
            bytes: account.bytes,
            exit_status: status,
        };
        return output::json_of(summary, &[], &[]);
    }
    let mut text = format!(
        "{}: {} events of {} processes, {} KiB",
        args.output.display(),
        account.stored_events,
        account.counters.processes,
        account.bytes >> 10
    );
    for (count, why) in [
        (account.dropped_events, "dropped: buffers were full (--buffer-bytes, --when-full wait)"),
        (account.overwritten_events, "overwritten by later ones"),
        (account.counters.no_buffer_events, "dropped: no buffer was free (--buffers)"),
        (account.disk_lost_events, "lost: the disk was full"),
    ] {
        if count > 0 {
            text += &format!("\n        {count} events {why}");
        }
    }
    if account.counters.abandoned {
        text += "\n        programs left the recording, since it stood still for 30 s";
    }
    output::say(&text);
    Ok(())
}
