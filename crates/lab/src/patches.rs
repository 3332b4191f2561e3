// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel/`: config fragments, and two series of patches as git format-patch writes them. What the patches make of a
//! source is made beside it: a patch that does not fit leaves nothing half done.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use cowlab_machine::installed;
use cowlab_schema::choices;
use tempfile::TempDir;

use crate::key::Key;
use crate::source::{BASE, run};
use crate::tools;

/// Lines of git's complaint that are shown.
const SHOWN_LINES: usize = 40;

choices! {
    /// A series of patches: a folder of `kernel/`. A later one applies on top of those before it.
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

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of it, as `config`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The patches of all `series` for a release of Linux, in the order in which they apply.
    pub fn patches(&self, series: &[Series], release: &str) -> Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        for one in series {
            let mut folder = self.file(one.name());
            if *one == Series::Upstream {
                let own = folder.join(release);
                folder = if own.is_dir() { own } else { folder.join(BASE) };
            }
            let mut patches = match fs::read_dir(&folder) {
                Ok(entries) => {
                    entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?
                }
                // git keeps no empty folder.
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(error).with_context(|| cannot_read(&folder)),
            };
            // The cover letter changes nothing.
            patches.retain(|path| {
                let name = name_of(path);
                name.ends_with(".patch") && !name.starts_with("0000-")
            });
            patches.sort();
            all.append(&mut patches);
        }
        Ok(all)
    }
}

pub fn name_of(patch: &Path) -> String {
    patch.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// The files of a changed source that are not the source's own.
#[derive(Debug)]
pub struct Changes {
    folder: TempDir,
    /// Their paths; one that is not in the folder is deleted.
    paths: BTreeSet<PathBuf>,
}

impl Changes {
    /// Nothing is changed yet; files are made in a folder below `scratch`.
    pub fn new(scratch: &Path) -> Result<Changes> {
        let folder = tempfile::Builder::new()
            .prefix("changes-")
            .tempdir_in(scratch)
            .with_context(|| format!("cannot make a folder in {}", scratch.display()))?;
        Ok(Changes { folder, paths: BTreeSet::new() })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn paths(&self) -> &BTreeSet<PathBuf> {
        &self.paths
    }

    /// Where the file `path` is to be taken from: here or the source; `None` where it is deleted.
    pub fn find(&self, source: &Path, path: &Path) -> Option<PathBuf> {
        let root = if self.paths.contains(path) { self.folder.path() } else { source };
        Some(root.join(path)).filter(|file| file.is_file())
    }

    /// Apply `patch` on top of what is here. A hunk may have moved, of which `say` is told, but must fit exactly: one
    /// that is placed by fuzz may land in another function of mm/memory.c and still compile.
    pub fn apply(&mut self, source: &Path, patch: &Path, say: &dyn Fn(&str)) -> Result<()> {
        let name = name_of(patch);
        let mut list = self.git_apply();
        let touched =
            run(list.args(["--numstat", "-z"]).arg(patch)).with_context(|| name.clone())?;
        // Lines added, lines removed, path.
        for path in touched.split('\0').filter_map(|file| file.rsplit('\t').next()) {
            if !path.is_empty() {
                self.bring(source, Path::new(path))?;
            }
        }
        let output = self
            .git_apply()
            .args(["--verbose", "--whitespace=nowarn"])
            .arg(patch)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run git: {}", tools::HELP))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let said = said.lines().filter(|line| !line.starts_with("Checking patch "));
            let said: Vec<&str> = said.take(SHOWN_LINES).collect();
            bail!(
                "{name} does not fit this source (a hunk may have moved, but must fit exactly):\n{}",
                said.join("\n")
            );
        }
        let mut file = "";
        for line in said.lines() {
            if let Some(checked) = line.strip_prefix("Checking patch ") {
                file = checked.trim_end_matches("...");
            } else if line.contains("(offset ") {
                say(&format!("{name}: {file}: {line}"));
            }
        }
        Ok(())
    }

    /// git apply in the folder, whatever repository is around it and whatever its user has set.
    fn git_apply(&self) -> Command {
        let mut command = Command::new("git");
        command.args(["apply"]).current_dir(self.folder()).env("LC_ALL", "C");
        command.env("GIT_CEILING_DIRECTORIES", self.folder().parent().unwrap_or(Path::new("/")));
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
        command
    }

    /// Have the file `path` here, if there is one, so that it can be changed.
    pub fn bring(&mut self, source: &Path, path: &Path) -> Result<()> {
        let from = source.join(path);
        let is_first = self.paths.insert(path.to_owned());
        if is_first && from.is_file() {
            let to = self.folder().join(path);
            let cannot = || format!("cannot copy {} to {}", from.display(), to.display());
            fs::create_dir_all(to.parent().context("no folder")?).with_context(cannot)?;
            fs::copy(&from, &to).with_context(cannot)?;
        }
        Ok(())
    }

    /// Everything that differs becomes part of a kernel's key: what the compiler sees of the patches.
    pub fn identify(&self, source: &Path, key: &mut Key) -> Result<()> {
        for path in &self.paths {
            let name = path.to_string_lossy();
            match self.find(source, path) {
                None => key.text("deleted", &name),
                Some(file) => {
                    let mode = fs::metadata(&file)?.permissions().mode() & 0o111;
                    key.text("mode", &mode.to_string());
                    key.file(&name, &file)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A source with one file of 60 numbered lines, and a patch that changes its line 30 and adds a file.
    pub(crate) struct Fake {
        folder: TempDir,
    }

    pub(crate) fn numbered(from: u32) -> String {
        (from..=60).map(|line| format!("line {line}\n")).collect()
    }

    impl Fake {
        pub(crate) fn new() -> Fake {
            let fake = Fake { folder: tempfile::tempdir().unwrap() };
            fake.write("source/mm/memory.c", &numbered(1));
            fake.write("source/mm/other.c", "other\n");
            fake.write("kernel/config", "");
            fake.write("kernel/upstream/6.12/0000-cover-letter.patch", "Subject: mm: a letter\n");
            fake.patch("int cow;");
            fake
        }

        pub(crate) fn path(&self, path: &str) -> PathBuf {
            self.folder.path().join(path)
        }

        pub(crate) fn write(&self, path: &str, text: &str) {
            fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            fs::write(self.path(path), text).unwrap();
        }

        /// The patch, whose new file has this line.
        pub(crate) fn patch(&self, line: &str) {
            let text = format!(
                "Subject: [PATCH] mm: count\n\nIt counts.\n---\n mm/cow.c | 1 +\n\n\
                 diff --git a/mm/cow.c b/mm/cow.c\nnew file mode 100644\n--- /dev/null\n\
                 +++ b/mm/cow.c\n@@ -0,0 +1 @@\n+{line}\ndiff --git a/mm/memory.c b/mm/memory.c\n\
                 --- a/mm/memory.c\n+++ b/mm/memory.c\n@@ -27,7 +27,7 @@\n line 27\n line 28\n \
                 line 29\n-line 30\n+hook 30\n line 31\n line 32\n line 33\n-- \n2.39.5\n"
            );
            self.write("kernel/upstream/6.12/0001-mm-count.patch", &text);
        }

        fn kernel(&self) -> KernelFolder {
            KernelFolder::find(Some(&self.path("kernel"))).unwrap()
        }

        pub(crate) fn changes(&self, series: &[Series]) -> Result<(Changes, Vec<String>)> {
            let mut changes = Changes::new(self.folder.path()).unwrap();
            let said = std::cell::RefCell::new(Vec::new());
            let say = |what: &str| said.borrow_mut().push(what.to_owned());
            for patch in self.kernel().patches(series, "6.12")? {
                changes.apply(&self.path("source"), &patch, &say)?;
            }
            Ok((changes, said.into_inner()))
        }

        fn key(&self) -> String {
            let (changes, _) = self.changes(Series::ALL).unwrap();
            let mut key = Key::default();
            changes.identify(&self.path("source"), &mut key).unwrap();
            key.name()
        }
    }

    #[test]
    fn a_patch_is_applied_beside_the_source() {
        let fake = Fake::new();
        let (changes, said) = fake.changes(Series::ALL).unwrap();
        let paths: Vec<_> = changes.paths().iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(paths, ["mm/cow.c", "mm/memory.c"]);
        let text = fs::read_to_string(changes.folder().join("mm/memory.c")).unwrap();
        assert!(text.contains("line 29\nhook 30\nline 31\n"));
        assert!(said.is_empty(), "{said:?}");
        assert_eq!(fs::read_to_string(fake.path("source/mm/memory.c")).unwrap(), numbered(1));
    }

    #[test]
    fn a_hunk_that_moved_is_reported() {
        let fake = Fake::new();
        fake.write("source/mm/memory.c", &numbered(4));
        let (_, said) = fake.changes(Series::ALL).unwrap();
        assert_eq!(said.len(), 1);
        let begins = "0001-mm-count.patch: mm/memory.c: Hunk #1 succeeded at 24 (offset -3 lines)";
        assert!(said[0].starts_with(begins), "{said:?}");
    }

    #[test]
    fn fuzz_is_refused_and_the_hunk_shown() {
        let fake = Fake::new();
        // The outermost line of context differs: patch's default fuzz of 2 would accept it.
        fake.write("source/mm/memory.c", &numbered(1).replace("line 27\n", "another\n"));
        let error = fake.changes(Series::ALL).unwrap_err().to_string();
        assert!(error.starts_with("0001-mm-count.patch does not fit this source"), "{error}");
        assert!(error.contains("patch failed: mm/memory.c:27"), "{error}");
        assert!(error.contains("\nline 30\n"), "{error}");
        // A file that is missing, or that is there already.
        fs::remove_file(fake.path("source/mm/memory.c")).unwrap();
        let error = fake.changes(Series::ALL).unwrap_err().to_string();
        assert!(error.contains("mm/memory.c: No such file"), "{error}");
        fake.write("source/mm/cow.c", "int theirs;\n");
        let error = fake.changes(Series::ALL).unwrap_err().to_string();
        assert!(error.contains("mm/cow.c: already exists"), "{error}");
        fake.write("kernel/upstream/6.12/0001-mm-count.patch", "no patch\n");
        let error = format!("{:#}", fake.changes(Series::ALL).unwrap_err());
        assert!(error.contains("0001-mm-count.patch"), "{error}");
    }

    #[test]
    fn what_the_compiler_sees_is_in_the_key_and_messages_are_not() {
        let fake = Fake::new();
        let before = fake.key();
        let patch = "kernel/upstream/6.12/0001-mm-count.patch";
        let text = fs::read_to_string(fake.path(patch)).unwrap();
        fake.write(patch, &text.replace("It counts.", "It counts pages."));
        assert_eq!(fake.key(), before);
        fake.patch("int calf;");
        let changed = fake.key();
        assert_ne!(changed, before);
        fake.write("source/mm/memory.c", &numbered(4));
        assert_ne!(fake.key(), changed);
    }

    #[test]
    fn a_release_may_have_patches_of_its_own() {
        let fake = Fake::new();
        fake.write("kernel/upstream/7.3/0001-b.patch", "");
        fake.write("kernel/research/0002-d.patch", "");
        fake.write("kernel/research/0001-c.patch", "");
        let names = |series, release| -> Vec<String> {
            let patches = fake.kernel().patches(series, release).unwrap();
            patches.iter().map(|path| name_of(path)).collect()
        };
        let research = ["0001-c.patch", "0002-d.patch"];
        assert_eq!(names(&[], "6.12"), [""; 0]);
        assert_eq!(names(&[Series::Upstream], "7.3"), ["0001-b.patch"]);
        assert_eq!(names(&[Series::Upstream], "7.30"), ["0001-mm-count.patch"]);
        assert_eq!(names(&[Series::Research], "7.3"), research);
        assert_eq!(names(Series::ALL, "6.12")[1..], research);
    }

    /// One record, one definition: the kernel's copy of the format that libcasper writes.
    #[test]
    fn the_kernel_and_libcasper_have_the_same_record() {
        let kernel = KernelFolder::find(Some(Path::new("../../kernel"))).unwrap();
        let patches = kernel.patches(&[Series::Research], BASE).unwrap();
        let casper = patches.iter().find(|path| name_of(path).contains("-casper-")).unwrap();
        let text = fs::read_to_string(casper).unwrap();
        let begin = "+++ b/include/uapi/linux/casper.h\n";
        let lines = text[text.find(begin).unwrap() + begin.len()..].lines().skip(1);
        let own = lines.map_while(|line| line.strip_prefix('+')).map(|line| format!("{line}\n"));
        let record = fs::read_to_string("../../casper/include/cowlab/record.h").unwrap();
        assert_eq!(own.collect::<String>(), record);
    }
}
