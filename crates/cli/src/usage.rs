// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors that are the caller's: they end the program with status 2.

use std::fmt;

/// A combination of flags, or a value, that makes no sense here.
#[derive(Debug)]
pub struct WrongUsage(pub String);

impl fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}
