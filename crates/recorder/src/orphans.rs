// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a command leaves running when it ends.

use anyhow::{Context, Result};
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};

/// Become the parent of processes whose own parent ends (PR_SET_CHILD_SUBREAPER).
pub fn collect_orphans() -> Result<()> {
    set_child_subreaper(Some(getpid())).context("cannot follow what the command leaves running")
}

/// Reap children that have ended. Whether any is left.
pub fn children_left() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}
