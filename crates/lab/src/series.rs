// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel/`: the config fragments and the steps of both series, as they are in the repository.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cowlab_machine::installed;
use cowlab_schema::choices;

choices! {
    /// A series of steps: a folder of `kernel/`. A later one applies on top of those before it.
    Series, "series", {
        /// what Linux itself could take
        Upstream = "upstream",
        /// what repeats and measures the published documents
        Research = "research",
    }
}

/// The repository's `kernel/`.
#[derive(Debug, Clone)]
pub struct KernelFolder {
    path: PathBuf,
}

/// One step: `kernel/SERIES/NNNN-name`.
#[derive(Debug, Clone)]
pub struct Step {
    /// `NNNN-name`.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its new files, relative to `tree/`, sorted.
    pub new_files: Vec<PathBuf>,
    /// Its changes to files that are there, if it has any.
    pub patch: Option<PathBuf>,
}

impl KernelFolder {
    /// `chosen`, else `kernel/` in this folder or one above it, else beside the built program, or installed with it.
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
        let mut places = places.map(|place| place.join("kernel")).chain(installed("kernel"));
        let path = places.find(|path| is_one(path)).context(
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

    /// The steps of all `series` for a release of Linux, in the order in which they apply, up to and
    /// with `through`, which may be a step's number or name.
    pub fn steps(
        &self,
        series: &[Series],
        through: Option<&str>,
        release: &str,
    ) -> Result<Vec<Step>> {
        let mut found = Vec::new();
        for one in series {
            let folder = self.path.join(one.name());
            let mut names = step_names(&folder)?;
            names.sort();
            found.extend(names.into_iter().map(|name| (folder.join(&name), name)));
        }
        if let Some(pair) = found.windows(2).find(|pair| pair[0].1[..4] >= pair[1].1[..4]) {
            bail!(
                "{} applies after {}, and its number is not higher",
                pair[1].0.display(),
                pair[0].0.display()
            );
        }
        if let Some(last) = through {
            let is_last = |name: &str| name == last || name.split('-').next() == Some(last);
            let Some(at) = found.iter().position(|(_, name)| is_last(name)) else {
                let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                bail!("no step '{last}' in {}; there are: {names}", self.path.display());
            };
            found.truncate(at + 1);
        }
        // The file says why.
        found.retain(|(folder, _)| !folder.join(format!("not-for-{release}")).is_file());
        found.into_iter().map(|(folder, name)| Step::read(folder, name, release)).collect()
    }
}

/// The names of the steps in a series' folder.
fn step_names(series: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(series) {
        Ok(entries) => entries,
        // git keeps no empty folder.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| cannot_read(series)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let number = name.split('-').next().unwrap_or("");
        if number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()) {
            names.push(name);
        }
    }
    Ok(names)
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

impl Step {
    fn read(folder: PathBuf, name: String, release: &str) -> Result<Step> {
        let mut new_files = Vec::new();
        let tree = folder.join("tree");
        if tree.is_dir() {
            walk(&tree, Path::new(""), &mut new_files)?;
        }
        new_files.sort();
        let patches = [format!("hooks-{release}.patch"), "hooks.patch".to_owned()];
        let patch = patches.map(|name| folder.join(name)).into_iter().find(|path| path.is_file());
        if new_files.is_empty() && patch.is_none() {
            bail!("{} has neither tree/ nor hooks.patch", folder.display());
        }
        if !folder.join("MESSAGE").is_file() {
            bail!("{} has no MESSAGE", folder.display());
        }
        Ok(Step { name, folder, new_files, patch })
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
        for step in steps {
            let step = folder.path().join(step);
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
        let (_folder, kernel) =
            folder_with(&["upstream/0002-b", "upstream/0001-a", "research/0010-c"]);
        let of = |series, through| kernel.steps(series, through, "6.12");
        assert_eq!(names(of(Series::ALL, None)), ["0001-a", "0002-b", "0010-c"]);
        assert_eq!(names(of(Series::ALL, Some("0002"))), ["0001-a", "0002-b"]);
        assert_eq!(names(of(&[Series::Upstream], Some("0001-a"))), ["0001-a"]);
        assert_eq!(names(of(&[Series::Research], None)), ["0010-c"]);
        assert_eq!(names(of(&[], None)), [""; 0]);
        let error = of(Series::ALL, Some("0003")).unwrap_err().to_string();
        assert!(error.contains("0001-a, 0002-b, 0010-c"), "{error}");
        let error = of(&[Series::Upstream], Some("0010")).unwrap_err().to_string();
        assert!(error.ends_with("there are: 0001-a, 0002-b"), "{error}");
    }

    #[test]
    fn the_repositorys_series_are_in_order() {
        let kernel = KernelFolder::find(Some(Path::new("../../kernel"))).unwrap();
        let all = kernel.steps(Series::ALL, None, "6.12").unwrap();
        for series in Series::ALL {
            let own = kernel.steps(&[*series], None, "6.12").unwrap();
            assert!(!own.is_empty() && own.len() < all.len(), "{series}");
        }
    }

    #[test]
    fn a_step_without_content_or_out_of_order_is_refused() {
        let error = |steps: &[&str]| {
            let (_folder, kernel) = folder_with(steps);
            kernel.steps(Series::ALL, None, "6.12").unwrap_err().to_string()
        };
        for steps in
            [["upstream/0001-a", "upstream/0001-b"], ["upstream/0002-a", "research/0001-b"]]
        {
            let error = error(&steps);
            let ends = format!("{}, and its number is not higher", steps[0]);
            assert!(error.contains(steps[1]) && error.ends_with(&ends), "{error}");
        }
        let (folder, kernel) = folder_with(&["upstream/0001-a"]);
        fs::remove_dir_all(folder.path().join("upstream/0001-a/tree")).unwrap();
        let error = kernel.steps(Series::ALL, None, "6.12").unwrap_err().to_string();
        assert!(error.contains("neither tree/ nor"), "{error}");
    }

    #[test]
    fn a_release_may_have_hooks_of_its_own_or_none() {
        let (folder, kernel) = folder_with(&["upstream/0001-a"]);
        let patch = |release: &str| {
            let steps = kernel.steps(Series::ALL, None, release).unwrap();
            let patch = steps[0].patch.as_ref().and_then(|path| path.file_name());
            patch.map(|name| name.to_string_lossy().into_owned())
        };
        assert_eq!(patch("7.3"), None);
        let step = folder.path().join("upstream/0001-a");
        fs::write(step.join("hooks-7.3.patch"), "x").unwrap();
        assert_eq!(patch("6.12"), None);
        fs::write(step.join("hooks.patch"), "x").unwrap();
        let found = ["6.12", "7.3", "7.30"].map(|release| patch(release).unwrap());
        assert_eq!(found, ["hooks.patch", "hooks-7.3.patch", "hooks.patch"]);
        fs::write(step.join("not-for-7.3"), "It is mended there.\n").unwrap();
        assert!(kernel.steps(Series::ALL, Some("0001"), "7.3").unwrap().is_empty());
        assert_eq!(patch("6.12").unwrap(), "hooks.patch");
    }

    #[test]
    fn a_link_to_nothing_is_named() {
        let (folder, kernel) = folder_with(&["upstream/0001-a"]);
        let link = folder.path().join("upstream/0001-a/tree/mm/r.h");
        std::os::unix::fs::symlink("../nowhere.h", &link).unwrap();
        let error = kernel.steps(Series::ALL, None, "6.12").unwrap_err().to_string();
        assert!(error.contains("mm/r.h leads to no file"), "{error}");
    }
}
