// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads below a root folder, so that a saved tree stands in for a machine.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::{fs, io};

use procfs_core::{FromRead, ProcError};

/// The folder that holds `proc` and `sys`: `/` on a machine, a saved tree in a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

/// Why a file that is there gave no fact.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The kernel refused to open or read it.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// It is empty, or ends in the middle of a line.
    #[error("{}: cut short (the last line has no end)", path.display())]
    Cut { path: PathBuf },
    /// Its text is not what proc(5) or the kernel's documentation describes.
    #[error("{}: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
}

impl Default for Root {
    fn default() -> Self {
        Root::new("/")
    }
}

impl Root {
    /// A root at `path`: `/`, or the folder of a saved tree.
    pub fn new(path: impl Into<PathBuf>) -> Root {
        Root(path.into())
    }

    /// Whether this is the running machine: only then are system calls asked, and not only files.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The place of `/proc/…` or `/sys/…` below this root.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        let file = file.as_ref();
        self.0.join(file.strip_prefix("/").unwrap_or(file))
    }

    /// Whether a file or folder is there.
    pub fn exists(&self, file: impl AsRef<Path>) -> bool {
        self.path(file).exists()
    }

    /// The whole text; `None` where there is no such file. Bytes that are not UTF-8 (a process
    /// may give itself any name) are replaced, not refused.
    pub(crate) fn read(&self, file: &str) -> Result<Option<String>, ReadError> {
        let path = self.path(file);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ReadError::Io { path, source }),
        }
    }

    /// Parses a file with procfs-core; `None` where there is no such file.
    pub(crate) fn parse<T: FromRead>(&self, file: &str) -> Result<Option<T>, ReadError> {
        self.read(file)?.map(|text| parse_text(&self.path(file), &text)).transpose()
    }
}

/// Parses the text of `path`, which is named in the error.
///
/// A text without an end of line is refused before it is parsed: the kernel ends each line, and
/// some of procfs-core's parsers index into a line's words and would panic on half a line.
pub(crate) fn parse_text<T: FromRead>(path: &Path, text: &str) -> Result<T, ReadError> {
    if !text.ends_with('\n') {
        return Err(ReadError::Cut { path: path.to_owned() });
    }
    T::from_read(text.as_bytes()).map_err(|e| {
        let reason = match e {
            // Its Display names a source file and asks to report a bug; the message is enough.
            ProcError::InternalError(inner) => {
                inner.msg.trim_start_matches("Internal Unwrap Error: ").to_owned()
            }
            other => other.to_string(),
        };
        ReadError::Malformed { path: path.to_owned(), reason: format!("not understood: {reason}") }
    })
}

/// Reads facts and remembers what could not be read.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) root: &'a Root,
    problems: RefCell<Vec<String>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(root: &'a Root) -> Self {
        Reader { root, problems: RefCell::default() }
    }

    /// What was there and could not be read, one sentence each.
    pub(crate) fn into_problems(self) -> Vec<String> {
        self.problems.into_inner()
    }

    fn keep<T>(&self, result: Result<Option<T>, ReadError>) -> Option<T> {
        result.unwrap_or_else(|e| {
            self.problems.borrow_mut().push(e.to_string());
            None
        })
    }

    fn malformed(&self, file: &str, reason: &str) {
        let path = self.root.path(file);
        let error = ReadError::Malformed { path, reason: reason.to_owned() };
        self.problems.borrow_mut().push(error.to_string());
    }

    pub(crate) fn parse<T: FromRead>(&self, file: &str) -> Option<T> {
        self.keep(self.root.parse(file))
    }

    /// The same of a file without names. procfs-core slices into the keys of meminfo, and panics in the
    /// middle of a character.
    pub(crate) fn parse_ascii<T: FromRead>(&self, file: &str) -> Option<T> {
        match self.root.read(file) {
            Ok(Some(text)) if !text.is_ascii() => {
                self.malformed(file, "not understood: it is not ASCII");
                None
            }
            text => self.keep(text.and_then(|text| {
                text.map(|text| parse_text(&self.root.path(file), &text)).transpose()
            })),
        }
    }

    /// The text without the space around it; an empty file is a problem.
    pub(crate) fn text(&self, file: &str) -> Option<String> {
        let text = self.keep(self.root.read(file))?;
        let text = text.trim();
        if text.is_empty() {
            self.malformed(file, "is empty");
            return None;
        }
        Some(text.to_owned())
    }

    pub(crate) fn number(&self, file: &str) -> Option<u64> {
        let text = self.text(file)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.malformed(file, &format!("{text:?} is not a number"));
        }
        number
    }

    /// Names in a folder, sorted; none where there is no such folder.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.root.path(folder))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}
