// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel/traced.toml`: the kernel's sources that are instrumented for the variant `traced`; and,
//! for a study, a change that is made to them first.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cowlab_insert::{Selection, Target, instrument};
use serde::Deserialize;

use crate::build::Prepare;
use crate::key::hash_of_file;
use crate::patch;
use crate::series::KernelFolder;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    source: Vec<Source>,
}

/// A file of the kernel, and which of its functions; all that may be, if neither is said.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    file: PathBuf,
    #[serde(default)]
    functions: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
}

/// Instruments the sources.
#[derive(Debug)]
pub struct Traced {
    sources: Vec<Source>,
    change: Option<(PathBuf, Vec<PathBuf>)>,
    identity: String,
}

impl Traced {
    /// As `kernel/traced.toml` says, after the patch `change`.
    pub fn read(kernel: &KernelFolder, change: Option<&Path>) -> Result<Traced> {
        let path = kernel.file("traced.toml");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let list: List = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let mut identity = format!("insert {} {}", env!("CARGO_PKG_VERSION"), hash_of_file(&path)?);
        let change = match change {
            None => None,
            Some(patch) => {
                let text = fs::read_to_string(patch)
                    .with_context(|| format!("cannot read {}", patch.display()))?;
                identity += &format!(" change {}", hash_of_file(patch)?);
                Some((patch.to_owned(), patch::files(&text, patch)?))
            }
        };
        Ok(Traced { sources: list.source, change, identity })
    }

    fn instrument(&self, source: &Source, folder: &Path) -> Result<usize> {
        let path = folder.join(&source.file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let selection = Selection::new(&source.functions, &source.exclude, 0)
            .context("kernel/traced.toml")?
            .of(Target::Kernel);
        let name = source.file.as_os_str().as_encoded_bytes();
        let copy = instrument(&bytes, name, &selection)
            .with_context(|| source.file.display().to_string())?;
        fs::write(&path, &copy.bytes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(copy.functions.iter().filter(|function| function.identifier.is_some()).count())
    }
}

impl Prepare for Traced {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn files(&self) -> Vec<PathBuf> {
        let sources = self.sources.iter().map(|source| source.file.clone());
        let changed = self.change.iter().flat_map(|(_, files)| files.clone());
        sources.chain(changed).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn run(&self, folder: &Path) -> Result<()> {
        if let Some((change, _)) = &self.change {
            let name = change.file_stem().unwrap_or_default().to_string_lossy();
            patch::apply(folder, change, &name)?;
        }
        for source in &self.sources {
            if self.instrument(source, folder)? == 0 {
                bail!(
                    "kernel/traced.toml: no function of {} is instrumented: this source has none \
                     of these names",
                    source.file.display()
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(list: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("kernel")).unwrap();
        fs::write(folder.path().join("kernel/config"), "").unwrap();
        fs::write(folder.path().join("kernel/traced.toml"), list).unwrap();
        fs::create_dir_all(folder.path().join("tree/mm")).unwrap();
        let source =
            "static int one(void)\n{\n\treturn 1;\n}\n\nnoinstr int two(void)\n{\n\treturn 2;\n}\n";
        fs::write(folder.path().join("tree/mm/a.c"), source).unwrap();
        folder
    }

    fn traced(folder: &tempfile::TempDir) -> Result<String> {
        let kernel = KernelFolder::find(Some(&folder.path().join("kernel")))?;
        let traced = Traced::read(&kernel, None)?;
        assert_eq!(traced.files(), [PathBuf::from("mm/a.c")]);
        traced.run(&folder.path().join("tree"))?;
        Ok(fs::read_to_string(folder.path().join("tree/mm/a.c"))?)
    }

    #[test]
    fn sources_are_instrumented_but_for_what_the_kernel_forbids() {
        let text = traced(&folder("[[source]]\nfile = \"mm/a.c\"\n")).unwrap();
        assert!(text.starts_with("#include <linux/casper.h>\n"), "{text}");
        assert_eq!(text.matches("CASPER_FUNCTION(").count(), 1, "{text}");
    }

    #[test]
    fn a_list_that_names_nothing_is_refused() {
        let error = traced(&folder("[[source]]\nfile = \"mm/a.c\"\nfunctions = [\"three\"]\n"));
        assert!(error.unwrap_err().to_string().contains("mm/a.c is instrumented"));
        let error = traced(&folder("[[source]]\nfile = \"mm/a.c\"\nfunction = \"one\"\n"));
        assert!(format!("{:#}", error.unwrap_err()).contains("unknown field"));
    }
}
