// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the kernel's make: with an environment of its own, watched, and ended when we end.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::tools::HELP;
use crate::watch::Watch;

/// Lines of a compiler's complaint that are shown; all are in the log.
const SHOWN_LINES: usize = 30;

/// A make in one tree.
pub struct Make<'a> {
    /// The kernel's tree.
    pub tree: &'a Path,
    /// Jobs at once.
    pub jobs: usize,
    /// Where everything that it prints is kept.
    pub log: &'a Path,
    /// What its release ends with.
    pub local_version: &'a str,
}

impl Make<'_> {
    /// Make `targets`; the number of objects made. `expected` is for the progress.
    pub fn run(&self, targets: &[&str], expected: Option<u64>, watch: &Watch<'_>) -> Result<u64> {
        let cannot = || format!("cannot write {}", self.log.display());
        let mut log =
            File::options().create(true).append(true).open(self.log).with_context(cannot)?;
        let (reader, writer) = std::io::pipe()?;
        let mut child = self
            .command(targets, writer)?
            .spawn()
            .with_context(|| format!("cannot run setpriv and make: {HELP}"))?;
        let (send, lines) = channel();
        let reading = std::thread::spawn(move || {
            for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
                if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let group = Pid::from_child(&child);
        let (mut objects, mut tail) = (0, Vec::new());
        loop {
            if let Err(interrupted) = watch.check() {
                // make removes what is half made.
                let _ = kill_process_group(group, Signal::TERM);
                let _ = child.wait();
                return Err(interrupted.into());
            }
            match lines.recv_timeout(Duration::from_millis(200)) {
                Ok(line) => {
                    writeln!(log, "{line}").with_context(cannot)?;
                    if is_object(&line) {
                        objects += 1;
                        (watch.progress)(objects, expected);
                    } else {
                        tail.push(line);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait()?;
        let _ = reading.join();
        if !status.success() {
            let from = tail.len().saturating_sub(SHOWN_LINES);
            bail!(
                "make {} failed ({status}); all it said is in {}; the end:\n{}",
                targets.join(" "),
                self.log.display(),
                tail[from..].join("\n")
            );
        }
        Ok(objects)
    }

    fn command(&self, targets: &[&str], output: std::io::PipeWriter) -> Result<Command> {
        use std::os::unix::process::CommandExt;
        // make ends when cowlab does, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "make", &format!("-j{}", self.jobs)]);
        command.arg(format!("LOCALVERSION={}", self.local_version)).args(targets);
        // Nothing of the caller's (MAKEFLAGS, KCFLAGS, ARCH, ...) may change what is built, and no
        // time or name goes into it.
        command.env_clear();
        for name in ["PATH", "HOME", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970")
            .env("KBUILD_BUILD_VERSION", "1")
            .env("KBUILD_BUILD_USER", "cowlab")
            .env("KBUILD_BUILD_HOST", "cowlab")
            .current_dir(self.tree)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(command)
    }
}

/// `  CC      mm/memory.o`
fn is_object(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("  ") else { return false };
    let (action, _) = rest.split_once(' ').unwrap_or((rest, ""));
    let is_action = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    action.len() >= 2 && action.bytes().all(is_action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    fn make(makefile: &str, progress: &(dyn Fn(u64, Option<u64>) + Sync)) -> Result<u64> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Makefile"), makefile).unwrap();
        let log = folder.path().join("log");
        let make = Make { tree: folder.path(), jobs: 1, log: &log, local_version: "-x" };
        let interrupted = AtomicBool::new(false);
        let watch = Watch { say: &|_| {}, progress, interrupted: &interrupted };
        make.run(&["all"], Some(2), &watch)
    }

    #[test]
    fn objects_are_counted() {
        let makefile = "all:\n\t@echo '  CC      a.o'\n\t@echo '  a note'\n\t@echo '  LD      b'\n";
        let seen = AtomicU64::new(0);
        assert_eq!(make(makefile, &|done, _| seen.store(done, Ordering::Relaxed)).unwrap(), 2);
        assert_eq!(seen.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_the_compiler_said_is_shown() {
        let makefile = "all:\n\t@echo mm/cow.c:1: error: no such thing >&2; exit 1\n";
        let error = make(makefile, &|_, _| {}).unwrap_err().to_string();
        assert!(error.contains("mm/cow.c:1: error: no such thing"), "{error}");
    }

    #[test]
    fn the_callers_flags_do_not_reach_the_build() {
        // Cargo sets this one for every test.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        make("all:\n\t@test -z \"$$CARGO_MANIFEST_DIR\"\n", &|_, _| {}).unwrap();
    }
}
