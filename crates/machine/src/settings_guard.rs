// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes several of the machine's settings for as long as a value lives.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::guardian::Guardian;
use crate::root::Root;
use crate::thp::selected;
use crate::thp_guard::GuardError;

/// Holds settings of one of the kernel's parts at other values; puts the old ones back when it is
/// dropped, and through a [`Guardian`] whatever ends this process.
#[derive(Debug)]
pub struct SettingsGuard {
    path: PathBuf,
    guardian: Option<Guardian>,
    /// On every file but the first, whose lock the guardian holds.
    _locks: Vec<File>,
}

impl SettingsGuard {
    /// Writes each value into its file below `folder`, in that order; the caller has the user's
    /// consent (`--set-mthp`).
    ///
    /// # Errors
    /// [`GuardError`]; the settings are then as they were.
    pub fn set(
        root: &Root,
        folder: &str,
        values: &[(&str, &str)],
    ) -> Result<SettingsGuard, GuardError> {
        let path_of = |file: &str| root.path(format!("{folder}/{file}"));
        let path = values.first().map_or_else(|| root.path(folder), |(first, _)| path_of(first));
        // Whoever else changes one of them must not take the changed value for the old one.
        let mut locks = values.iter().map(|(file, _)| lock(&path_of(file)));
        let Some(first) = locks.next().transpose()? else {
            return Ok(SettingsGuard { path, guardian: None, _locks: Vec::new() });
        };
        let others = locks.collect::<Result<Vec<File>, _>>()?;
        let mut old = Vec::new();
        for (file, _) in values {
            let path = path_of(file);
            let text = fs::read_to_string(&path).map_err(|e| at(&path, e))?;
            let word = selected(&text).ok_or_else(|| GuardError::Unexpected {
                path: path.clone(),
                expected: "one selected word or a number",
                found: text.trim().to_owned(),
            })?;
            File::options().write(true).open(&path).map_err(|e| at(&path, e))?;
            old.push((path, word.to_owned()));
        }
        // The last one changed is the first to be put back.
        old.reverse();
        let guardian = Guardian::start(&old, first)
            .map_err(|reason| GuardError::Guardian { path: path.clone(), reason })?;
        let guard = SettingsGuard { path, guardian: Some(guardian), _locks: others };
        for (file, value) in values {
            let path = path_of(file);
            fs::write(&path, format!("{value}\n")).map_err(|e| at(&path, e))?;
        }
        Ok(guard)
    }
}

impl Drop for SettingsGuard {
    fn drop(&mut self) {
        let Some(mut guardian) = self.guardian.take() else { return };
        if let Err(reason) = guardian.finish() {
            eprintln!(
                "{}; check the file",
                GuardError::Guardian { path: self.path.clone(), reason }
            );
        }
    }
}

fn lock(path: &Path) -> Result<File, GuardError> {
    let file = File::open(path).map_err(|e| at(path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(GuardError::Busy { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(at(path, source)),
    }
}

fn at(path: &Path, source: std::io::Error) -> GuardError {
    let hint = match source.kind() {
        std::io::ErrorKind::PermissionDenied => "; run as root, or leave out what changes it",
        _ => "",
    };
    GuardError::Io { path: path.to_owned(), source, hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thp::FOLDER;

    #[test]
    fn values_are_put_back_in_reverse() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join(FOLDER.trim_start_matches('/'));
        fs::create_dir_all(settings.join("khugepaged")).unwrap();
        let (enabled, none) = (settings.join("enabled"), settings.join("khugepaged/max_ptes_none"));
        fs::write(&enabled, "always [madvise] never\n").unwrap();
        fs::write(&none, "511\n").unwrap();
        let root = Root::new(folder.path());
        let values = [("enabled", "never"), ("khugepaged/max_ptes_none", "0")];
        let guard = SettingsGuard::set(&root, FOLDER, &values).unwrap();
        assert_eq!(fs::read_to_string(&none).unwrap(), "0\n");
        for one in [&values[..], &values[1..]] {
            assert!(matches!(SettingsGuard::set(&root, FOLDER, one), Err(GuardError::Busy { .. })));
        }
        drop(guard);
        assert_eq!(fs::read_to_string(&enabled).unwrap(), "madvise\n");
        assert_eq!(fs::read_to_string(&none).unwrap(), "511\n");
        assert!(SettingsGuard::set(&root, FOLDER, &[("khugepaged/unknown", "0")]).is_err());
    }
}
