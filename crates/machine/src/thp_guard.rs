// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes the setting of one huge-page size for as long as a value lives.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::guardian::Guardian;
use crate::human;
use crate::root::Root;
use crate::thp;

/// Why a setting could not be changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The kernel has no pages of that size.
    #[error("this kernel has no pages of {size}: there is no setting of it to change")]
    NoSuchSize {
        /// The size, as people write it.
        size: String,
    },
    /// The setting could not be read or written.
    #[error("{}: {source}{hint}", path.display())]
    Io {
        /// The setting's file.
        path: PathBuf,
        /// What the kernel answered.
        source: io::Error,
        /// What would help, or nothing.
        hint: &'static str,
    },
    /// Another run changes it, or relies on it, now.
    #[error("{}: another run holds this setting; wait until it ends", path.display())]
    Busy {
        /// The setting's file.
        path: PathBuf,
    },
    /// The file's text has no selection that is known, or keeps another one.
    #[error("{}: expected {expected}, found {found:?}", path.display())]
    Unexpected {
        /// The setting's file.
        path: PathBuf,
        /// What should have been there.
        expected: &'static str,
        /// The file's text.
        found: String,
    },
    /// The shell that would put it back did not start, or did not manage to.
    #[error("the guardian (/bin/sh) of {}: {reason}", path.display())]
    Guardian {
        /// The setting's file.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
}

/// Holds pages of one size at `madvise`; puts the old setting back when it is dropped.
///
/// A [`Guardian`] puts the word back, whatever ends this process. A lock on the file, which the
/// guardian holds until it is done, keeps two runs from undoing each other.
#[derive(Debug)]
pub struct ThpGuard {
    path: PathBuf,
    guardian: Option<Guardian>,
    /// Where nothing had to be changed, the shared lock that keeps it so.
    _lock: Option<File>,
}

impl ThpGuard {
    /// Writes `madvise` into the setting of pages of `page_size_bytes`; the caller has the user's
    /// consent (`--set-mthp`). Changes nothing where it is `madvise` or `always` already.
    ///
    /// # Errors
    /// [`GuardError`]; the setting is then as it was.
    pub fn set(root: &Root, page_size_bytes: u64) -> Result<ThpGuard, GuardError> {
        let file = thp::setting_file(root, page_size_bytes)
            .ok_or_else(|| GuardError::NoSuchSize { size: human::page_size(page_size_bytes) })?;
        let path = root.path(file);
        let lock = File::open(&path).map_err(|e| at(&path, e))?;
        let unlocked = |error| match error {
            TryLockError::WouldBlock => GuardError::Busy { path: path.clone() },
            TryLockError::Error(source) => at(&path, source),
        };
        lock.try_lock_shared().map_err(unlocked)?;
        if matches!(read(&path)?.as_str(), "madvise" | "always") {
            return Ok(ThpGuard { path, guardian: None, _lock: Some(lock) });
        }
        lock.try_lock().map_err(unlocked)?;
        let old = read(&path)?;
        // Before anything is changed: without the right to write there is nothing to guard.
        File::options().write(true).open(&path).map_err(|e| at(&path, e))?;
        let guardian = Guardian::start(&[(path.clone(), old)], lock)
            .map_err(|reason| GuardError::Guardian { path: path.clone(), reason })?;
        let guard = ThpGuard { path, guardian: Some(guardian), _lock: None };
        fs::write(&guard.path, "madvise\n").map_err(|e| at(&guard.path, e))?;
        match read(&guard.path)? {
            now if now == "madvise" => Ok(guard),
            found => Err(GuardError::Unexpected {
                path: guard.path.clone(),
                expected: "madvise after it was written",
                found,
            }),
        }
    }

    /// Puts the old setting back and waits until it is there; dropping does the same, and can
    /// only print what went wrong.
    ///
    /// # Errors
    /// [`GuardError::Guardian`] where the guardian was killed or could not write.
    pub fn restore(mut self) -> Result<(), GuardError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), GuardError> {
        let Some(mut guardian) = self.guardian.take() else { return Ok(()) };
        let path = || self.path.clone();
        guardian.finish().map_err(|reason| GuardError::Guardian { path: path(), reason })
    }
}

impl Drop for ThpGuard {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            eprintln!("{error}; check the file");
        }
    }
}

fn read(path: &Path) -> Result<String, GuardError> {
    let text = fs::read_to_string(path).map_err(|e| at(path, e))?;
    match thp::selected(&text) {
        Some(word @ ("always" | "inherit" | "madvise" | "never")) => Ok(word.to_owned()),
        _ => Err(GuardError::Unexpected {
            path: path.to_owned(),
            expected: "one selected word: always, inherit, madvise or never",
            found: text,
        }),
    }
}

pub(crate) fn at(path: &Path, source: io::Error) -> GuardError {
    let denied = source.kind() == io::ErrorKind::PermissionDenied;
    let hint = if denied { " (changing it needs root)" } else { "" };
    GuardError::Io { path: path.to_owned(), source, hint }
}
