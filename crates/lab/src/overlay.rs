// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the steps make of a source: only the files that differ from it, made beside it.
//!
//! The source itself is never written, so a step that does not fit leaves nothing half done, and a
//! change in one step rebuilds only what depends on the files that it changes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::patch::{self, Offset};
use crate::series::{Step, walk};

/// The files that are not the source's own.
#[derive(Debug)]
pub struct Overlay {
    folder: TempDir,
    /// Their paths; one that is not in the folder is deleted.
    paths: BTreeSet<PathBuf>,
    /// Hunks that were found at another line.
    pub offsets: Vec<Offset>,
}

impl Overlay {
    /// Nothing is changed; files are made in a folder below `scratch`.
    pub fn new(scratch: &Path) -> Result<Overlay> {
        let folder = tempfile::Builder::new()
            .prefix("overlay-")
            .tempdir_in(scratch)
            .with_context(|| format!("cannot make a folder in {}", scratch.display()))?;
        Ok(Overlay { folder, paths: BTreeSet::new(), offsets: Vec::new() })
    }

    /// The folder that holds them.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The paths of all that differ.
    pub fn paths(&self) -> &BTreeSet<PathBuf> {
        &self.paths
    }

    /// Where the file `path` is to be taken from: here or the source; `None` where it is deleted.
    pub fn find(&self, source: &Path, path: &Path) -> Option<PathBuf> {
        let root = if self.paths.contains(path) { self.folder.path() } else { source };
        Some(root.join(path)).filter(|file| file.is_file())
    }

    /// Apply `step` on top of what is here.
    pub fn apply(&mut self, source: &Path, step: &Step) -> Result<()> {
        for path in &step.new_files {
            if self.find(source, path).is_some() {
                bail!(
                    "step {}: tree/{} is there already: change it by hooks.patch",
                    step.name,
                    path.display()
                );
            }
            // Follows a link, and keeps the mode.
            self.take(&step.new_file(path), path)?;
        }
        let Some(patch) = &step.patch else { return Ok(()) };
        let text = fs::read_to_string(patch)
            .with_context(|| format!("cannot read {}", patch.display()))?;
        for path in patch::files(&text, patch)? {
            self.bring(source, &path).with_context(|| format!("step {}", step.name))?;
        }
        let offsets = patch::apply(self.folder.path(), patch, &step.name)?;
        self.offsets.extend(offsets);
        Ok(())
    }

    /// Have the file `path` here, so that it can be changed.
    pub fn bring(&mut self, source: &Path, path: &Path) -> Result<()> {
        match self.find(source, path) {
            Some(file) if file.starts_with(self.folder.path()) => Ok(()),
            Some(file) => self.take(&file, path),
            None => bail!("this source has no {}", path.display()),
        }
    }

    /// Take notice of files that somebody made in the folder.
    pub fn find_new(&mut self) -> Result<()> {
        let mut found = Vec::new();
        walk(self.folder.path(), Path::new(""), &mut found)?;
        self.paths.extend(found);
        Ok(())
    }

    fn take(&mut self, from: &Path, path: &Path) -> Result<()> {
        let to = self.folder.path().join(path);
        let cannot = || format!("cannot copy {} to {}", from.display(), to.display());
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).with_context(cannot)?;
        }
        fs::copy(from, &to).with_context(cannot)?;
        self.paths.insert(path.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{KernelFolder, Series};

    /// A source with one file of 60 numbered lines, and a step that changes its line 30.
    struct Fake {
        folder: TempDir,
    }

    impl Fake {
        fn new(source: &str, hooks: &str) -> Fake {
            let folder = tempfile::tempdir().unwrap();
            let write = |path: &str, text: &str| {
                let path = folder.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            };
            write("source/mm/memory.c", source);
            write("kernel/config", "");
            write("kernel/research/0001-count/MESSAGE", "mm: count\n");
            write("kernel/research/0001-count/tree/mm/cow.c", "int cow;\n");
            write("kernel/research/0001-count/hooks.patch", hooks);
            Fake { folder }
        }

        fn compose(&self) -> Result<Overlay> {
            let root = self.folder.path();
            let mut overlay = Overlay::new(root).unwrap();
            let kernel = KernelFolder::find(Some(&root.join("kernel"))).unwrap();
            for step in kernel.steps(Series::ALL, None, "6.12")? {
                overlay.apply(&root.join("source"), &step)?;
            }
            Ok(overlay)
        }
    }

    fn numbered(from: u32) -> String {
        (from..=60).map(|line| format!("line {line}\n")).collect()
    }

    fn hooks() -> String {
        "--- a/mm/memory.c\n+++ b/mm/memory.c\n@@ -27,7 +27,7 @@\n line 27\n line 28\n line 29\n\
         -line 30\n+hook 30\n line 31\n line 32\n line 33\n"
            .to_owned()
    }

    #[test]
    fn a_step_is_applied_beside_the_source() {
        let fake = Fake::new(&numbered(1), &hooks());
        let overlay = fake.compose().unwrap();
        let paths: Vec<_> = overlay.paths().iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(paths, ["mm/cow.c", "mm/memory.c"]);
        let text = fs::read_to_string(overlay.folder().join("mm/memory.c")).unwrap();
        assert!(text.contains("line 29\nhook 30\nline 31\n"));
        assert!(overlay.offsets.is_empty());
        let source = fake.folder.path().join("source/mm/memory.c");
        assert_eq!(fs::read_to_string(source).unwrap(), numbered(1));
    }

    #[test]
    fn a_hunk_that_moved_is_reported() {
        let fake = Fake::new(&numbered(4), &hooks());
        let offsets = fake.compose().unwrap().offsets;
        assert_eq!(offsets.len(), 1);
        assert_eq!((offsets[0].hunk, offsets[0].lines), (1, -3));
    }

    #[test]
    fn fuzz_is_refused_and_the_hunk_named() {
        // The outermost line of context differs: patch's default fuzz of 2 would accept it.
        let fake = Fake::new(&numbered(1).replace("line 27\n", "another\n"), &hooks());
        let error = fake.compose().unwrap_err().to_string();
        assert!(error.contains("step 0001-count: mm/memory.c hunk 1 of "), "{error}");
        assert!(error.contains("+hook 30"), "the reject is shown: {error}");
    }

    #[test]
    fn a_file_that_is_missing_or_there_already_is_named() {
        let fake = Fake::new("", &hooks().replace("memory.c", "gone.c"));
        let error = format!("{:#}", fake.compose().unwrap_err());
        assert_eq!(error, "step 0001-count: this source has no mm/gone.c");
        let fake = Fake::new("", "");
        fs::write(fake.folder.path().join("source/mm/cow.c"), "int theirs;\n").unwrap();
        let error = fake.compose().unwrap_err().to_string();
        assert!(error.contains("tree/mm/cow.c is there already"), "{error}");
    }
}
