// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where an export is written: under a temporary name beside its own, which it gets when it is
//! whole. Only its owner may read it: a trace holds addresses, paths and what programs recorded.

use std::fs::{self, File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use tempfile::{NamedTempFile, TempDir};

fn refuse_existing(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        bail!("{} exists: give another -o, or remove it first", path.display());
    }
    Ok(())
}

/// The folder that a path is in.
fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn failed(path: &Path) -> String {
    format!("cannot write the export {}: nothing was kept", path.display())
}

/// A file that is being written.
pub struct OutputFile {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl OutputFile {
    /// Begin it.
    pub fn create(path: &Path) -> Result<OutputFile> {
        refuse_existing(path)?;
        let file = tempfile::Builder::new()
            .prefix(".unfinished-")
            .tempfile_in(parent(path))
            .with_context(|| failed(path))?;
        Ok(OutputFile { path: path.to_owned(), file: BufWriter::with_capacity(1 << 20, file) })
    }

    /// Append bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).with_context(|| failed(&self.path))
    }

    /// It is whole: give it its name.
    pub fn commit(self) -> Result<()> {
        let path = self.path;
        let file = self.file.into_inner().map_err(|error| error.into_error());
        let file = file.with_context(|| failed(&path))?;
        file.as_file().sync_all().with_context(|| failed(&path))?;
        file.persist_noclobber(&path)
            .map_err(|error| error.error)
            .with_context(|| failed(&path))?;
        Ok(())
    }
}

/// A folder that is being written.
pub struct OutputFolder {
    path: PathBuf,
    folder: TempDir,
}

impl OutputFolder {
    /// Begin it.
    pub fn create(path: &Path) -> Result<OutputFolder> {
        refuse_existing(path)?;
        let folder = tempfile::Builder::new()
            .prefix(".unfinished-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent(path))
            .with_context(|| failed(path))?;
        Ok(OutputFolder { path: path.to_owned(), folder })
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> Result<File> {
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.folder.path().join(name))
            .with_context(|| failed(&self.path))
    }

    /// All of its files are whole: give it its name.
    pub fn commit(self) -> Result<()> {
        let rename = || -> std::io::Result<()> {
            for entry in fs::read_dir(self.folder.path())? {
                File::open(entry?.path())?.sync_all()?;
            }
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let (from, to) = (self.folder.path(), &self.path);
            Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
        };
        rename().map_err(|error| anyhow!(error)).with_context(|| failed(&self.path))?;
        let _renamed = self.folder.keep();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_not_whole_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut file = OutputFile::create(&path).unwrap();
        file.write(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        let folder = OutputFolder::create(&path).unwrap();
        folder.file("a").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_its_owner_may_read_it_and_nothing_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut file = OutputFile::create(&path).unwrap();
        file.write(b"whole").unwrap();
        file.commit().unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"whole".to_vec()));
        assert!(OutputFile::create(&path).is_err() && OutputFolder::create(&path).is_err());

        let path = dir.path().join("folder");
        let folder = OutputFolder::create(&path).unwrap();
        folder.file("a").unwrap().write_all(b"1").unwrap();
        folder.commit().unwrap();
        assert_eq!((mode(&path), mode(&path.join("a"))), (0o700, 0o600));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
