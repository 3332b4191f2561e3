// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing all copies, or none: first beside their places under other names, then renamed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, file_error};

/// A copy's bytes, or where they are.
#[derive(Debug)]
pub(crate) enum Content {
    Bytes(Vec<u8>, fs::Permissions),
    SameAs(PathBuf),
}

/// What exists already of a set of copies; removed again unless it is kept.
#[derive(Default)]
struct Unfinished {
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Nothing can be done about what cannot be removed.
        self.files.iter().for_each(|file| drop(fs::remove_file(file)));
        self.directories.iter().rev().for_each(|directory| drop(fs::remove_dir(directory)));
    }
}

pub(crate) fn write_all(
    output: &Path,
    contents: &BTreeMap<PathBuf, Content>,
) -> Result<(), Failure> {
    let mut unfinished = Unfinished::default();
    make_directory(output, &mut unfinished).map_err(file_error("make", output))?;
    let mut renames = Vec::new();
    for (copy, content) in contents {
        if fs::symlink_metadata(copy).is_ok_and(|old| old.is_dir()) {
            let error = io::Error::new(io::ErrorKind::IsADirectory, "a directory has its name");
            return Err(file_error("write", copy)(error));
        }
        let parent = copy.parent().unwrap_or(output);
        make_directory(parent, &mut unfinished).map_err(file_error("make", parent))?;
        let name = copy.file_name().unwrap_or_default().to_string_lossy();
        let temporary = parent.join(format!(".unfinished-{}-{name}", std::process::id()));
        unfinished.files.push(temporary.clone());
        write_one(&temporary, content).map_err(file_error("write", copy))?;
        renames.push((temporary, copy));
    }
    for (temporary, copy) in renames {
        fs::rename(&temporary, copy).map_err(file_error("write", copy))?;
        unfinished.files.push(copy.clone());
    }
    unfinished.files.clear();
    unfinished.directories.clear();
    Ok(())
}

fn make_directory(path: &Path, unfinished: &mut Unfinished) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut at = path;
    while !at.as_os_str().is_empty() && !at.exists() {
        missing.push(at.to_path_buf());
        match at.parent() {
            Some(parent) => at = parent,
            None => break,
        }
    }
    for directory in missing.into_iter().rev() {
        fs::create_dir(&directory)?;
        unfinished.directories.push(directory);
    }
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory"))
}

fn write_one(path: &Path, content: &Content) -> io::Result<()> {
    let (bytes, permissions) = match content {
        Content::SameAs(original) => return fs::copy(original, path).map(drop),
        Content::Bytes(bytes, permissions) => (bytes, permissions),
    };
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    file.set_permissions(permissions.clone())
}
