// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A setting's old value in a file, for the next guard if this one and its guardian are both killed.

use std::fs::{self, DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::root::Root;

/// Owned by this user alone, and gone at the next boot, as settings are.
const FOLDER: &str = "run/cowlab";
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

    /// The old value, if one was left behind since boot.
    pub(crate) fn stale(&self, root: &Root) -> Option<String> {
        let text = fs::read_to_string(self.0.as_ref()?).ok()?;
        let (boot, value) = text.split_once(' ')?;
        let value = value.strip_suffix('\n')?;
        (boot == fs::read_to_string(root.path(BOOT)).ok()?.trim()).then(|| value.to_owned())
    }

    /// Rewrites it; it is on disk when this returns.
    pub(crate) fn write(&self, root: &Root, value: &str) -> std::io::Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        let Ok(boot) = fs::read_to_string(root.path(BOOT)) else { return Ok(()) };
        self.remove();
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
        file.write_all(format!("{} {value}\n", boot.trim()).as_bytes())?;
        file.sync_all()
    }

    pub(crate) fn remove(&self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}
