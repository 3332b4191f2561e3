// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why nothing was written.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Usage(String),
    /// A source that is not C as we know it.
    #[error("{}: {error}; nothing was written", path.display())]
    Source { path: PathBuf, error: crate::Error },
    #[error("cannot {what} {}: {error}; nothing was written", path.display())]
    File { what: &'static str, path: PathBuf, error: io::Error },
}

pub(crate) fn file_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::File { what, path: path.to_path_buf(), error }
}
