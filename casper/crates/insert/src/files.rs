// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many files at once: all are read and instrumented before the first is written, and either all
//! copies appear or none.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::inputs::{Input, absolute, inputs, root};
use crate::select::glob_set;
use crate::write::write_all;
use crate::{Function, Selection, instrument};

/// What to do.
#[derive(Debug)]
pub struct Settings {
    /// Files and directories.
    pub paths: Vec<PathBuf>,
    /// Where the copies go.
    pub output: PathBuf,
    /// What the sources' places are relative to; by default the directory that holds them all.
    pub root: Option<PathBuf>,
    /// Files of directories to instrument, by their place below the root; all `.c` and `.h` if
    /// there are none. The others are copied as they are.
    pub files: Vec<String>,
    /// Functions to instrument.
    pub selection: Selection,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The caller's mistake.
    #[error("{0}")]
    Usage(String),
    /// A source that is not C as we know it.
    #[error("{}: {error}; nothing was written", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// What and where.
        error: crate::Error,
    },
    /// A file or a directory.
    #[error("cannot {what} {}: {error}; nothing was written", path.display())]
    File {
        /// In the infinitive.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// What was found in one file.
#[derive(Debug, Serialize)]
pub struct FileReport {
    /// As it was named.
    pub file: PathBuf,
    /// Its copy.
    pub copy: PathBuf,
    /// Its functions.
    pub functions: Vec<Function>,
}

/// What is to be written, and what was found on the way.
#[derive(Debug)]
pub struct Plan {
    /// Sources, in the order in which they were named or found.
    pub reports: Vec<FileReport>,
    /// Files that are copied as they are.
    pub copied: Vec<PathBuf>,
    output: PathBuf,
    contents: BTreeMap<PathBuf, Content>,
}

/// A copy's bytes, or where they are.
#[derive(Debug)]
pub(crate) enum Content {
    Bytes(Vec<u8>, fs::Permissions),
    SameAs(PathBuf),
}

pub(crate) fn file_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::File { what, path: path.to_path_buf(), error }
}

impl Plan {
    /// Read and instrument everything; write nothing.
    pub fn new(settings: &Settings) -> Result<Plan, Failure> {
        if settings.paths.is_empty() {
            return Err(Failure::Usage("no source is named".into()));
        }
        let files = glob_set(&settings.files).map_err(|error| Failure::Usage(error.to_string()))?;
        let output = absolute(&settings.output)?;
        let inputs = inputs(settings, &output)?;
        let root = root(settings, &inputs)?;
        if output == root {
            let output = settings.output.display();
            let message = format!("{output} holds the sources, which are never written over");
            return Err(Failure::Usage(message));
        }
        let mut plan = Plan {
            reports: vec![],
            copied: vec![],
            output: settings.output.clone(),
            contents: BTreeMap::new(),
        };
        let mut seen: HashMap<PathBuf, PathBuf> = HashMap::new();
        for input in &inputs {
            if let Some(first) = seen.insert(input.absolute.clone(), input.named.clone()) {
                let (first, second) = (first.display(), input.named.display());
                return Err(Failure::Usage(format!("{first} and {second} are the same file")));
            }
            let below = input.absolute.strip_prefix(&root).map_err(|_| {
                let (file, root) = (input.named.display(), root.display());
                Failure::Usage(format!("{file} is not below {root}"))
            })?;
            let selected = input.instrument && (files.is_empty() || files.is_match(below));
            plan.add(settings, input, below, selected)?;
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        settings: &Settings,
        input: &Input,
        below: &Path,
        selected: bool,
    ) -> Result<(), Failure> {
        let copy = self.output.join(below);
        let content = if selected {
            let source = fs::read(&input.named).map_err(file_error("read", &input.named))?;
            let path = input.named.as_os_str().as_bytes();
            let instrumented = instrument(&source, path, &settings.selection)
                .map_err(|error| Failure::Source { path: input.named.clone(), error })?;
            let permissions =
                fs::metadata(&input.named).map_err(file_error("read", &input.named))?.permissions();
            self.reports.push(FileReport {
                file: input.named.clone(),
                copy: copy.clone(),
                functions: instrumented.functions,
            });
            Content::Bytes(instrumented.bytes, permissions)
        } else {
            self.copied.push(input.named.clone());
            Content::SameAs(input.named.clone())
        };
        self.contents.insert(copy, content);
        Ok(())
    }

    /// Write the copies: all, or none.
    pub fn write(&self) -> Result<(), Failure> {
        write_all(&self.output, &self.contents)
    }
}
