// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of LTTng-UST, in both of its modes, and calls by its helper for -finstrument-functions.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::probes::{TraceResult, TraceRun, TraceSources};
use anyhow::{Context, Result, anyhow, bail};
use cowlab_schema::trace;
use rustix::process::{Pid, Signal, kill_process};

use super::{BENCH, INSTALL, Tool, Traced, run_of, samples};
use crate::task::Task;

/// How long the daemon may take to answer, and to go.
const PATIENCE: Duration = Duration::from_secs(5);

/// Memory for the buffers of all CPUs in the mode that must not lose an event.
const DISCARD_BYTES: u64 = 128 << 20;

/// The names that LTTng knows the measured events by.
const SAMPLE_EVENT: &str = "cowlab:sample";
const CALL_EVENTS: &str = "lttng_ust_cyg_profile_fast:*";

/// What a full buffer does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// It overwrites its oldest: a flight recorder, of which nothing is drained.
    Overwrite,
    /// It discards what comes. LTTng's consumer drains it into memory (/dev/shm).
    Discard,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Overwrite => "overwrite",
            Mode::Discard => "discard",
        }
    }
}

/// Tasks for each mode and number of threads, all with one daemon.
pub(super) fn tasks(cells: &[&Traced], sources: &Rc<TraceSources>) -> Result<Vec<Task>> {
    let version = version()?;
    let folder = sources.folder();
    let include = format!("-I{}", folder.join("trace").display());
    let flags = [include.as_str(), "-llttng-ust", "-ldl"];
    let events = sources
        .compile("trace_lttng.c", "events-lttng", &flags)
        .with_context(|| format!("LTTng-UST's headers (liblttng-ust-dev) are needed: {INSTALL}"))?;
    let calls = sources.compile(
        "trace_calls.c",
        "calls-lttng",
        &[
            "-finstrument-functions",
            "-finstrument-functions-exclude-file-list=probe.h,trace.h",
            // Its events at the beginning and the end of each function; nothing names it.
            "-Wl,--no-as-needed",
            "-llttng-ust-cyg-profile-fast",
        ],
    )?;
    let daemon = Rc::new(Daemon::start(folder)?);
    let mut tasks = Vec::new();
    for mode in [Mode::Overwrite, Mode::Discard] {
        for &cell in cells {
            let threads = cell.threads;
            let bytes = match mode {
                Mode::Overwrite => cell.buffer_bytes,
                Mode::Discard => per_cpu(DISCARD_BYTES),
            };
            let run = run_of(cell, bytes);
            // The drain has the warm lap behind it before the clock starts.
            let pause_ms = if mode == Mode::Discard { 500 } else { 0 };
            let run = TraceRun { pause_ms, ..run };
            let (daemon, events) = (Rc::clone(&daemon), events.clone());
            let (calls, version, sources) = (calls.clone(), version.clone(), Rc::clone(sources));
            let name = format!("{BENCH}: LTTng-UST {}, {threads} threads", mode.name());
            tasks.push(Task::new(name, move |runner, round| {
                let params = samples::params(Tool::LttngUst, mode.name(), &run, Some(&version));
                let output = sources.folder().join("lttng");
                let session = daemon.session(mode, bytes, SAMPLE_EVENT, &output)?;
                let result = run.run_command(runner, "trace_lttng", daemon.command(&events))?;
                if result.recorded != Some(true) {
                    bail!("LTTng recorded nothing: the program did not find its session daemon");
                }
                let lost = session.end()?;
                if lost == 0 {
                    samples::of_events(round, samples::EVENT, params.clone(), &result)?;
                }
                let is_first = round.number == 0;
                let mut out = round.record(BENCH, params.clone(), result.start_unix_ns);
                out.add(trace::LOST_EVENTS, lost);
                if mode == Mode::Discard && is_first {
                    out.add(trace::MISSING_EVENTS, missing_events(&output, &result)?);
                }
                let _ = std::fs::remove_dir_all(&output);
                if mode == Mode::Overwrite {
                    // Calls of functions that LTTng's helper library was told of by the compiler.
                    samples::of_calls(round, samples::CALLS, &params, &run, runner, |run| {
                        let (mode, no_output) = (Mode::Overwrite, Path::new(""));
                        let session = daemon.session(mode, bytes, CALL_EVENTS, no_output)?;
                        let command = daemon.command(&calls);
                        let result = run.run_command(runner, "trace_calls", command)?;
                        session.end()?;
                        Ok(result)
                    })?;
                }
                Ok(())
            }));
        }
    }
    Ok(tasks)
}

/// The share of one CPU in `bytes`: LTTng makes a buffer for each CPU that there may be. A power
/// of two, as it wants them.
fn per_cpu(bytes: u64) -> u64 {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible")
        .ok()
        .and_then(|text| text.trim().rsplit(['-', ',']).next()?.parse::<u64>().ok())
        .map_or(1, |last| last + 1);
    let share = (bytes / cpus).max(1 << 20);
    1 << share.ilog2()
}

fn version() -> Result<String> {
    let output = Command::new("lttng")
        .arg("--version")
        .output()
        .map_err(|_| anyhow!("LTTng (lttng-tools) is not installed: {INSTALL}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // "lttng (LTTng Trace Control) 2.13.9 - Nordicité"
    let number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let version = text.split_whitespace().find(number).context("lttng tells no version")?;
    Ok(version.to_owned())
}

/// Events that the program made and babeltrace2 does not find in the trace; 0 where there is no
/// babeltrace2 would be a lie, so that is an error.
fn missing_events(trace: &Path, result: &TraceResult) -> Result<f64> {
    let output = Command::new("babeltrace2")
        .args(["--component=sink.utils.counter", "--params=step=+0"])
        .arg(trace)
        .output()
        .map_err(|_| anyhow!("babeltrace2 is not installed: {INSTALL}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = counted_events(&text).with_context(|| {
        format!("babeltrace2 counted nothing: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    let made: u64 = result.made_events.iter().sum();
    Ok(made as f64 - found as f64)
}

/// The last "N Event messages" of babeltrace2's counter.
fn counted_events(text: &str) -> Option<u64> {
    let line = text.lines().rev().find(|line| line.trim_end().ends_with(" Event messages"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// LTTng's session daemon: one that runs already, or one of ours that ends with this.
struct Daemon {
    ours: Option<Child>,
    home: String,
}

impl Daemon {
    /// Start one unless there is one. Its files go to `folder` where LTTng lets them.
    fn start(folder: &Path) -> Result<Daemon> {
        let home = folder.join("lttng-home");
        std::fs::create_dir_all(&home)?;
        let mut daemon = Daemon { ours: None, home: home.to_string_lossy().into_owned() };
        if daemon.answers() {
            return Ok(daemon);
        }
        let log = std::fs::File::create(home.join("log"))?;
        // setpriv: however this program ends, the daemon ends with it, and its consumers with it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "lttng-sessiond", "--no-kernel"])
            .env("LTTNG_HOME", &daemon.home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot run lttng-sessiond")?;
        daemon.ours = Some(child);
        let began = Instant::now();
        while !daemon.answers() {
            let ended = daemon.ours.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() || began.elapsed() > PATIENCE {
                let said = std::fs::read_to_string(home.join("log")).unwrap_or_default();
                let last = said.lines().last().unwrap_or("it did not answer").to_owned();
                bail!("LTTng's session daemon does not start: {last}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(daemon)
    }

    /// A command that finds this daemon.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LTTNG_HOME", &self.home);
        // It waits for the daemon before main() for as long as it takes: no event is missed.
        command.env("LTTNG_UST_REGISTER_TIMEOUT", "-1");
        command
    }

    fn answers(&self) -> bool {
        self.lttng(&["list"]).is_ok()
    }

    fn lttng(&self, arguments: &[&str]) -> Result<String> {
        let output = self
            .command("lttng")
            .arg("--no-sessiond")
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .context("cannot run lttng")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("lttng {}: {}", arguments.join(" "), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A session that records `event` into buffers of `bytes` a CPU.
    fn session(&self, mode: Mode, bytes: u64, event: &str, output: &Path) -> Result<Session<'_>> {
        let name = format!("cowlab-{}", std::process::id());
        let output = format!("--output={}", output.display());
        match mode {
            Mode::Overwrite => self.lttng(&["create", &name, "--snapshot", "--no-output"])?,
            Mode::Discard => self.lttng(&["create", &name, &output])?,
        };
        let session = Session { daemon: self, name, ended: false };
        let name = &session.name;
        let subbuf = format!("--subbuf-size={}", bytes / 8);
        let mode = format!("--{}", mode.name());
        let channel = ["enable-channel", "-u", "-s", name, &mode, &subbuf, "--num-subbuf=8", "c"];
        self.lttng(&channel)?;
        self.lttng(&["enable-event", "-u", "-s", name, "-c", "c", event])?;
        self.lttng(&["start", name])?;
        Ok(session)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(child) = &mut self.ours else { return };
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A recording session. Dropped, it is no more.
struct Session<'a> {
    daemon: &'a Daemon,
    name: String,
    ended: bool,
}

impl Session<'_> {
    /// Stop it. How many events were discarded, and packets overwritten where that is a loss.
    fn end(mut self) -> Result<u64> {
        self.daemon.lttng(&["stop", &self.name])?;
        let listed = self.daemon.lttng(&["--mi=xml", "list", &self.name])?;
        self.ended = true;
        self.daemon.lttng(&["destroy", &self.name])?;
        discarded_events(&listed).context("lttng counts no discarded events")
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // Not waiting for its data: of a program that was killed in the middle of an event some
            // never comes, and LTTng would wait for it for ever.
            let _ = self.daemon.lttng(&["destroy", "--no-wait", &self.name]);
        }
    }
}

/// Sum of the <discarded_events> in what `lttng --mi=xml list` prints.
fn discarded_events(xml: &str) -> Option<u64> {
    let mut counts = xml
        .split("<discarded_events>")
        .skip(1)
        .map(|rest| rest.split('<').next().unwrap_or("").parse::<u64>().ok())
        .peekable();
    counts.peek()?;
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_read_from_what_lttng_lists() {
        let xml = "<channel><discarded_events>3</discarded_events></channel>\
                   <channel><discarded_events>4</discarded_events></channel>";
        assert_eq!(discarded_events(xml), Some(7));
        assert_eq!(discarded_events("<channel/>"), None);
        assert_eq!(discarded_events("<discarded_events>?</discarded_events>"), None);
    }

    #[test]
    fn the_last_count_of_babeltrace2_is_taken() {
        let text = "          10001 Event messages\n 2 Stream beginning messages\n\n\
                    61277 Event messages\n 61297 messages (TOTAL)\n";
        assert_eq!(counted_events(text), Some(61277));
        assert_eq!(counted_events("nothing"), None);
    }

    #[test]
    fn buffers_are_powers_of_two() {
        assert!(per_cpu(256 << 20).is_power_of_two());
        assert!(per_cpu(1) >= 1 << 20);
    }
}
