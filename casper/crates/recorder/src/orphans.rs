// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a command leaves running when it ends.

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};

/// Become the parent of processes whose own parent ends (PR_SET_CHILD_SUBREAPER).
pub fn collect_orphans() -> Result<()> {
    set_child_subreaper(Some(getpid())).context("cannot follow what the command leaves running")
}

/// Reap children that have ended. The wait status of `child`, if it is one of them. Fails where
/// there are no children.
pub fn reap_and_find(child: u32) -> std::io::Result<Option<i32>> {
    let mut found = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid.as_raw_pid().cast_unsigned() == child => {
                found = Some(status.as_raw());
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Ok(found),
            // None is left beside it.
            Err(Errno::CHILD) if found.is_some() => return Ok(found),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reap children that have ended. Whether any is left.
pub fn children_left() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}
