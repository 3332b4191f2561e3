// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a probe in a process group of its own, times it from outside, and leaves none of its
//! processes behind, however it ends.

use std::cell::{self, OnceCell};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, bail};
use cowlab_schema::Cell;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{self, Pid, PidfdFlags, Signal, WaitOptions};

use crate::probes::program::{Program, path};
use crate::probes::rows::Rows;

/// A probe that takes longer has hung, or was asked for too much.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

/// Ctrl-C was pressed: the probe and its children are gone.
#[derive(Debug)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted: the measured programs were ended")
    }
}

impl std::error::Error for Interrupted {}

/// A probe's run as its parent sees it: what a shell's `time` would print.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outside {
    pub real_ns: u64,
    /// User time of the program and of the children that it waited for.
    pub user_ns: u64,
    /// System time of the same.
    pub sys_ns: u64,
    /// Minor faults of the same.
    pub minor_faults: u64,
}

/// A program that ended well, as its parent saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    pub outside: Outside,
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    pub pid: u32,
    pub printed: Vec<u8>,
}

/// What one run of a probe gave.
#[derive(Debug)]
pub struct Outcome {
    pub rows: Rows,
    pub outside: Outside,
    /// When it was started, in ns since the Unix epoch.
    pub start_unix_ns: i64,
    /// Its process id, for what others recorded about it.
    pub pid: u32,
}

/// A cell that one of the programs measures.
pub trait Probe: Cell {
    const PROGRAM: Program;
    type Result;

    /// What the program is told beside the cell.
    fn beside(&self, runner: &Runner) -> Result<Vec<String>> {
        Ok(runner.warm_flag().into_iter().collect())
    }

    fn read(outcome: Outcome) -> Result<Self::Result>;

    fn run(&self, runner: &Runner) -> Result<Self::Result> {
        let arguments = [self.beside(runner)?, self.arguments()].concat();
        Self::read(runner.run(Self::PROGRAM, &arguments)?)
    }
}

/// Runs probes one at a time.
pub struct Runner {
    interrupted: Arc<AtomicBool>,
    /// Each is loaded when it is first run.
    programs: Vec<(Program, OnceCell<File>)>,
    pub(crate) kept_warm: cell::Cell<bool>,
}

impl Runner {
    /// A runner that gives up when `interrupted` is set (by a signal handler).
    pub fn new(interrupted: Arc<AtomicBool>) -> Result<Runner> {
        // Children that a probe leaves behind become ours, so that they can be reaped.
        process::set_child_subreaper(Some(process::getpid()))
            .context("cannot become the reaper of orphaned children (PR_SET_CHILD_SUBREAPER)")?;
        let programs = Program::ALL.iter().map(|program| (*program, OnceCell::new())).collect();
        Ok(Runner { interrupted, programs, kept_warm: cell::Cell::new(false) })
    }

    pub(crate) fn file_of(&self, program: Program) -> Result<&File> {
        let loaded = self.programs.iter().find(|(candidate, _)| *candidate == program);
        let (_, file) = loaded.expect("all programs are known");
        match file.get() {
            Some(file) => Ok(file),
            None => {
                let loaded = program.load()?;
                Ok(file.get_or_init(|| loaded))
            }
        }
    }

    /// The path of the tiny program, as a probe may execute it.
    pub(crate) fn tiny_path(&self) -> Result<String> {
        Ok(path(self.file_of(Program::Tiny)?))
    }

    /// The flag by which a probe warms memory itself, unless it is kept warm for all of them.
    pub(crate) fn warm_flag(&self) -> Option<String> {
        (!self.kept_warm.get()).then(|| "--warm".to_owned())
    }

    /// Whether Ctrl-C was pressed.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Run `program` with `arguments` until it ends.
    pub fn run(&self, program: Program, arguments: &[String]) -> Result<Outcome> {
        let mut command = Command::new(path(self.file_of(program)?));
        command.arg0(program.name()).args(arguments);
        let name = program.name();
        let Timed { outside, start_unix_ns, pid, printed } = self.time_command(name, command)?;
        let printed = String::from_utf8(printed).context("a probe printed what is not text")?;
        let rows = Rows::decode(&printed).with_context(|| format!("output of {name}"))?;
        Ok(Outcome { rows, outside, start_unix_ns, pid })
    }

    /// Run `command`, whatever it prints, until it and all that it started end.
    pub fn time_command(&self, name: &str, mut command: Command) -> Result<Timed> {
        if self.is_interrupted() {
            return Err(Interrupted.into());
        }
        // Files, not pipes: reading must not wake this process while it measures.
        let (mut stdout, mut stderr) = (buffer("rows")?, buffer("messages")?);
        let start_unix_ns = unix_ns();
        let before = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let began = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .process_group(0)
            .spawn()
            .map_err(|error| cannot_start(name, error))?;
        let mut group = ProcessGroup { child, ended: false };
        let status = group.wait(&self.interrupted, began)?;
        let real_ns = began.elapsed().as_nanos() as u64;
        let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let between = |a: TimeVal, b: TimeVal| ((b - a).num_microseconds() * 1000) as u64;
        let outside = Outside {
            real_ns,
            user_ns: between(before.user_time(), after.user_time()),
            sys_ns: between(before.system_time(), after.system_time()),
            minor_faults: (after.minor_page_faults() - before.minor_page_faults()) as u64,
        };
        let pid = group.child.id();
        group.wait_for_orphans(&self.interrupted)?;
        drop(group);

        let (printed, said) = (contents(&mut stdout)?, contents(&mut stderr)?);
        let said = String::from_utf8_lossy(&said);
        let said = said.trim();
        match (status.code(), status.signal()) {
            (Some(0), _) => {}
            (Some(code), _) if said.is_empty() => bail!("{} ended with {code}", name),
            (Some(_), _) => bail!("{said}"),
            (None, signal) => bail!(
                "{} was killed by signal {}{}{said}",
                name,
                signal.unwrap_or(0),
                if signal == Some(9) { " (out of memory?) " } else { " " }
            ),
        }
        Ok(Timed { outside, start_unix_ns, pid, printed })
    }
}

/// A probe and whatever it forks. Dropped, none of them is left.
struct ProcessGroup {
    child: Child,
    ended: bool,
}

impl ProcessGroup {
    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Wait for the program itself, by a descriptor, so that signals can be noticed.
    fn wait(&self, interrupted: &AtomicBool, began: Instant) -> Result<std::process::ExitStatus> {
        let pidfd = process::pidfd_open(self.id(), PidfdFlags::empty())
            .context("cannot watch the probe (pidfd_open needs Linux 5.3)")?;
        let tick = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        loop {
            let mut watched = [PollFd::new(&pidfd, PollFlags::IN)];
            let ready = poll(&mut watched, Some(&tick));
            if interrupted.load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
            if matches!(ready, Ok(1..)) {
                break;
            }
            if began.elapsed() > TIME_LIMIT {
                bail!("the probe did not end within {} s", TIME_LIMIT.as_secs());
            }
        }
        let (_, status) = process::waitpid(Some(self.id()), WaitOptions::empty())?
            .ok_or_else(|| anyhow!("the probe's status is not available"))?;
        Ok(std::process::ExitStatus::from_raw(status.as_raw()))
    }

    /// Reap the children that the program did not wait for.
    fn wait_for_orphans(&mut self, interrupted: &AtomicBool) -> Result<()> {
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
            match process::waitpgid(self.id(), WaitOptions::NOHANG) {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    self.ended = true;
                    return Ok(());
                }
            }
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let _ = process::kill_process_group(self.id(), Signal::KILL);
        while let Ok(Some(_)) = process::waitpgid(self.id(), WaitOptions::empty()) {}
    }
}

/// Why a program did not start, with what to do about it.
pub(crate) fn cannot_start(name: &str, error: std::io::Error) -> anyhow::Error {
    let limit = match error.kind() {
        std::io::ErrorKind::WouldBlock => ": the limit on processes is reached (ulimit -u)",
        _ => "",
    };
    anyhow!(error).context(format!("cannot start {name}{limit}"))
}

fn buffer(name: &str) -> Result<File> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC).context("cannot make a file in memory")?;
    Ok(File::from(file))
}

fn contents(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Now, in ns since the Unix epoch.
pub fn unix_ns() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as i64)
}
