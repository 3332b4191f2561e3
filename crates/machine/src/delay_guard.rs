// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Switches delay accounting on for as long as a value lives.

use std::fs::{self, File, TryLockError};
use std::path::PathBuf;

use crate::guardian::Guardian;
use crate::root::Root;
use crate::thp_guard::{GuardError, at};

/// The switch: of the whole machine, and of processes that start while it is on.
const SWITCH: &str = "proc/sys/kernel/task_delayacct";

/// Holds `kernel.task_delayacct` at 1; puts it back when it is dropped. A [`Guardian`] does so
/// whatever ends this process.
#[derive(Debug)]
pub struct DelayGuard {
    path: PathBuf,
    guardian: Option<Guardian>,
}

impl DelayGuard {
    /// Writes 1; the caller has the user's consent (`--delay-accounting`). Changes nothing where it
    /// is on.
    ///
    /// # Errors
    /// [`GuardError`]; the setting is then as it was.
    pub fn set(root: &Root) -> Result<DelayGuard, GuardError> {
        let path = root.path(SWITCH);
        let lock = File::open(&path).map_err(|error| at(&path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(GuardError::Busy { path }),
            // proc's files need not know locks; then two runs may undo each other, as sysctl's do.
            Err(TryLockError::Error(_)) => {}
        }
        let read = || fs::read_to_string(&path).map_err(|error| at(&path, error));
        let old = read()?.trim().to_owned();
        if old == "1" {
            return Ok(DelayGuard { path, guardian: None });
        }
        File::options().write(true).open(&path).map_err(|error| at(&path, error))?;
        let guardian = Guardian::start(&[(path.clone(), old)], lock)
            .map_err(|reason| GuardError::Guardian { path: path.clone(), reason })?;
        let guard = DelayGuard { path: path.clone(), guardian: Some(guardian) };
        fs::write(&path, "1\n").map_err(|error| at(&path, error))?;
        match read()?.trim() {
            "1" => Ok(guard),
            found => {
                let found = found.to_owned();
                Err(GuardError::Unexpected { path, expected: "1 after it was written", found })
            }
        }
    }

    /// Puts the old setting back and waits until it is there.
    ///
    /// # Errors
    /// [`GuardError::Guardian`] where the guardian was killed or could not write.
    pub fn restore(mut self) -> Result<(), GuardError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), GuardError> {
        let Some(mut guardian) = self.guardian.take() else { return Ok(()) };
        let path = self.path.clone();
        guardian.finish().map_err(|reason| GuardError::Guardian { path, reason })
    }
}

impl Drop for DelayGuard {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            eprintln!("{error}; check the file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_on_meanwhile_and_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert!(matches!(DelayGuard::set(&root), Err(GuardError::Io { .. })));
        let path = folder.path().join(SWITCH);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "0\n").unwrap();
        let guard = DelayGuard::set(&root).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        assert!(matches!(DelayGuard::set(&root), Err(GuardError::Busy { .. })));
        guard.restore().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "0\n");
        fs::write(&path, "1\n").unwrap();
        drop(DelayGuard::set(&root).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
    }
}
