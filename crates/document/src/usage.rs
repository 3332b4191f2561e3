// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors that say with which status the program ends: 2 where they are the caller's.

use std::ffi::OsStr;
use std::fmt;
use std::process::ExitCode;

use anyhow::Result;

use crate::output::{message, say};

/// A combination of flags, or a value, that makes no sense here.
#[derive(Debug)]
pub struct WrongUsage(pub String);

impl fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// A command could not be run.
pub fn cannot_start(program: &OsStr) -> String {
    format!("cannot start {} (give its path, or a name in PATH)", program.to_string_lossy())
}

/// The command that was run failed: the program ends as it did, and has nothing to add.
#[derive(Debug)]
pub struct EndedWith(pub u8);

impl EndedWith {
    /// As a shell reports a status of wait(2).
    pub fn of_wait_status(status: i32) -> EndedWith {
        let (signal, code) = (status & 0x7f, status >> 8 & 0xff);
        EndedWith(if signal == 0 { code } else { 128 + signal } as u8)
    }
}

impl fmt::Display for EndedWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the command ended with status {}", self.0)
    }
}

impl std::error::Error for EndedWith {}

/// How a program ends; what went wrong is said.
pub fn ended(result: Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if let Some(&EndedWith(status)) = error.downcast_ref() {
        return ExitCode::from(status);
    }
    say(&message(&error));
    ExitCode::from(if error.is::<WrongUsage>() { 2 } else { 1 })
}
