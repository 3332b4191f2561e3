// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel/traced.toml`: the kernel's sources that are instrumented for the variant `traced`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cowlab_insert::{Selection, Target, instrument};
use serde::Deserialize;

use crate::patches::{Changes, KernelFolder};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traced {
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

impl Traced {
    pub fn read(kernel: &KernelFolder) -> Result<Traced> {
        let path = kernel.file("traced.toml");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Instrument its sources, as they are with `changes`.
    pub fn instrument(&self, tree: &Path, changes: &mut Changes) -> Result<()> {
        for source in &self.source {
            changes.bring(tree, &source.file)?;
            if source.instrument(changes.folder())? == 0 {
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

impl Source {
    /// How many functions tell of themselves then.
    fn instrument(&self, folder: &Path) -> Result<usize> {
        let path = folder.join(&self.file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let selection = Selection::new(&self.functions, &self.exclude, 0)
            .context("kernel/traced.toml")?
            .of(Target::Kernel);
        let name = self.file.as_os_str().as_encoded_bytes();
        let copy = instrument(&bytes, name, &selection)
            .with_context(|| self.file.display().to_string())?;
        fs::write(&path, &copy.bytes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(copy.functions.iter().filter(|function| function.identifier.is_some()).count())
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
        let mut changes = Changes::new(folder.path())?;
        Traced::read(&kernel)?.instrument(&folder.path().join("tree"), &mut changes)?;
        assert_eq!(changes.paths().iter().collect::<Vec<_>>(), [Path::new("mm/a.c")]);
        Ok(fs::read_to_string(changes.folder().join("mm/a.c"))?)
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
