// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The name of a built kernel in the cache: a hash of everything that went into it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

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
    pub fn text(&mut self, name: &str, text: &str) {
        self.bytes(name, text.as_bytes());
    }

    /// The content of a file under the name that it has for the build.
    pub fn file(&mut self, name: &str, path: &Path) -> Result<()> {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        self.bytes(name, &content);
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

    #[test]
    fn parts_do_not_run_into_each_other() {
        let of = |parts: [(&str, &str); 2]| {
            let mut key = Key::default();
            parts.iter().for_each(|(name, text)| key.text(name, text));
            key.name()
        };
        assert_ne!(of([("a", "bc"), ("d", "")]), of([("a", "b"), ("cd", "")]));
        assert_eq!(of([("a", ""), ("b", "")]).len(), 16);
    }
}
