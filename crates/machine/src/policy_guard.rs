// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes the policy as often as one likes; the settings come back when the value is dropped.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use cowlab_schema::Policy;

use crate::guardian::Guardian;
use crate::policy::{ALL, PRECOPY, built_in, settings};
use crate::root::Root;

/// Why a policy could not be set or put back.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
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
    /// Another run changes policies now.
    #[error("{}: another run holds this setting; wait until it ends", path.display())]
    Busy {
        /// The setting's file.
        path: PathBuf,
    },
    /// The kernel took a value and shows another one.
    #[error("{}: {value} was written, and it shows {found:?}", path.display())]
    NotKept {
        /// The setting's file.
        path: PathBuf,
        /// What was written.
        value: u32,
        /// What the file holds.
        found: String,
    },
    /// The shell that would put the settings back did not start, or did not manage to.
    #[error("the guardian (/bin/sh) of {}: {reason}", path.display())]
    Guardian {
        /// The setting's file.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
}

/// Holds the policy settings of a kernel that has them, and puts them back when it is dropped,
/// whatever ends this process.
#[derive(Debug)]
pub struct PolicyGuard {
    root: Root,
    /// The settings as they were.
    old: Vec<(PathBuf, String)>,
    guardian: Guardian,
}

impl PolicyGuard {
    /// Remembers the settings as they are; [`PolicyGuard::set`] may then change them. Whether the
    /// kernel has them is [`crate::policy::usable`]'s to say.
    ///
    /// # Errors
    /// [`PolicyError`]; nothing was changed.
    pub fn new(root: &Root) -> Result<PolicyGuard, PolicyError> {
        let first = root.path(PRECOPY);
        let lock = File::open(&first).map_err(|e| at(&first, e))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => PolicyError::Busy { path: first.clone() },
            TryLockError::Error(source) => at(&first, source),
        })?;
        let mut old = Vec::new();
        for file in ALL {
            let path = root.path(file);
            if !path.exists() {
                continue;
            }
            let value = fs::read_to_string(&path).map_err(|e| at(&path, e))?;
            // Before anything is changed: without the right to write there is nothing to guard.
            File::options().write(true).open(&path).map_err(|e| at(&path, e))?;
            old.push((path, value.trim().to_owned()));
        }
        let guardian = Guardian::start(&old, lock)
            .map_err(|reason| PolicyError::Guardian { path: first, reason })?;
        Ok(PolicyGuard { root: root.clone(), old, guardian })
    }

    /// Switches to `policy`; `stock` is what there was.
    ///
    /// # Errors
    /// [`PolicyError`], a value that the kernel refuses included.
    pub fn set(&self, policy: Policy) -> Result<(), PolicyError> {
        if policy == Policy::Stock {
            for (path, value) in &self.old {
                fs::write(path, value).map_err(|e| at(path, e))?;
            }
        }
        for (file, value) in settings(policy) {
            if built_in(file) != Some(value) || self.root.exists(file) {
                self.write(file, value)?;
            }
        }
        Ok(())
    }

    fn write(&self, file: &str, value: u32) -> Result<(), PolicyError> {
        let path = self.root.path(file);
        fs::write(&path, format!("{value}\n")).map_err(|e| at(&path, e))?;
        let found = fs::read_to_string(&path).map_err(|e| at(&path, e))?;
        if found.trim() == value.to_string() {
            return Ok(());
        }
        Err(PolicyError::NotKept { path, value, found })
    }
}

impl Drop for PolicyGuard {
    fn drop(&mut self) {
        if let Err(reason) = self.guardian.finish() {
            let path = self.root.path(PRECOPY);
            eprintln!("{}; check the file", PolicyError::Guardian { path, reason });
        }
    }
}

fn at(path: &Path, source: io::Error) -> PolicyError {
    let hint = match source.kind() {
        io::ErrorKind::PermissionDenied => " (changing it needs root)",
        io::ErrorKind::InvalidInput => " (this kernel does not take that value)",
        _ => "",
    };
    PolicyError::Io { path: path.to_owned(), source, hint }
}
