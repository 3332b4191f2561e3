// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why nothing was written.

use std::io;
use std::path::{Path, PathBuf};

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The caller's mistake.
    #[error("{0}")]
    Usage(String),
    /// A source that is not C as we know it.
    #[error("{}: {error}; nothing was written", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// What and where.
        error: crate::Error,
    },
    /// A file or a directory.
    #[error("cannot {what} {}: {error}; nothing was written", path.display())]
    File {
        /// In the infinitive.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

pub(crate) fn file_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::File { what, path: path.to_path_buf(), error }
}
