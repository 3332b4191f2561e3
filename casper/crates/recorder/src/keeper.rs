// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lets programs of another user open a session's memory, and nothing else.
//!
//! Whoever may open one descriptor of a process may take all of them, and trace it. Those programs
//! therefore open the descriptor of a process that has no other, in a session without a terminal.
//! Safety: descriptors are only marked, none is closed or owned here.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::target::Target;

/// A process of a target's user that holds a file open. It ends when this process does, however that
/// ends: it waits for input that never comes.
pub struct Keeper(Child);

impl Keeper {
    /// Give the target's user a process that holds `file` open.
    pub fn start(file: &File, target: &Target) -> Result<Keeper> {
        keep_inherited_descriptors()?;
        let user = [format!("--reuid={}", target.uid), format!("--regid={}", target.gid)];
        let child = Command::new("/usr/bin/setsid")
            .arg("/usr/bin/setpriv")
            .args(user)
            .args(["--clear-groups", "--no-new-privs", "/bin/cat"])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start /usr/bin/setsid: install util-linux")?;
        let mut keeper = Keeper(child);
        let began = Instant::now();
        let descriptors = format!("/proc/{}/fd", keeper.0.id());
        // Theirs once it has executed its last program.
        while !std::fs::metadata(&descriptors).is_ok_and(|is| is.uid() == target.uid) {
            ensure!(
                keeper.0.try_wait()?.is_none() && began.elapsed() < Duration::from_secs(10),
                "/usr/bin/setpriv cannot start /bin/cat as user {}",
                target.uid
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(keeper)
    }

    /// Where its user finds the file.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/1", self.0.id()).into()
    }
}

/// What this process has from whoever started it goes to no program that it executes.
fn keep_inherited_descriptors() -> Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let Some(Ok(number)) = entry.file_name().to_str().map(str::parse) else { continue };
        if number > 2 {
            // SAFETY: not -1, and borrowed for one call, which fails if it is closed by now.
            let _ = fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC);
        }
    }
    Ok(())
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
