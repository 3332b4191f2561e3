// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs make: with an environment of its own, watched, and ended when we end.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::console::tail;
use crate::tools::HELP;
use crate::watch::Watch;

/// Lines of a compiler's complaint that are shown; all are in the log.
const SHOWN_LINES: usize = 30;

pub struct Make<'a> {
    pub tree: &'a Path,
    /// Where everything that it prints is added.
    pub log: &'a Path,
    /// What a kernel's release ends with.
    pub local_version: &'a str,
}

impl Make<'_> {
    /// Make `targets`, on as many CPUs as this process may use.
    pub fn run(&self, targets: &[&str], watch: &Watch<'_>) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log);
        let log = log.with_context(|| format!("cannot write {}", self.log.display()))?;
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        // make ends when cowlab does, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "make", &format!("-j{jobs}")]);
        command.arg(format!("LOCALVERSION={}", self.local_version)).args(targets);
        // Nothing of the caller's (MAKEFLAGS, KCFLAGS, ARCH, ...) may change what is built, and no
        // time or name goes into it.
        command.env_clear();
        for name in ["PATH", "HOME", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let mut child = command
            .env("LC_ALL", "C")
            .env("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970")
            .env("KBUILD_BUILD_VERSION", "1")
            .env("KBUILD_BUILD_USER", "cowlab")
            .env("KBUILD_BUILD_HOST", "cowlab")
            .current_dir(self.tree)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run setpriv and make: {HELP}"))?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if let Err(interrupted) = watch.check() {
                // make removes what is half made.
                let _ = kill_process_group(Pid::from_child(&child), Signal::TERM);
                let _ = child.wait();
                return Err(interrupted.into());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if !status.success() {
            let said = fs::read(self.log).unwrap_or_default();
            bail!(
                "make {} failed ({status}); all it said is in {}; the end:\n{}",
                targets.join(" "),
                self.log.display(),
                tail(&String::from_utf8_lossy(&said), SHOWN_LINES)
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn make(makefile: &str) -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Makefile"), makefile).unwrap();
        let log = folder.path().join("log");
        let make = Make { tree: folder.path(), log: &log, local_version: "-x" };
        let watch = Watch { say: &|_| {}, interrupted: &AtomicBool::new(false) };
        make.run(&["all"], &watch)
    }

    #[test]
    fn what_the_compiler_said_is_shown() {
        let makefile = "all:\n\t@echo mm/cow.c:1: error: no such thing >&2; exit 1\n";
        let error = make(makefile).unwrap_err().to_string();
        assert!(error.contains("mm/cow.c:1: error: no such thing"), "{error}");
    }

    #[test]
    fn the_callers_flags_do_not_reach_the_build() {
        // Cargo sets this one for every test.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        make("all:\n\t@test -z \"$$CARGO_MANIFEST_DIR\"\n").unwrap();
    }
}
