// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which files are to be read, from what was named.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Selection;
use crate::failure::{Failure, file_error};

#[derive(Debug)]
pub struct InsertSettings {
    pub paths: Vec<PathBuf>,
    pub output: PathBuf,
    /// What the sources' places are relative to; by default the directory that holds them all.
    pub root: Option<PathBuf>,
    /// Files of directories to instrument, by their place below the root; all `.c` and `.h` if
    /// there are none. The others are copied as they are.
    pub files: Vec<String>,
    pub selection: Selection,
}

pub struct Input {
    /// As the compiler shall call it.
    pub named: PathBuf,
    pub absolute: PathBuf,
    /// Whether it is C: of a directory, only `.c` and `.h` are.
    pub instrument: bool,
}

/// A path without `.`, `..` and symbolic links, also where its end does not exist yet.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let whole = std::path::absolute(path).map_err(file_error("find", path))?;
    let mut real = PathBuf::new();
    for part in whole.components() {
        real.push(part);
        if let Ok(found) = real.canonicalize() {
            real = found;
        } else if part == std::path::Component::ParentDir {
            real.pop();
            real.pop();
        }
    }
    Ok(real)
}

/// Everything that was named, directories with all that is below them.
pub fn inputs(settings: &InsertSettings, output: &Path) -> Result<Vec<Input>, Failure> {
    let mut inputs = Vec::new();
    for path in &settings.paths {
        let real = path.canonicalize().map_err(file_error("read", path))?;
        let kind = fs::metadata(path).map_err(file_error("read", path))?;
        if kind.is_dir() {
            directory(path, &real, output, &mut inputs)?;
        } else if kind.is_file() {
            refuse_other_languages(path)?;
            inputs.push(Input { named: path.clone(), absolute: place(path)?, instrument: true });
        } else {
            let error = io::Error::other("it is neither a file nor a directory");
            return Err(file_error("read", path)(error));
        }
    }
    Ok(inputs)
}

/// A file's own place: links in the way to it are followed, itself as one is not, so that the copy
/// has its name.
fn place(path: &Path) -> Result<PathBuf, Failure> {
    let whole = std::path::absolute(path).map_err(file_error("find", path))?;
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) => Ok(absolute(parent)?.join(name)),
        _ => absolute(path),
    }
}

fn refuse_other_languages(path: &Path) -> Result<(), Failure> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    let foreign =
        ["cc", "cpp", "cxx", "c++", "C", "hh", "hpp", "hxx", "H", "m", "mm", "rs", "o", "a"];
    if foreign.contains(&extension.as_str()) {
        return Err(Failure::Usage(format!(
            "{}: insert reads C, not .{extension}",
            path.display()
        )));
    }
    Ok(())
}

fn directory(
    named: &Path,
    real: &Path,
    output: &Path,
    inputs: &mut Vec<Input>,
) -> Result<(), Failure> {
    let mut waiting = vec![(named.to_path_buf(), real.to_path_buf())];
    while let Some((named, real)) = waiting.pop() {
        // The copies may go below the sources; they are no sources.
        if real == output {
            continue;
        }
        let entries = fs::read_dir(&named).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = entries.map_err(file_error("read", &named))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().map_err(file_error("read", &path))?;
            if kind.is_dir() {
                // .git and the like.
                if !name.as_encoded_bytes().starts_with(b".") {
                    waiting.push((path, real.join(name)));
                }
                continue;
            }
            // A link to a directory may lead in a circle; one that leads nowhere has no content.
            if !fs::metadata(&path).is_ok_and(|target| target.is_file()) {
                continue;
            }
            let instrument = path.extension().is_some_and(|is| is == "c" || is == "h");
            inputs.push(Input { named: path, absolute: real.join(name), instrument });
        }
    }
    inputs.sort_by(|a, b| a.absolute.cmp(&b.absolute));
    Ok(())
}

/// The directory that copies' places are relative to.
pub fn root(settings: &InsertSettings, inputs: &[Input]) -> Result<PathBuf, Failure> {
    if let Some(root) = &settings.root {
        return absolute(root);
    }
    let mut places = Vec::new();
    for path in &settings.paths {
        let place = place(path)?;
        places.push(if path.is_dir() {
            absolute(path)?
        } else {
            place.parent().unwrap_or(&place).into()
        });
    }
    let mut root = places.first().cloned().unwrap_or_default();
    for input in inputs {
        while !input.absolute.starts_with(&root) {
            root.pop();
        }
    }
    places.iter().for_each(|place| {
        while !place.starts_with(&root) {
            root.pop();
        }
    });
    Ok(root)
}
