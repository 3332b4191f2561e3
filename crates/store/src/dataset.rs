// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A data set: a folder with the runs of many hosts, nested as anybody likes. Folders named KEY=VALUE, a
//! hive's partitions, say something of the runs in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};

/// What folders' names say of a run, by key.
pub type Labels = BTreeMap<String, String>;

/// What Hive, Spark and DuckDB have for a value that is not known.
const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";

/// A run in a data set, not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its folder.
    pub folder: PathBuf,
    /// What the path says of it, the folder of the data set included.
    pub labels: Labels,
}

/// The runs at or below `dataset`, whole or not, in the order of their paths; and what could not be looked
/// into. Hidden folders, in which runs are unfinished, and links to folders are left out.
pub fn runs_below(dataset: &Path) -> Result<(Vec<Found>, Vec<Error>)> {
    if !dataset.is_dir() {
        bail!("there is no folder {}: name a folder of runs", dataset.display());
    }
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    let mut folders = vec![dataset.to_owned()];
    while let Some(folder) = folders.pop() {
        match folders_in(&folder) {
            Ok(None) => found.push(Found { labels: labels(&folder), folder }),
            Ok(Some(within)) => folders.extend(within),
            Err(error) => errors.push(error),
        }
    }
    found.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok((found, errors))
}

/// The folders in a folder; `None` of a run's.
fn folders_in(folder: &Path) -> Result<Option<Vec<PathBuf>>> {
    let failed = || format!("cannot look into {}", folder.display());
    let mut within = Vec::new();
    for entry in fs::read_dir(folder).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let name = entry.file_name();
        if name == "run.json" || name == "samples.parquet" {
            return Ok(None);
        }
        let is_folder = entry.file_type().with_context(failed)?.is_dir();
        if is_folder && !name.as_encoded_bytes().starts_with(b".") {
            within.push(entry.path());
        }
    }
    Ok(Some(within))
}

fn labels(path: &Path) -> Labels {
    let names = path.iter().filter_map(|name| name.to_str()?.split_once('='));
    let known = names.filter(|(key, value)| !key.is_empty() && *value != UNKNOWN);
    known.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_with_what_their_folders_say() {
        let parent = tempfile::tempdir().unwrap();
        let make = |path: &str, file: &str| {
            fs::create_dir_all(parent.path().join(path)).unwrap();
            fs::write(parent.path().join(path).join(file), "").unwrap();
        };
        make("type=big/host=b/run", "run.json");
        make("type=big/host=a/run", "samples.parquet");
        make("plain", "run.json");
        make("plain/tables", "run.json");
        make(&format!("type={UNKNOWN}/.unfinished-x"), "run.json");
        make(&format!("type={UNKNOWN}/run"), "run.json");
        std::os::unix::fs::symlink(parent.path(), parent.path().join("plainer")).unwrap();
        let (found, errors) = runs_below(parent.path()).unwrap();
        assert!(errors.is_empty());
        let told: Vec<_> = found
            .iter()
            .map(|of| {
                (of.folder.strip_prefix(parent.path()).unwrap().to_str().unwrap(), &of.labels)
            })
            .collect();
        let of = |pairs: &[(&str, &str)]| -> Labels {
            pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
        };
        assert_eq!(
            told,
            [
                ("plain", &of(&[])),
                (&*format!("type={UNKNOWN}/run"), &of(&[])),
                ("type=big/host=a/run", &of(&[("type", "big"), ("host", "a")])),
                ("type=big/host=b/run", &of(&[("type", "big"), ("host", "b")])),
            ]
        );
        let (itself, _) = runs_below(&found[0].folder).unwrap();
        assert_eq!(itself.len(), 1);
        assert!(runs_below(&parent.path().join("nowhere")).is_err());
    }
}
