// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is told how far something is, and who may end it.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ctrl-C was pressed: what was started is gone.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted: what was started was ended")
    }
}

impl Error for Interrupted {}

pub struct Watch<'a> {
    pub say: &'a dyn Fn(&str),
    pub interrupted: &'a AtomicBool,
}

impl Watch<'_> {
    pub fn say(&self, what: &str) {
        (self.say)(what);
    }

    /// Fail if Ctrl-C was pressed.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.interrupted.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }
}
