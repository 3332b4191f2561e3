// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Standard output and standard error: documents, one JSON document, and lines that begin with the program's name.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use anyhow::{Error, Result};
use serde::Serialize;

use crate::{Document, terminal};

static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Names the program, once, for what it says on standard error.
pub fn begin(program: &'static str) {
    let _ = PROGRAM.set(program);
}

pub fn json(value: &impl Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

pub fn text(document: &Document) -> Result<()> {
    print(&terminal::render(document, width(), io::stdout().is_terminal()))
}

/// The terminal's own width; `COLUMNS` where there is no terminal, or it does not say.
fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| size.ws_col)
        .filter(|columns| *columns > 0)
        .or_else(|| std::env::var("COLUMNS").ok()?.parse().ok())
}

/// An error with its causes, each once: what a text holds already is not repeated.
pub fn message(error: &Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// A line on standard error. Where that cannot be written, nobody is there to be told. Names of files
/// and processes are among it, which must not drive a terminal.
pub fn say(what: &str) {
    let lines: Vec<String> = what.split('\n').map(terminal::clean).collect();
    let _ = writeln!(io::stderr(), "{}: {}", PROGRAM.get().unwrap_or(&""), lines.join("\n"));
}

/// Write to standard output. A reader that has gone is not an error.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::from_raw_os_error(24);
        let told = anyhow::anyhow!("cannot read x: {}", cause());
        assert_eq!(
            message(&told.context("nothing")),
            format!("nothing: cannot read x: {}", cause())
        );
        let twice: anyhow::Result<()> = Err(cause()).context(format!("cannot read x: {}", cause()));
        assert_eq!(message(&twice.unwrap_err()), format!("cannot read x: {}", cause()));
    }
}
