// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many files at once: all are read and instrumented before the first is written, and either all
//! copies appear or none.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::{Failure, file_error};
use crate::inputs::{Input, InsertSettings, absolute, inputs, root};
use crate::select::glob_set;
use crate::write::{Content, write_all};
use crate::{Function, instrument};

#[derive(Debug, Serialize)]
pub struct FileReport {
    pub file: PathBuf,
    pub copy: PathBuf,
    pub functions: Vec<Function>,
}

/// What is to be written, and what was found on the way.
#[derive(Debug)]
pub struct InsertPlan {
    /// Sources, in the order in which they were named or found.
    pub reports: Vec<FileReport>,
    pub copied: Vec<PathBuf>,
    output: PathBuf,
    contents: BTreeMap<PathBuf, Content>,
}

impl InsertPlan {
    /// Read and instrument everything; write nothing.
    pub fn new(settings: &InsertSettings) -> Result<InsertPlan, Failure> {
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
        let mut plan = InsertPlan {
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
        settings: &InsertSettings,
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
