// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that others made: whatever they are, reading them neither blocks nor fills the memory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// What is said of a file that cannot be decoded, and what to do about it.
pub fn damaged(path: &Path) -> String {
    format!("{} is cut, damaged or foreign (measure again, or use a copy)", path.display())
}

/// `run.json`, a profile, a policy.
pub const TEXT_BYTES: u64 = 64 << 20;

/// Opens a regular file for reading. Opening anything else, such as a FIFO, does not block.
pub fn open_regular(path: &Path) -> Result<File> {
    let at_once = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(at_once).open(path);
    let file = file.with_context(|| format!("cannot open {}", path.display()))?;
    if !file.metadata()?.is_file() {
        bail!("{} is not a regular file: copy what it holds into one", path.display());
    }
    Ok(file)
}

/// The text of a regular file of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    String::from_utf8(read_bytes(path, limit)?).with_context(cannot)
}

/// The bytes of a regular file, at most `limit` of them.
pub fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open_regular(path)?.take(limit + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > limit {
        bail!(
            "{} is larger than the {} MiB that such a file may have",
            path.display(),
            limit >> 20
        );
    }
    Ok(bytes)
}

/// The lines of a regular file, each of at most `limit` bytes.
pub fn read_lines(path: &Path, limit: u64) -> Result<impl Iterator<Item = Result<String>> + use<>> {
    Ok(lines(BufReader::new(open_regular(path)?), limit))
}

/// The lines of `text`, each of at most `limit` bytes.
pub fn lines<T: BufRead>(mut text: T, limit: u64) -> impl Iterator<Item = Result<String>> + use<T> {
    std::iter::from_fn(move || {
        let mut line = String::new();
        match text.by_ref().take(limit + 1).read_line(&mut line) {
            Ok(0) => None,
            Ok(length) if length as u64 > limit => Some(Err(anyhow::anyhow!(
                "longer than the {} MiB that a line may have",
                limit >> 20
            ))),
            Ok(_) => Some(Ok(line)),
            Err(error) => Some(Err(error.into())),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_neither_block_nor_fill_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap();
        assert!(made.success());
        std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
        // A hole of 1 GiB takes no space.
        File::create(path("huge")).unwrap().set_len(1 << 30).unwrap();
        std::fs::write(path("text"), "a\nb").unwrap();
        for (name, said) in [
            ("fifo", "not a regular file"),
            ("zero", "not a regular file"),
            ("absent", "cannot open"),
            ("huge", "larger than the 1 MiB"),
        ] {
            let error = format!("{:#}", read_text(&path(name), 1 << 20).unwrap_err());
            assert!(error.contains(said) && error.contains(name), "{name}: {error}");
        }
        assert_eq!(read_text(&path("text"), 3).unwrap(), "a\nb");
        assert!(read_text(&path("text"), 2).is_err());
        let lines = |name, limit| read_lines(&path(name), limit).unwrap().next().unwrap();
        assert_eq!(lines("text", 2).unwrap(), "a\n");
        assert!(lines("huge", 1 << 20).unwrap_err().to_string().contains("1 MiB"));
        assert!(read_lines(&path("fifo"), 1).is_err());
    }
}
