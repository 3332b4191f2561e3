// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel/`: the config fragments and the steps of the series, as they are in the repository.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The repository's `kernel/`.
#[derive(Debug, Clone)]
pub struct KernelFolder {
    path: PathBuf,
}

/// One step: `kernel/series/NNNN-name`.
#[derive(Debug, Clone)]
pub struct Step {
    /// `NNNN-name`.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its new files, relative to `tree/`, sorted.
    pub new_files: Vec<PathBuf>,
}

impl KernelFolder {
    /// `chosen`, else `kernel/` in this folder or one above it, else beside the built program.
    pub fn find(chosen: Option<&Path>) -> Result<KernelFolder> {
        let is_one = |path: &Path| path.join("config").is_file();
        if let Some(path) = chosen {
            if !is_one(path) {
                bail!("{} has no config: it is no kernel/ of cowlab", path.display());
            }
            return Ok(KernelFolder { path: path.canonicalize()? });
        }
        let here = std::env::current_dir().ok();
        let program = std::env::current_exe().ok();
        let places = here.iter().chain(&program).flat_map(|place| place.ancestors());
        let found = places.map(|place| place.join("kernel")).find(|path| is_one(path));
        let path = found.context(
            "no kernel/config here: run this in a clone of cowlab, or set \
             COWLAB_KERNEL=DIR",
        )?;
        Ok(KernelFolder { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of it, as `config`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The steps in order, up to and with `through`, which may be a step's number or name.
    pub fn steps(&self, through: Option<&str>) -> Result<Vec<Step>> {
        let series = self.path.join("series");
        let mut names = Vec::new();
        let entries = match fs::read_dir(&series) {
            Ok(entries) => entries,
            // git keeps no empty folder.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| cannot_read(&series)),
        };
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let number = name.split('-').next().unwrap_or("");
            if number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()) {
                names.push(name);
            }
        }
        names.sort();
        if let Some(twice) = names.windows(2).find(|pair| pair[0][..4] == pair[1][..4]) {
            bail!("{}: {} and {} have one number", series.display(), twice[0], twice[1]);
        }
        if let Some(last) = through {
            let is_last = |name: &String| name == last || name.split('-').next() == Some(last);
            let Some(at) = names.iter().position(is_last) else {
                bail!("no step '{last}' in {}; there are: {}", series.display(), list(&names));
            };
            names.truncate(at + 1);
        }
        names.into_iter().map(|name| Step::read(series.join(&name), name)).collect()
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

impl Step {
    fn read(folder: PathBuf, name: String) -> Result<Step> {
        let mut new_files = Vec::new();
        let tree = folder.join("tree");
        if tree.is_dir() {
            walk(&tree, Path::new(""), &mut new_files)?;
        }
        new_files.sort();
        if new_files.is_empty() && !folder.join("hooks.patch").is_file() {
            bail!("{} has neither tree/ nor hooks.patch", folder.display());
        }
        if !folder.join("MESSAGE").is_file() {
            bail!("{} has no MESSAGE", folder.display());
        }
        Ok(Step { name, folder, new_files })
    }

    /// Its changes to files that are there, if it has any.
    pub fn patch(&self) -> Option<PathBuf> {
        Some(self.folder.join("hooks.patch")).filter(|path| path.is_file())
    }

    /// The options that it adds to the kernel's configuration, if any.
    pub fn config(&self) -> Option<PathBuf> {
        Some(self.folder.join("config")).filter(|path| path.is_file())
    }

    /// Where a new file comes from.
    pub fn new_file(&self, path: &Path) -> PathBuf {
        self.folder.join("tree").join(path)
    }

    /// Its commit message.
    pub fn message(&self) -> Result<String> {
        let path = self.folder.join("MESSAGE");
        fs::read_to_string(&path).with_context(|| cannot_read(&path))
    }
}

/// Every file below `root`, links included; a link must lead to a file.
pub(crate) fn walk(root: &Path, below: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let folder = root.join(below);
    for entry in fs::read_dir(&folder).with_context(|| cannot_read(&folder))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            walk(root, &path, found)?;
        } else if entry.path().is_file() {
            found.push(path);
        } else {
            bail!("{} leads to no file", entry.path().display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(steps: &[&str]) -> (tempfile::TempDir, KernelFolder) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config"), "").unwrap();
        fs::create_dir(folder.path().join("series")).unwrap();
        for step in steps {
            let step = folder.path().join("series").join(step);
            fs::create_dir_all(step.join("tree/mm")).unwrap();
            fs::write(step.join("tree/mm/x.c"), "").unwrap();
            fs::write(step.join("MESSAGE"), "mm: x\n").unwrap();
        }
        let kernel = KernelFolder::find(Some(folder.path())).unwrap();
        (folder, kernel)
    }

    fn names(steps: Result<Vec<Step>>) -> Vec<String> {
        steps.unwrap().into_iter().map(|step| step.name).collect()
    }

    #[test]
    fn steps_come_in_order_up_to_the_one_named() {
        let (_folder, kernel) = folder_with(&["0002-b", "0001-a", "0010-c"]);
        assert_eq!(names(kernel.steps(None)), ["0001-a", "0002-b", "0010-c"]);
        assert_eq!(names(kernel.steps(Some("0002"))), ["0001-a", "0002-b"]);
        assert_eq!(names(kernel.steps(Some("0001-a"))), ["0001-a"]);
        let error = kernel.steps(Some("0003")).unwrap_err().to_string();
        assert!(error.contains("0001-a, 0002-b, 0010-c"), "{error}");
    }

    #[test]
    fn a_step_without_content_or_with_another_ones_number_is_refused() {
        let (folder, kernel) = folder_with(&["0001-a", "0001-b"]);
        assert!(kernel.steps(None).unwrap_err().to_string().contains("one number"));
        fs::remove_dir_all(folder.path().join("series/0001-b")).unwrap();
        fs::remove_dir_all(folder.path().join("series/0001-a/tree")).unwrap();
        assert!(kernel.steps(None).unwrap_err().to_string().contains("neither tree/ nor"));
    }

    #[test]
    fn a_link_to_nothing_is_named() {
        let (folder, kernel) = folder_with(&["0001-a"]);
        let link = folder.path().join("series/0001-a/tree/mm/r.h");
        std::os::unix::fs::symlink("../nowhere.h", &link).unwrap();
        assert!(kernel.steps(None).unwrap_err().to_string().contains("mm/r.h leads to no file"));
    }
}
