// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `record`: record a command, a running program that uses libcasper, or the kernel.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use cowlab_recorder::{
    Account, Clock, Kernel, Options, ProbeCost, Recording, Request, Target, WhenFull,
    children_left, collect_orphans, reap_and_find, record_modules,
};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde::Serialize;

use cowlab_document::output;
use cowlab_document::usage::{EndedWith, WrongUsage, cannot_start};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use super::args::{RecordArgs, globs};

#[derive(Serialize)]
struct RecordSummary<'a> {
    file: &'a Path,
    #[serde(flatten)]
    account: &'a Account,
    /// As wait(2) gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_status: Option<i32>,
}

pub fn run(json: bool, args: &RecordArgs) -> Result<()> {
    if args.output.symlink_metadata().is_ok() && !args.force {
        bail!("{} exists: give another --output, or --force to replace it", args.output.display());
    }
    let signals = Signals(SignalsInfo::new([SIGINT, SIGTERM])?);
    if args.kernel && args.when_full == WhenFull::Wait {
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
        let why = "--function chooses functions only with --kernel; of a program all are recorded, or none with '!*'";
        bail!(WrongUsage(why.to_owned()));
    }
    let options = Options {
        when_full: args.when_full,
        buffer_bytes: args.buffer_bytes,
        buffers: args.buffers,
        only: args.only.clone(),
        functions: !args.function.iter().any(|of| of == "!*"),
        clock: Some(clock),
        kernel: args.kernel.then_some(Kernel { functions, exclude }),
    };
    let target = args.pid.map(Target::find).transpose()?;
    let what = match target {
        Some(target) => format!("process {}", target.pid),
        None if args.kernel => format!("kernel {}", words(&args.command)).trim_end().to_owned(),
        None => words(&args.command),
    };
    // What the library asks for is found missing before a file is replaced.
    let library = args.preload.as_ref().map(|given| library(given.as_deref())).transpose()?;
    let recording = Recording::start(&args.output, args.force, options, &what, cost.as_ref())
        .map_err(usage_or_not)?;
    let limit = args.duration_s.map(Duration::from_secs_f64);
    let mut watch = Watch { recording, signals, limit, began: Instant::now(), json };
    // However it ended, what was recorded is brought to an end.
    let ended = match target {
        Some(target) => watch.process(target).map(|()| None),
        None if args.command.is_empty() => {
            watch.kernel();
            Ok(None)
        }
        None => watch.command(&args.command, library.as_deref()).map(Some),
    };
    if let Ok(Some(status)) = ended {
        watch.recording.file.header_mut().exit_status = status;
    }
    let (account, trouble) = watch.recording.finish();
    // By what the recorder counted itself: of shared counts a program may make anything.
    if account.streams == 0 && account.counters.processes == 0 && account.breach.is_none() {
        let _ = std::fs::remove_file(&args.output);
        ended?;
        bail!(
            "{what} recorded nothing: it does not use libcasper, or could not enter the recording \
             (casper_status(3) tells it why). Link it (-lcasper), instrument it \
             with casper-trace insert, or compile it with -finstrument-functions and use --preload"
        );
    }
    tell(json, args, &account, ended.as_ref().ok().copied().flatten())?;
    let lacks = account.disk_lost_events.saturating_add(account.counters.no_buffer_events);
    let trouble = trouble.map(|error| {
        error.context(format!("the trace lacks {lacks} events; what was written before is good"))
    });
    let closed = account.breach.map(|_| {
        anyhow!("the recording was closed early; what came before is in {}", args.output.display())
    });
    let errors = [ended.as_ref().err(), trouble.as_ref(), closed.as_ref()].into_iter().flatten();
    let errors: Vec<_> = errors.map(|error| format!("{error:#}")).collect();
    ensure!(errors.is_empty(), errors.join("; "));
    match ended? {
        Some(status) if status != 0 => Err(EndedWith::of_wait_status(status).into()),
        _ => Ok(()),
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

/// Ctrl-C and SIGTERM, which end nothing by themselves: each that came is kept until it is asked for.
struct Signals(SignalsInfo<WithRawSiginfo>);

impl Signals {
    fn next(&mut self) -> Option<i32> {
        self.0.pending().next().map(|signal| signal.si_signo)
    }
}

/// Tells the command to end, as this program was told. Ctrl-C the terminal sends it as well.
fn forward(signal: i32, command: u32) {
    if signal == SIGTERM
        && let Some(pid) = Pid::from_raw(command.cast_signed())
    {
        // One that cannot be told, or not any more, is let go by the next signal.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// A recording that goes on until something ends it.
struct Watch {
    recording: Recording,
    signals: Signals,
    limit: Option<Duration>,
    began: Instant,
    json: bool,
}

impl Watch {
    fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.began.elapsed() >= limit)
    }

    /// Nothing more that is recorded will come.
    fn ends_recording(&mut self) -> bool {
        self.signals.next().is_some() || self.is_over() || self.recording.is_closed()
    }

    /// Take what was recorded. That a program had the recording closed is said at once.
    fn pump(&mut self) {
        let was_closed = self.recording.is_closed();
        self.recording.pump();
        if let (false, Some(rule)) = (was_closed, self.recording.breach()) {
            output::say(&format!(
                "a program broke the rules of the recording's memory ({rule}), so the recording \
                 is closed"
            ));
        }
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
        let child = start.spawn().with_context(|| cannot_start(program))?;
        let status = self.until_it_ends(child.id())?;
        self.until_orphans_end();
        Ok(status)
    }

    fn until_it_ends(&mut self, child: u32) -> Result<i32> {
        let mut signals = 0;
        loop {
            // Orphans are ours as soon as their parents end, and there may be any number of them.
            if let Some(status) = reap_and_find(child)? {
                return Ok(status);
            }
            if let Some(signal) = self.signals.next() {
                signals += 1;
                if signals == 1 {
                    forward(signal, child);
                }
            }
            // The first is the command's.
            if signals > 1 || self.is_over() {
                return Ok(0);
            }
            self.pump();
        }
    }

    fn until_orphans_end(&mut self) {
        let mut told = false;
        let ended = Instant::now();
        while children_left() && self.signals.next().is_none() && !self.is_over() {
            if !told && ended.elapsed() > Duration::from_secs(2) {
                told = true;
                output::say(
                    "the command ended, processes that it started go on: Ctrl-C ends the recording",
                );
            }
            self.pump();
        }
    }

    /// Record the kernel until a signal comes or the time is over.
    fn kernel(&mut self) {
        output::say("recording the kernel; Ctrl-C ends it");
        while !self.ends_recording() {
            self.pump();
        }
    }

    /// Record a running process until a signal comes, the time is over, or it ends.
    fn process(&mut self, target: Target) -> Result<()> {
        if target.is_anothers() {
            self.recording.session.give_to(&target)?;
            target.become_its_user()?;
        }
        let pid = target.pid;
        let request = Request::make(pid, &self.recording.session.path())?;
        let mut entered = false;
        let exists = || Path::new(&format!("/proc/{pid}")).exists();
        output::say(&format!("recording process {pid}; Ctrl-C ends it"));
        while !self.ends_recording() && exists() {
            self.pump();
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

/// The library for LD_PRELOAD: as given, or beside the program if nobody else can have put it there.
fn library(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return path.canonicalize().with_context(|| format!("--preload={}", path.display()));
    }
    let program = std::env::current_exe()?;
    let near = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    // As built, as installed by us, and as Debian installs it.
    let debian = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let places = ["libcasper", "lib", &debian].map(|at| near.join(at).join("libcasper.so.1"));
    let found = places.iter().find(|place| place.exists());
    let missing = || {
        anyhow!("libcasper.so.1 is not beside casper-trace: say where it is with --preload=FILE")
    };
    let found = found.ok_or_else(missing)?.canonicalize()?;
    for part in found.ancestors() {
        let is = part.metadata()?;
        // Of a folder like /tmp, only what stands in it has to be ours.
        let writable = is.mode() & 0o022 != 0 && !(is.is_dir() && is.mode() & 0o1000 != 0);
        ensure!(
            !writable && [0, geteuid().as_raw()].contains(&is.uid()),
            "other users can change {}, so {} is not loaded: give --preload=FILE",
            part.display(),
            found.display()
        );
    }
    Ok(found)
}

fn tell(json: bool, args: &RecordArgs, account: &Account, status: Option<i32>) -> Result<()> {
    if json {
        let summary = RecordSummary { file: &args.output, account, exit_status: status };
        return output::json(&summary);
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
        text += "\n        a program found this recorder gone for 30 s, left, and gave back the recording's \
             memory: what was not stored by then is lost";
    }
    output::say(&text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use signal_hook::low_level::raise;

    use super::*;

    /// The first is the command's, the second ends the recording: two that come together are two.
    #[test]
    fn two_signals_are_two() {
        let mut signals = Signals(SignalsInfo::new([SIGINT, SIGTERM]).unwrap());
        raise(SIGTERM).unwrap();
        raise(SIGTERM).unwrap();
        let seen = [(); 3].map(|()| signals.next());
        assert_eq!(seen, [Some(SIGTERM), Some(SIGTERM), None]);
    }
}
