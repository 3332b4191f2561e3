// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tree in which a variant is built, kept between builds.
//!
//! It is the source with changes in it. Only files whose content differs are written, so that
//! make, which goes by times, builds again what depends on them and nothing else. Unchanged files
//! are hard links into the source: a tree costs inodes, not 1.5 GB.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::patches::Changes;
use crate::source::run;

/// What a tree holds; absent while it is being changed.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// The source's name in the cache.
    source: String,
    /// Paths that may differ from the source.
    changed: BTreeSet<PathBuf>,
}

/// Make `work/tree` the source at `source` (named `id`) with `changes`.
pub fn prepare(work: &Path, id: &str, source: &Path, changes: &Changes) -> Result<PathBuf> {
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
    for path in before.union(changes.paths()) {
        let wanted = changes.find(source, path);
        set(&tree.join(path), wanted.as_deref())
            .with_context(|| format!("cannot change {}", tree.join(path).display()))?;
    }
    let state = State { source: id.to_owned(), changed: changes.paths().clone() };
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
    use crate::patches::Series;
    use crate::patches::tests::{Fake, numbered};

    fn prepared(fake: &Fake, series: &[Series]) {
        let (changes, _) = fake.changes(series).unwrap();
        prepare(&fake.path(""), "id", &fake.path("source"), &changes).unwrap();
    }

    fn read(fake: &Fake, path: &str) -> String {
        fs::read_to_string(fake.path(path)).unwrap()
    }

    #[test]
    fn only_what_differs_is_written_and_all_of_it_comes_back() {
        let fake = Fake::new();
        let time = |path: &str| fs::metadata(fake.path(path)).unwrap().modified().unwrap();
        prepared(&fake, Series::ALL);
        assert!(read(&fake, "tree/mm/memory.c").contains("hook 30"));
        assert_eq!(read(&fake, "tree/mm/cow.c"), "int cow;\n");
        assert_eq!(read(&fake, "source/mm/memory.c"), numbered(1), "the source is never written");
        let (hooked, other) = (time("tree/mm/memory.c"), time("tree/mm/other.c"));

        fake.patch("int calf;");
        prepared(&fake, Series::ALL);
        assert_eq!(read(&fake, "tree/mm/cow.c"), "int calf;\n");
        assert_eq!(time("tree/mm/memory.c"), hooked, "the same content keeps its time");

        prepared(&fake, &[]);
        assert_eq!(read(&fake, "tree/mm/memory.c"), numbered(1));
        assert!(time("tree/mm/memory.c") > hooked, "make must see that it changed");
        assert!(!fake.path("tree/mm/cow.c").exists());
        assert_eq!(time("tree/mm/other.c"), other);
    }

    #[test]
    fn a_tree_whose_making_was_cut_short_is_made_again() {
        let fake = Fake::new();
        prepared(&fake, Series::ALL);
        fs::remove_file(fake.path("state.json")).unwrap();
        fake.write("tree/mm/stray.c", "stray\n");
        prepared(&fake, &[]);
        assert!(!fake.path("tree/mm/stray.c").exists());
        assert_eq!(read(&fake, "tree/mm/memory.c"), numbered(1));
    }
}
