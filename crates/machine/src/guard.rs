// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes settings of the machine for as long as a value lives.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::guardian::Guardian;
use crate::record::{Held, Record};
use crate::root::Root;

/// Why a setting could not be changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    #[error("this kernel has no pages of {size}: there is no setting of it to change")]
    NoSuchSize {
        /// The size, as people write it.
        size: String,
    },
    #[error("{}: {source}{hint}", path.display())]
    Io { path: PathBuf, source: io::Error, hint: &'static str },
    /// Another run changes it, or relies on it.
    #[error("{}: another run holds this setting; wait until it ends", path.display())]
    Busy { path: PathBuf },
    /// The file's text has neither one word nor one that is selected.
    #[error("{}: expected one selected word or a number, found {found:?}", path.display())]
    Unexpected { path: PathBuf, found: String },
    #[error("{}: {value} was written, and it shows {found:?}", path.display())]
    NotKept { path: PathBuf, value: String, found: String },
    #[error("the guardian (/bin/sh) of {}: {reason}", path.display())]
    Guardian { path: PathBuf, reason: String },
}

/// A lock on a setting, released on drop and not when its last descriptor closes: a child that
/// another thread starts has a copy of the descriptor until it executes its program.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    fn take(
        path: &Path,
        record: &Record,
        lock: fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Lock, GuardError> {
        let file = record.open_lock(path).map_err(|error| at(path, error))?;
        lock(&file).map_err(|error| taken(path, error))?;
        Ok(Lock(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Holds settings and restores them on drop.
///
/// A [`Guardian`] restores them, however this process ends. Locks on the files keep two runs from
/// taking each other's values for the old ones; the guardian holds the first lock until it is
/// done.
#[derive(Debug)]
pub struct Guard {
    root: Root,
    /// The first setting, for messages.
    path: PathBuf,
    /// The old settings, in the order in which they are restored.
    old: Vec<Held>,
    guardian: Option<Guardian>,
    _locks: Vec<Lock>,
}

impl Guard {
    /// Writes each value into its file below `root`, in that order. The caller has the user's consent.
    /// After an error the settings are unchanged.
    pub fn set(root: &Root, values: &[(&str, &str)]) -> Result<Guard, GuardError> {
        let guard = Guard::hold(root, values.iter().map(|(file, _)| *file))?;
        for (file, value) in values {
            guard.write(file, value)?;
        }
        Ok(guard)
    }

    /// Saves the settings in `files`, which [`Guard::write`] may then change; the last one is restored
    /// first. Before that, restores what an earlier guard left that was killed together with its
    /// guardian. An error changes nothing else.
    pub fn hold<'a>(
        root: &Root,
        files: impl IntoIterator<Item = &'a str>,
    ) -> Result<Guard, GuardError> {
        let (mut locks, mut old) = (Vec::new(), Vec::new());
        for file in files {
            let path = root.path(file);
            let record = Record::new(root, file);
            locks.push(Lock::take(&path, &record, File::try_lock)?);
            if let Some(value) = record.stale(root) {
                write(&path, &value)?;
            }
            let value = read(&path)?;
            // Before any change: without the right to write there is nothing to guard.
            File::options().write(true).open(&path).map_err(|error| at(&path, error))?;
            record.write(root, &value, &path).map_err(|error| at(record.path(), error))?;
            old.push(Held { path, value, record });
        }
        let path = old.first().map(|held| held.path.clone()).unwrap_or_default();
        old.reverse();
        let guardian = locks.first().map(|Lock(first)| {
            let first = first.try_clone().map_err(|error| error.to_string())?;
            Guardian::start(&old, first)
        });
        let guardian = guardian
            .transpose()
            .map_err(|reason| GuardError::Guardian { path: path.clone(), reason })?;
        Ok(Guard { root: root.clone(), path, old, guardian, _locks: locks })
    }

    /// Keeps the setting in `file` at one of `words`: writes the first if it is at none of them. After
    /// an error the setting is unchanged.
    pub fn ensure(root: &Root, file: &str, words: &[&str]) -> Result<Guard, GuardError> {
        let path = root.path(file);
        let record = Record::new(root, file);
        let lock = Lock::take(&path, &record, File::try_lock_shared)?;
        let is_stale = record.stale(root).is_some();
        if !is_stale && words.contains(&read(&path)?.as_str()) {
            let (root, old) = (root.clone(), Vec::new());
            return Ok(Guard { root, path, old, guardian: None, _locks: vec![lock] });
        }
        drop(lock);
        Guard::set(root, &[(file, words[0])])
    }

    /// Writes `value` into `file`, one of the held ones. Fails if the kernel refuses or does not keep
    /// the value.
    pub fn write(&self, file: &str, value: &str) -> Result<(), GuardError> {
        write(&self.root.path(file), value)
    }

    /// Writes the old settings, and still holds them.
    pub fn put_back(&self) -> Result<(), GuardError> {
        self.old.iter().try_for_each(|held| write(&held.path, &held.value))
    }

    /// Restores the old settings and waits until that is done; dropping does the same, and can only
    /// print errors. Fails if the guardian was killed or could not write.
    pub fn restore(mut self) -> Result<(), GuardError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), GuardError> {
        let Some(mut guardian) = self.guardian.take() else { return Ok(()) };
        let path = || self.path.clone();
        guardian.finish().map_err(|reason| GuardError::Guardian { path: path(), reason })?;
        self.old.iter().for_each(|held| held.record.remove());
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            eprintln!("{error}; check the file");
        }
    }
}

/// The selected word of `always [madvise] never`; a single word is itself selected.
pub(crate) fn selected(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    let bracketed = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let mut words = text.split_whitespace();
    let only = words.next().filter(|_| words.next().is_none());
    bracketed.or(only).filter(|word| !word.is_empty())
}

fn read(path: &Path) -> Result<String, GuardError> {
    let text = fs::read_to_string(path).map_err(|error| at(path, error))?;
    match selected(&text) {
        Some(word) => Ok(word.to_owned()),
        None => Err(GuardError::Unexpected { path: path.to_owned(), found: text }),
    }
}

fn write(path: &Path, value: &str) -> Result<(), GuardError> {
    fs::write(path, format!("{value}\n")).map_err(|error| at(path, error))?;
    match read(path)? {
        found if found == value => Ok(()),
        found => Err(GuardError::NotKept { path: path.to_owned(), value: value.to_owned(), found }),
    }
}

fn taken(path: &Path, error: TryLockError) -> GuardError {
    match error {
        TryLockError::WouldBlock => GuardError::Busy { path: path.to_owned() },
        TryLockError::Error(source) => at(path, source),
    }
}

fn at(path: &Path, source: io::Error) -> GuardError {
    let hint = match source.kind() {
        io::ErrorKind::PermissionDenied => " (changing it needs root)",
        io::ErrorKind::InvalidInput => " (this kernel does not take that value)",
        _ => "",
    };
    GuardError::Io { path: path.to_owned(), source, hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{LeftBehind, left_behind};

    /// Anybody may open a setting, and so lock it.
    #[test]
    fn a_lock_of_others_on_the_setting_keeps_nobody_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir(root.path("run")).unwrap();
        fs::create_dir_all(root.path(ENABLED).parent().unwrap()).unwrap();
        fs::write(root.path(ENABLED), "always [madvise] never\n").unwrap();
        let other = File::open(root.path(ENABLED)).unwrap();
        other.lock().unwrap();
        let guard = Guard::set(&root, &[(ENABLED, "never")]).unwrap();
        assert!(matches!(Guard::hold(&root, [ENABLED]), Err(GuardError::Busy { .. })));
        guard.restore().unwrap();
    }

    const ENABLED: &str = "sys/kernel/mm/transparent_hugepage/enabled";
    const NONE: &str = "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none";

    #[test]
    fn values_are_put_back_and_nobody_else_may_change_them_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert!(matches!(Guard::set(&root, &[(ENABLED, "never")]), Err(GuardError::Io { .. })));
        fs::create_dir_all(root.path(NONE).parent().unwrap()).unwrap();
        fs::write(root.path(ENABLED), "always [madvise] never\n").unwrap();
        fs::write(root.path(NONE), "511\n").unwrap();
        let values = [(ENABLED, "never"), (NONE, "0")];
        let guard = Guard::set(&root, &values).unwrap();
        let text = |file| fs::read_to_string(root.path(file)).unwrap();
        assert_eq!(text(NONE), "0\n");
        for one in [&values[..], &values[1..]] {
            assert!(matches!(Guard::set(&root, one), Err(GuardError::Busy { .. })));
        }
        guard.restore().unwrap();
        assert_eq!((text(ENABLED).as_str(), text(NONE).as_str()), ("madvise\n", "511\n"));
        // If one is missing, the others are unchanged.
        assert!(Guard::set(&root, &[(ENABLED, "never"), ("sys/unknown", "0")]).is_err());
        assert_eq!(text(ENABLED), "madvise\n");
        Guard::set(&root, &[]).unwrap().restore().unwrap();
    }

    #[test]
    fn what_is_so_already_is_left_alone_and_kept() {
        const SWITCH: &str = "proc/sys/kernel/task_delayacct";
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let on = || Guard::ensure(&root, SWITCH, &["1"]);
        assert!(matches!(on(), Err(GuardError::Io { .. })));
        fs::create_dir_all(root.path(SWITCH).parent().unwrap()).unwrap();
        for old in ["0\n", "1\n"] {
            fs::write(root.path(SWITCH), old).unwrap();
            let guard = on().unwrap();
            assert_eq!(fs::read_to_string(root.path(SWITCH)).unwrap(), "1\n");
            assert!(matches!(Guard::hold(&root, [SWITCH]), Err(GuardError::Busy { .. })));
            drop(guard);
            assert_eq!(fs::read_to_string(root.path(SWITCH)).unwrap(), old);
        }
    }

    #[test]
    fn what_was_killed_with_its_guardian_is_put_back_by_the_next_guard() {
        const SWITCH: &str = "proc/sys/kernel/task_delayacct";
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let boot = "proc/sys/kernel/random/boot_id";
        fs::create_dir_all(root.path(boot).parent().unwrap()).unwrap();
        fs::create_dir(root.path("run")).unwrap();
        let text = || fs::read_to_string(root.path(SWITCH)).unwrap();
        let records = || {
            let all = fs::read_dir(root.path("run/cowlab")).unwrap();
            let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| !name.ends_with(".lock")).count()
        };
        for (next_boot, expected) in [("one", "0\n"), ("two", "1\n")] {
            fs::write(root.path(boot), "one\n").unwrap();
            fs::write(root.path(SWITCH), "0\n").unwrap();
            let mut killed = Guard::set(&root, &[(SWITCH, "1")]).unwrap();
            killed.guardian.take().unwrap().kill();
            drop(killed);
            assert_eq!((text().as_str(), records()), ("1\n", 1));
            let left = LeftBehind { setting: root.path(SWITCH), value: "0".into() };
            assert_eq!(left_behind(&root), [left]);
            // Neither settings nor their records outlive a reboot.
            fs::write(root.path(boot), next_boot).unwrap();
            Guard::ensure(&root, SWITCH, &["1"]).unwrap().restore().unwrap();
            assert_eq!(text(), expected, "{next_boot}");
            assert_eq!(left_behind(&root), []);
        }
        // A restored setting has no record any more, though its guard was killed.
        let mut killed = Guard::set(&root, &[(SWITCH, "0")]).unwrap();
        killed.guardian.take().unwrap().finish().unwrap();
        drop(killed);
        fs::write(root.path(SWITCH), "2\n").unwrap();
        Guard::set(&root, &[(SWITCH, "1")]).unwrap().restore().unwrap();
        assert_eq!((text().as_str(), records()), ("2\n", 0));
    }

    #[test]
    fn children_of_other_threads_keep_no_setting_held() {
        const SWITCH: &str = "proc/sys/kernel/task_delayacct";
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(root.path(SWITCH).parent().unwrap()).unwrap();
        fs::write(root.path(SWITCH), "0\n").unwrap();
        let (over, ends) = std::sync::mpsc::channel::<()>();
        let starts = std::thread::spawn(move || {
            while ends.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                std::process::Command::new("/bin/true").status().unwrap();
            }
        });
        for _ in 0..100 {
            Guard::ensure(&root, SWITCH, &["1"]).unwrap().restore().unwrap();
        }
        drop(over);
        starts.join().unwrap();
    }

    #[test]
    fn the_selected_word_is_in_brackets_or_alone() {
        for (text, word) in [
            ("always [madvise] never\n", Some("madvise")),
            ("never\n", Some("never")),
            ("always madvise never", None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(selected(text), word, "{text:?}");
        }
    }
}
