// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `footprints`: real programs of a list, looked at one after the other.

mod look;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use cowlab_machine::installed;
use serde::Deserialize;
use tempfile::TempDir;

pub use look::{FOOTPRINTS, look};

/// The list that the project brings.
pub const PROGRAMS: &str = "examples/footprints/programs.toml";

/// One program of the list; `examples/footprints/programs.toml` says what the fields are. Those about
/// measuring are `tests-long/forecast`'s.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Program {
    pub name: String,
    /// What it does, between which moments.
    pub what: String,
    pub command: Vec<String>,
    /// Of the processes in it, the one that is meant.
    pub program: String,
    /// Of its spans, the ones that are meant.
    pub span: String,
    pub methods: Vec<String>,
    /// Whether the command itself calls the program that looks, which is put for {footprint}.
    #[serde(default)]
    pub looks_itself: bool,
    /// The signal that marks its moments, if it does so.
    pub mark: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    program: Vec<Program>,
    #[serde(rename = "format")]
    _format: u32,
}

/// The programs of a list, and what they need to run.
pub struct Programs {
    /// In the list's order.
    pub all: Vec<Program>,
    folder: PathBuf,
    scratch: TempDir,
    cowlab: PathBuf,
}

impl Programs {
    /// Read the list at `path`, or the installed one in place of [`PROGRAMS`], of which `names` are wanted (all, if none), and compile marks.c
    /// beside it. `cowlab` is the program that looks. Fails if the list cannot be read or lacks a
    /// name, or without a compiler.
    pub fn read(path: &Path, names: &[String], cowlab: PathBuf) -> Result<Programs> {
        let shared = installed(PROGRAMS).filter(|_| path == Path::new(PROGRAMS) && !path.exists());
        let path = shared.as_deref().unwrap_or(path);
        let text = fs::read_to_string(path).with_context(|| {
            format!(
                "cannot read the list of programs {}: give --programs, or run from the project's \
                 folder",
                path.display()
            )
        })?;
        let list: List = toml::from_str(&text)
            .with_context(|| format!("{} is no list of programs", path.display()))?;
        let known: Vec<&str> = list.program.iter().map(|of| of.name.as_str()).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            bail!("{} has no program {name}: it has {}", path.display(), known.join(", "));
        }
        let wanted = |of: &Program| names.is_empty() || names.contains(&of.name);
        let all = list.program.into_iter().filter(wanted).collect();
        let folder = path.parent().filter(|of| !of.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
        let scratch = tempfile::tempdir().context("no folder for the programs' files")?;
        let programs = Programs { all, folder, scratch, cowlab };
        programs.compile_marks()?;
        Ok(programs)
    }

    fn marks(&self) -> PathBuf {
        self.scratch.path().join("marks.so")
    }

    fn compile_marks(&self) -> Result<()> {
        let source = self.folder.join("marks.c");
        if !source.is_file() {
            return Ok(());
        }
        let output = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .args([self.marks(), source])
            .output()
            .context("no C compiler is installed: apt install gcc")?;
        if !output.status.success() {
            bail!("marks.c cannot be compiled: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    fn words(&self, words: &[String]) -> Vec<String> {
        words.iter().map(|word| word.replace("{marks}", &self.marks().to_string_lossy())).collect()
    }

    /// Run words in the list's folder, and nothing of them on our own output.
    fn run(&self, name: &str, words: &[String]) -> Result<()> {
        let (first, rest) = words.split_first().context("an empty command")?;
        let output = Command::new(first)
            .args(rest)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .with_context(|| {
                format!(
                    "{name}: {first} is not installed (in a clone of cowlab, scripts/install \
                     programs installs all of them)"
                )
            })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last: Vec<&str> = said.lines().rev().take(3).collect();
            bail!(
                "{name}: `{}` ended with {}: {}; scripts/install programs installs what the \
                 programs need",
                words.join(" "),
                output.status,
                last.into_iter().rev().collect::<Vec<_>>().join(" ")
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> PathBuf {
        Path::new("../..").join(PROGRAMS)
    }

    #[test]
    fn the_projects_list_is_read() {
        let programs = Programs::read(&list(), &[], "cowlab".into()).unwrap();
        assert!(programs.all.len() >= 8);
        let compared = programs.all.iter().filter(|of| of.methods.iter().any(|m| m == "snapshot"));
        assert!(compared.count() >= 3);
    }

    #[test]
    fn what_is_not_in_it_is_refused() {
        let read = |path: &Path, names: &[String]| {
            Programs::read(path, names, "cowlab".into()).map(|_| ()).unwrap_err()
        };
        let unknown = read(&list(), &["vi".to_owned()]).to_string();
        assert!(unknown.contains("no program vi") && unknown.contains("emacs-hanoi"), "{unknown}");
        assert!(read(Path::new("/nowhere"), &[]).to_string().contains("--programs"));
    }
}
