// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A setting's old value in a file, for the next guard if this one and its guardian are both killed.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::root::Root;

/// Owned by this user alone, and gone at the next boot, as settings are.
const FOLDER: &str = "run/cowlab";
const LOCK: &str = "lock";
const BOOT: &str = "proc/sys/kernel/random/boot_id";

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) path: PathBuf,
    pub(crate) value: String,
    pub(crate) record: Record,
}

/// The path of a setting's record; none on a machine without /run.
#[derive(Debug, Clone)]
pub(crate) struct Record(Option<PathBuf>);

/// A setting that was not put back, because its guard and its guardian were killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    pub setting: PathBuf,
    /// What it was before.
    pub value: String,
}

/// Settings that were left behind since boot, and that nobody holds now.
pub fn left_behind(root: &Root) -> Vec<LeftBehind> {
    let all = fs::read_dir(root.path(FOLDER)).into_iter().flatten().flatten();
    let paths =
        all.map(|entry| entry.path()).filter(|path| path.extension() != Some(LOCK.as_ref()));
    paths
        .filter_map(|path| {
            let (value, setting) = read(&path, root)?;
            let is_held = File::open(lock_of(&path))
                .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)));
            (!is_held).then_some(LeftBehind { setting, value })
        })
        .collect()
}

fn lock_of(record: &Path) -> PathBuf {
    format!("{}.{LOCK}", record.display()).into()
}

/// The old value and its setting, if the record is of this boot.
fn read(record: &Path, root: &Root) -> Option<(String, PathBuf)> {
    let text = fs::read_to_string(record).ok()?;
    let mut words = text.strip_suffix('\n')?.splitn(3, ' ');
    let is_now = words.next()? == fs::read_to_string(root.path(BOOT)).ok()?.trim();
    let (value, setting) = (words.next()?, words.next()?);
    is_now.then(|| (value.to_owned(), setting.into()))
}

impl Record {
    pub(crate) fn new(root: &Root, file: &str) -> Record {
        let folder = root.path(FOLDER);
        let _ = DirBuilder::new().mode(0o700).create(&folder);
        let own = |facts: &fs::Metadata| {
            let uid = rustix::process::geteuid().as_raw();
            facts.is_dir() && facts.uid() == uid && facts.mode() & 0o077 == 0
        };
        // Nobody else may write old values.
        let is_own = fs::symlink_metadata(&folder).is_ok_and(|facts| own(&facts));
        Record(is_own.then(|| folder.join(file.replace('/', "-"))))
    }

    /// For the guardian, which empties it.
    pub(crate) fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new("/dev/null"))
    }

    /// The file that stands for the setting's lock: others may open the setting itself, and so lock it.
    pub(crate) fn open_lock(&self, setting: &Path) -> io::Result<File> {
        let Some(path) = &self.0 else { return File::open(setting) };
        let mut options = File::options();
        options.read(true).append(true).create(true).mode(0o600);
        let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
        options.custom_flags(no_follow).open(lock_of(path))
    }

    /// The old value, if one was left behind since boot.
    pub(crate) fn stale(&self, root: &Root) -> Option<String> {
        Some(read(self.0.as_ref()?, root)?.0)
    }

    /// Rewrites it; it is on disk when this returns.
    pub(crate) fn write(&self, root: &Root, value: &str, setting: &Path) -> io::Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        let Ok(boot) = fs::read_to_string(root.path(BOOT)) else { return Ok(()) };
        self.remove();
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
        file.write_all(format!("{} {value} {}\n", boot.trim(), setting.display()).as_bytes())?;
        file.sync_all()
    }

    pub(crate) fn remove(&self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}
