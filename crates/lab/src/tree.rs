// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tree in which a variant is built, kept between builds.
//!
//! It is the source with an overlay in it. Only files whose content differs are written, so that
//! make, which goes by times, builds again what depends on them and nothing else. Unchanged files
//! are hard links into the source: a tree costs inodes, not 1.5 GB.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::overlay::Overlay;
use crate::source::run;

/// What a tree holds; absent while it is being changed.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// The source's name in the cache.
    source: String,
    /// Paths that may differ from the source.
    changed: BTreeSet<PathBuf>,
}

/// Make `work/tree` the source at `source` (named `id`) with `overlay`.
pub fn prepare(work: &Path, id: &str, source: &Path, overlay: &Overlay) -> Result<PathBuf> {
    let (tree, state_file) = (work.join("tree"), work.join("state.json"));
    let state = fs::read(&state_file).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let _ = fs::remove_file(&state_file);
    let before = match state {
        Some(State { source, changed }) if source == id && tree.is_dir() => changed,
        _ => {
            copy(source, &tree)?;
            BTreeSet::new()
        }
    };
    for path in before.union(overlay.paths()) {
        let wanted = overlay.find(source, path);
        set(&tree.join(path), wanted.as_deref())
            .with_context(|| format!("cannot change {}", tree.join(path).display()))?;
    }
    let state = State { source: id.to_owned(), changed: overlay.paths().clone() };
    fs::write(&state_file, serde_json::to_vec_pretty(&state)?)
        .with_context(|| format!("cannot write {}", state_file.display()))?;
    Ok(tree)
}

fn copy(source: &Path, tree: &Path) -> Result<()> {
    if tree.exists() {
        fs::remove_dir_all(tree).with_context(|| format!("cannot empty {}", tree.display()))?;
    }
    run(Command::new("cp").args(["-a", "--link"]).arg(source).arg(tree))?;
    Ok(())
}

/// Give `file` the content and mode of `wanted`, or remove it; leave it alone if that is so.
fn set(file: &Path, wanted: Option<&Path>) -> Result<()> {
    let Some(wanted) = wanted else {
        return match fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        };
    };
    let mode = |path: &Path| fs::metadata(path).map(|about| about.permissions().mode());
    let content = fs::read(wanted)?;
    if fs::read(file).is_ok_and(|there| there == content) && mode(file)? == mode(wanted)? {
        return Ok(());
    }
    let folder = file.parent().context("no folder")?;
    fs::create_dir_all(folder)?;
    // A new file, since this one may be a link into the source; and its time is now.
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    std::io::Write::write_all(&mut new, &content)?;
    new.as_file().set_permissions(fs::metadata(wanted)?.permissions())?;
    new.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{KernelFolder, Series};

    struct Fake {
        folder: tempfile::TempDir,
    }

    impl Fake {
        fn new() -> Fake {
            let fake = Fake { folder: tempfile::tempdir().unwrap() };
            fake.write("source/mm/memory.c", "one\ntwo\n");
            fake.write("source/mm/other.c", "other\n");
            fake.write("kernel/config", "");
            fake.write("kernel/research/0001-a/MESSAGE", "a\n");
            fake.write("kernel/research/0001-a/tree/mm/cow.c", "cow\n");
            fake.write(
                "kernel/research/0001-a/hooks.patch",
                "--- a/mm/memory.c\n+++ b/mm/memory.c\n@@ -1,2 +1,2 @@\n one\n-two\n+hook\n",
            );
            fake
        }

        fn path(&self, path: &str) -> PathBuf {
            self.folder.path().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            fs::write(self.path(path), text).unwrap();
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.path(path)).unwrap()
        }

        fn prepare(&self, with_steps: bool) {
            let mut overlay = Overlay::new(self.folder.path()).unwrap();
            let kernel = KernelFolder::find(Some(&self.path("kernel"))).unwrap();
            let series: &[Series] = if with_steps { Series::ALL } else { &[] };
            for step in &kernel.steps(series, None, "6.12").unwrap() {
                overlay.apply(&self.path("source"), step).unwrap();
            }
            prepare(self.folder.path(), "id", &self.path("source"), &overlay).unwrap();
        }

        fn time(&self, path: &str) -> std::time::SystemTime {
            fs::metadata(self.path(path)).unwrap().modified().unwrap()
        }
    }

    #[test]
    fn only_what_differs_is_written_and_all_of_it_comes_back() {
        let fake = Fake::new();
        fake.prepare(true);
        assert_eq!(fake.read("tree/mm/memory.c"), "one\nhook\n");
        assert_eq!(fake.read("tree/mm/cow.c"), "cow\n");
        assert_eq!(fake.read("source/mm/memory.c"), "one\ntwo\n", "the source is never written");
        let (hooked, other) = (fake.time("tree/mm/memory.c"), fake.time("tree/mm/other.c"));

        fake.write("kernel/research/0001-a/tree/mm/cow.c", "new\n");
        fake.prepare(true);
        assert_eq!(fake.read("tree/mm/cow.c"), "new\n");
        assert_eq!(fake.time("tree/mm/memory.c"), hooked, "the same content keeps its time");

        fake.prepare(false);
        assert_eq!(fake.read("tree/mm/memory.c"), "one\ntwo\n");
        assert!(fake.time("tree/mm/memory.c") > hooked, "make must see that it changed");
        assert!(!fake.path("tree/mm/cow.c").exists());
        assert_eq!(fake.time("tree/mm/other.c"), other);
    }

    #[test]
    fn a_tree_whose_making_was_cut_short_is_made_again() {
        let fake = Fake::new();
        fake.prepare(true);
        fs::remove_file(fake.path("state.json")).unwrap();
        fake.write("tree/mm/stray.c", "stray\n");
        fake.prepare(false);
        assert!(!fake.path("tree/mm/stray.c").exists());
        assert_eq!(fake.read("tree/mm/memory.c"), "one\ntwo\n");
    }
}
