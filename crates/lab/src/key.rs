// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The name of a built kernel in the cache: a hash of everything that went into it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::series::Step;

/// Collects what a kernel is made of.
pub struct Key(Sha256);

impl Default for Key {
    fn default() -> Self {
        // Changes with the way in which kernels are built.
        let mut key = Key(Sha256::new());
        key.text("format", "1");
        key
    }
}

impl Key {
    /// A named text.
    pub fn text(&mut self, name: &str, text: &str) {
        self.bytes(name, text.as_bytes());
    }

    /// The content of a file under the name that it has for the build.
    pub fn file(&mut self, name: &str, path: &Path) -> Result<()> {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        self.bytes(name, &content);
        Ok(())
    }

    /// A step: all of it but its message, which no compiler sees.
    pub fn step(&mut self, step: &Step) -> Result<()> {
        self.text("step", &step.name);
        for path in &step.new_files {
            let file = step.new_file(path);
            let mode = fs::metadata(&file)?.permissions().mode() & 0o111;
            self.text("mode", &mode.to_string());
            self.file(&path.to_string_lossy(), &file)?;
        }
        for (name, file) in [("hooks.patch", &step.patch), ("config", &step.config())] {
            if let Some(file) = file {
                self.file(name, file)?;
            }
        }
        Ok(())
    }

    /// Lengths keep one part from passing for another.
    fn bytes(&mut self, name: &str, content: &[u8]) {
        for part in [name.as_bytes(), content] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    /// The name: 16 hexadecimal digits.
    pub fn name(self) -> String {
        hex(&self.0.finalize()[..8])
    }
}

/// The SHA-256 of a file, in hexadecimal.
pub fn hash_of_file(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut file = fs::File::open(path).with_context(cannot)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match std::io::Read::read(&mut file, &mut buffer).with_context(cannot)? {
            0 => return Ok(hex(&hash.finalize())),
            length => hash.update(&buffer[..length]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{KernelFolder, Series};

    fn name_of(change: impl Fn(&Path)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let step = folder.path().join("research/0001-a");
        fs::create_dir_all(step.join("tree/mm")).unwrap();
        for (path, text) in [
            ("config", ""),
            ("research/0001-a/tree/mm/x.c", "int x;\n"),
            ("research/0001-a/MESSAGE", "mm: x\n"),
            ("record.h", "struct r;\n"),
        ] {
            fs::write(folder.path().join(path), text).unwrap();
        }
        std::os::unix::fs::symlink("../../../../record.h", step.join("tree/mm/r.h")).unwrap();
        change(folder.path());
        let mut key = Key::default();
        let kernel = KernelFolder::find(Some(folder.path())).unwrap();
        for step in kernel.steps(Series::ALL, None, "6.12").unwrap() {
            key.step(&step).unwrap();
        }
        key.name()
    }

    #[test]
    fn whatever_the_compiler_sees_changes_the_name() {
        let write = |path: &'static str, text: &'static str| {
            name_of(move |folder| fs::write(folder.join(path), text).unwrap())
        };
        let before = name_of(|_| {});
        assert_eq!(before, name_of(|_| {}));
        assert_eq!(before.len(), 16);
        let changed = [
            write("research/0001-a/tree/mm/x.c", "int y;\n"),
            write("research/0001-a/tree/mm/y.c", "int x;\n"),
            write("research/0001-a/hooks.patch", "x"),
            write("research/0001-a/config", "x"),
            // Behind the link.
            write("record.h", "struct s;\n"),
        ];
        for (at, name) in changed.iter().enumerate() {
            assert_ne!(*name, before, "change {at}");
            assert!(!changed[..at].contains(name), "change {at}");
        }
        assert_eq!(before, write("research/0001-a/MESSAGE", "mm: y\n"));
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let of = |parts: [(&str, &str); 2]| {
            let mut key = Key::default();
            parts.iter().for_each(|(name, text)| key.text(name, text));
            key.name()
        };
        assert_ne!(of([("a", "bc"), ("d", "")]), of([("a", "b"), ("cd", "")]));
    }
}
