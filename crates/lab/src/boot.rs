// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots a kernel, runs a command or a shell in it, and brings its status and its log home.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cowlab_machine::{Facts, Root};
use rustix::process::{Pid, Signal, kill_process};

use crate::console::{self, Complaint};
use crate::qemu::{self, Machine, Place};
use crate::tools;
use crate::watch::Watch;

/// The guest's first process.
const INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/init"));

/// What QEMU itself takes beside the guest's memory.
const QEMU_BYTES: u64 = 384 << 20;

/// Lines of a dead guest's log that are shown.
const SHOWN_LINES: usize = 30;

/// How long QEMU may take to end when it is told to.
const GRACE: Duration = Duration::from_secs(2);

pub struct Guest<'a> {
    pub machine: Machine<'a>,
    pub time_limit: Duration,
    /// A folder of the host that it can write to, under the same path there. Made if need be; what
    /// is in it stays, with the guest's log as `console.log`. It is cowlab's own, because `init`,
    /// `run` and `status` are written there, too: for a user's folder there is [`share`].
    pub folder: &'a Path,
    /// The command with its arguments; a shell on this terminal if not given.
    pub command: Option<&'a [OsString]>,
    /// Its input; nothing if not given.
    pub input: Option<Box<dyn Read + Send>>,
    /// Where its output goes, as it comes.
    pub output: &'a mut (dyn Write + Send),
    /// Where its messages go, as they come, and QEMU's.
    pub messages: &'a mut (dyn Write + Send),
}

#[derive(Debug)]
pub struct Ended {
    /// The command's exit status, as a shell gives it.
    pub status: u8,
    /// The kernel's log: a file.
    pub console: PathBuf,
    /// What in it says that the kernel is broken.
    pub complaints: Vec<Complaint>,
    /// From QEMU's start to the command's first output, if there was any.
    pub first_output: Option<Duration>,
    /// From QEMU's start to its end.
    pub duration: Duration,
}

/// Boot `guest`, and wait until its command has ended. Fails if the host has too little memory or
/// no QEMU, and if the guest dies or exceeds its time limit: its log is kept, and the log's end is
/// in the error. Where an old QEMU's CPU ran code that the kernel was patching while it booted, it
/// is booted once more.
pub fn boot(mut guest: Guest<'_>, watch: &Watch<'_>) -> Result<Ended> {
    match attempt(&mut guest, watch) {
        Err(error) if error.is::<RanPatchedCode>() => {
            watch.say("the guest's kernel met its own breakpoint at boot (a fault of QEMU before 8.1): again");
            attempt(&mut guest, watch)
        }
        ended => ended,
    }
}

/// The guest died at boot of a breakpoint that its kernel had set and taken back.
#[derive(Debug)]
struct RanPatchedCode(String);

impl std::error::Error for RanPatchedCode {}

impl std::fmt::Display for RanPatchedCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn attempt(guest: &mut Guest<'_>, watch: &Watch<'_>) -> Result<Ended> {
    check_tools()?;
    let image = guest.machine.image;
    check_memory(&Facts::probe(&Root::default()), guest.machine.memory_bytes)?;
    if !image.is_file() {
        bail!("there is no kernel {}", image.display());
    }
    let folder = make_folder(guest)?;
    let console = folder.join("console.log");
    let terminal = guest.command.is_none();
    let patches_unsafely = qemu::patches_unsafely(&tools::version(qemu::PROGRAM)?);
    let by_turns = !guest.machine.measured && patches_unsafely;
    let place = Place { folder: &folder, console: &console, terminal };
    let began = Instant::now();
    let piped = || if terminal { Stdio::inherit() } else { Stdio::piped() };
    // QEMU ends when this thread does, however that happens.
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", qemu::PROGRAM])
        .args(guest.machine.arguments(&place, by_turns))
        .stdin(if guest.input.is_some() || terminal { piped() } else { Stdio::null() })
        .stdout(piped())
        .stderr(piped())
        .spawn()
        .with_context(|| format!("cannot run setpriv and QEMU: {}", tools::HELP))?;
    if let (Some(mut input), Some(mut to)) = (guest.input.take(), child.stdin.take()) {
        // Not joined: it may wait for somebody who types.
        thread::spawn(move || std::io::copy(&mut input, &mut to));
    }
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let first = Mutex::new(None);
    let said = Mutex::new(Vec::new());
    let waited = thread::scope(|scope| {
        let (first, said) = (&first, &said);
        let (output, messages) = (&mut *guest.output, &mut *guest.messages);
        if let Some(from) = out {
            scope.spawn(move || {
                pass_on(from, output, |_| {
                    first.lock().expect("nobody panics").get_or_insert(began.elapsed());
                });
            });
        }
        if let Some(from) = err {
            scope.spawn(move || {
                pass_on(from, messages, |bytes| {
                    said.lock().expect("nobody panics").extend_from_slice(bytes);
                });
            });
        }
        wait(&mut child, terminal, guest.time_limit, watch)
    });
    let log = fs::read(&console).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let end = || {
        // Nobody keeps an empty one, so that it is not named either.
        if log.is_empty() {
            return "its log is empty".to_owned();
        }
        let tail = console::tail(&log, SHOWN_LINES);
        let tail = if tail.is_empty() { "nothing" } else { &tail };
        format!("its log, {}, ends:\n{tail}", console.display())
    };
    let Some(status) = waited? else {
        let limit = guest.time_limit.as_secs();
        bail!(
            "the guest did not end within {limit} s (--guest time_limit_s=SECONDS) and was killed; {}",
            end()
        );
    };
    let ended = fs::read_to_string(folder.join("status")).ok();
    let Some(ended) = ended.and_then(|text| text.trim().parse().ok()) else {
        if log.is_empty() {
            let said = said.into_inner().expect("nobody panics");
            bail!("QEMU started no guest ({status}): {}", String::from_utf8_lossy(&said).trim());
        }
        let died =
            if log.contains("Kernel panic") { "panicked" } else { "ended before its command" };
        let died = format!("the guest {died}; {}", end());
        let silent = first.into_inner().expect("nobody panics").is_none();
        if patches_unsafely && silent && log.contains("Oops: int3") {
            return Err(RanPatchedCode(died).into());
        }
        bail!(died);
    };
    Ok(Ended {
        status: ended,
        complaints: console::complaints(&log),
        console,
        first_output: first.into_inner().expect("nobody panics"),
        duration: began.elapsed(),
    })
}

/// Fail if the host cannot run guests.
pub fn check_tools() -> Result<()> {
    let missing: Vec<&str> =
        [qemu::PROGRAM, "setpriv"].into_iter().filter(|name| tools::find(name).is_none()).collect();
    if !missing.is_empty() {
        bail!("no guest can be booted without {}: {}", missing.join(", "), tools::HELP);
    }
    Ok(())
}

/// Fail if the host has no room for a guest of that size.
fn check_memory(facts: &Facts, memory_bytes: u64) -> Result<()> {
    let available = facts.memory.as_ref().and_then(|memory| memory.available_bytes);
    let limits = [
        available.map(|bytes| (bytes, "available (MemAvailable)".to_owned())),
        facts
            .cgroup
            .tightest_max()
            .map(|bound| (bound.free_bytes(), format!("left ({})", bound.file))),
    ];
    let needed = memory_bytes.saturating_add(QEMU_BYTES);
    let least = limits.into_iter().flatten().min_by_key(|(bytes, _)| *bytes);
    if let Some((bytes, what)) = least.filter(|(bytes, _)| *bytes < needed) {
        bail!(
            "a guest of {} MiB needs {} MiB on this machine, where {} MiB are {what}: give it less \
             with --guest memory=SIZE",
            memory_bytes >> 20,
            needed >> 20,
            bytes >> 20
        );
    }
    Ok(())
}

/// What is added to a guest's kernel arguments and to QEMU's, so that it can write to one more
/// folder of the host, under the same path there. The folder is made if need be, and nothing in it
/// is touched. Fails if the folder cannot be made, or its path cannot be passed on.
pub fn share(folder: &Path) -> Result<(String, Vec<OsString>)> {
    let folder = open_folder(folder)?;
    let Some(path) = folder.to_str() else {
        bail!("{}: a guest's folder must have a path in UTF-8", folder.display());
    };
    let qemu_arguments: Vec<OsString> = vec![
        "-fsdev".into(),
        // A comma ends an option's value for QEMU, unless it is doubled.
        format!(
            "local,id=apart,path={},security_model=none,multidevs=remap",
            path.replace(',', ",,")
        )
        .into(),
        "-device".into(),
        "virtio-9p-pci,fsdev=apart,mount_tag=cowlab_share".into(),
    ];
    // What is no kernel's parameter becomes init's environment.
    Ok((format!("cowlab_share={path}"), qemu_arguments))
}

/// The path of a folder, which is made if need be, as a guest can be told it.
fn open_folder(folder: &Path) -> Result<PathBuf> {
    let cannot = || format!("cannot write to {}", folder.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    let folder = folder.canonicalize().with_context(cannot)?;
    // The kernel's command line knows no other quotes.
    if folder.as_os_str().as_bytes().iter().any(|byte| byte.is_ascii_whitespace() || *byte == b'"')
    {
        bail!("{}: a guest's folder may have no space in its path", folder.display());
    }
    Ok(folder)
}

/// The guest's folder with what it needs to begin.
fn make_folder(guest: &Guest<'_>) -> Result<PathBuf> {
    let cannot = || format!("cannot write to {}", guest.folder.display());
    let folder = open_folder(guest.folder)?;
    for name in ["status", "console.log"] {
        let _ = fs::remove_file(folder.join(name));
    }
    let init = folder.join("init");
    fs::write(&init, INIT).with_context(cannot)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).with_context(cannot)?;
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    fs::write(folder.join("run"), script(&here, guest.command)).with_context(cannot)?;
    Ok(folder)
}

fn script(here: &Path, command: Option<&[OsString]>) -> Vec<u8> {
    let mut text = Vec::new();
    for name in ["PATH", "HOME", "USER", "TERM", "LANG", "LC_ALL"] {
        if let Some(value) = std::env::var_os(name) {
            text.extend_from_slice(format!("export {name}=").as_bytes());
            quote(&value, &mut text);
            text.push(b'\n');
        }
    }
    text.extend_from_slice(b"cd ");
    quote(here.as_os_str(), &mut text);
    // A folder of the host's that the guest does not see.
    text.extend_from_slice(b" 2>/dev/null || cd /\n");
    match command {
        None => {
            if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdin()) {
                let (rows, columns) = (size.ws_row, size.ws_col);
                text.extend(format!("stty rows {rows} cols {columns}\n").as_bytes());
            }
            text.extend_from_slice(b"exec \"${SHELL:-/bin/sh}\" -i\n");
        }
        Some(words) => {
            text.extend_from_slice(b"exec");
            for word in words {
                text.push(b' ');
                quote(word, &mut text);
            }
            text.push(b'\n');
        }
    }
    text
}

pub(crate) fn quote(word: &OsStr, text: &mut Vec<u8>) {
    text.push(b'\'');
    for byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            _ => text.push(*byte),
        }
    }
    text.push(b'\'');
}

/// Pass what comes to `to` until its end. A reader that has gone is no reason to stall the guest.
fn pass_on(mut from: impl Read, to: &mut dyn Write, mut see: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                see(&buffer[..length]);
                let _ = to.write_all(&buffer[..length]).and_then(|()| to.flush());
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// QEMU's status, or none where it was killed at its limit.
fn wait(
    child: &mut Child,
    terminal: bool,
    limit: Duration,
    watch: &Watch<'_>,
) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            watch.check()?;
            return Ok(Some(status));
        }
        if watch.check().is_err() || began.elapsed() > limit {
            end(child, terminal)?;
            watch.check()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Told to end, QEMU puts the terminal back; if it has none, there is nothing to wait for.
fn end(child: &mut Child, terminal: bool) -> Result<()> {
    let began = Instant::now();
    if terminal {
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
    }
    while terminal && began.elapsed() < GRACE {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cowlab_machine::memory::Memory;

    #[test]
    fn words_reach_the_guest_as_they_are() {
        let words = ["echo".into(), "it's $HOME".into(), OsString::from("\\ \"x\"")];
        let text = String::from_utf8(script(Path::new("/a b"), Some(&words))).unwrap();
        assert!(text.contains("cd '/a b' 2>"), "{text}");
        assert!(text.ends_with("exec 'echo' 'it'\\''s $HOME' '\\ \"x\"'\n"), "{text}");
    }

    #[test]
    fn a_shared_folder_is_named_to_the_kernel_and_to_qemu() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path().canonicalize().unwrap();
        let (kernel, qemu) = share(&base.join("a,b")).unwrap();
        assert_eq!(kernel, format!("cowlab_share={}/a,b", base.display()));
        let file_system = qemu[1].to_str().unwrap();
        assert!(file_system.contains(&format!("path={}/a,,b,", base.display())), "{file_system}");
        assert_eq!(fs::read_dir(base.join("a,b")).unwrap().count(), 0);
        let error = share(&base.join("a b")).unwrap_err().to_string();
        assert!(error.contains("no space in its path"), "{error}");
    }

    #[test]
    fn a_host_without_room_refuses_before_it_starts() {
        let mut facts = Facts::probe(&Root::new("/nowhere"));
        check_memory(&facts, 4 << 30).unwrap();
        facts.memory = Some(Memory { available_bytes: Some(2 << 30), ..Memory::default() });
        check_memory(&facts, 1 << 30).unwrap();
        let error = check_memory(&facts, 2 << 30).unwrap_err().to_string();
        assert!(error.starts_with("a guest of 2048 MiB needs 2432 MiB"), "{error}");
        assert!(
            error.contains("2048 MiB are available") && error.contains("--guest memory"),
            "{error}"
        );
    }
}
