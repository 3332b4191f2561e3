// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What verbs print: one JSON document, or tables for people.

use std::io::{self, IsTerminal, Write};

use anyhow::{Error, Result};
use cowlab_report::Document;
use cowlab_store::{FORMAT, Missing, Run, RunInfo, Sample};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

/// The document that `--json` prints.
#[derive(Serialize)]
pub struct JsonDocument<'a, S: Serialize> {
    pub format: u32,
    /// As in run.json; absent if nothing was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<&'a RunInfo>,
    /// The same rows as in Parquet.
    pub samples: &'a [Sample],
    pub summary: S,
    /// What could not be measured.
    pub missing: &'a [Missing],
}

/// Print the JSON document of a run.
pub fn json_of_run(run: &Run, summary: impl Serialize) -> Result<()> {
    json(&JsonDocument {
        format: FORMAT,
        run: Some(&run.info),
        samples: &run.samples,
        summary,
        missing: &run.info.missing,
    })
}

/// Print the JSON document of a verb that keeps no run.
pub fn json_of(summary: impl Serialize, samples: &[Sample], missing: &[Missing]) -> Result<()> {
    json(&JsonDocument { format: FORMAT, run: None, samples, summary, missing })
}

pub fn json(value: &impl Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

pub fn text(document: &Document) -> Result<()> {
    let terminal = io::stdout().is_terminal();
    let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    print(&cowlab_report::terminal::render(document, width, terminal))
}

/// Print several documents as text, an empty line between two.
pub fn texts(documents: impl IntoIterator<Item = Document>) -> Result<()> {
    for (number, document) in documents.into_iter().enumerate() {
        print(if number > 0 { "\n" } else { "" })?;
        text(&document)?;
    }
    Ok(())
}

/// Splits results into values and errors.
pub fn parted<T>(all: impl Iterator<Item = Result<T>>) -> (Vec<T>, Vec<Error>) {
    let (mut had, mut errors) = (Vec::new(), Vec::new());
    for one in all {
        match one {
            Ok(one) => had.push(one),
            Err(error) => errors.push(error),
        }
    }
    (had, errors)
}

/// Prints all errors but the last, which becomes the program's.
pub fn errors(mut all: Vec<Error>) -> Result<()> {
    let last = all.pop();
    all.iter().for_each(|error| say(&message(error)));
    last.map_or(Ok(()), Err)
}

/// An error with its causes; a cause that the text repeats is left out.
pub fn message(error: &Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// A line on standard error; failures to write are ignored. Escapes names of files and processes, which
/// must not control a terminal.
pub fn say(what: &str) {
    let lines: Vec<String> = what.split('\n').map(cowlab_report::terminal::clean).collect();
    let _ = writeln!(io::stderr(), "cowlab: {}", lines.join("\n"));
}

/// A line of progress on standard error, unless --json is given and nobody watches.
pub fn progress(json: bool, what: &str) {
    if !json || io::stderr().is_terminal() {
        say(what);
    }
}

/// Write to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(()),
    }
}

/// Whether standard output's reader has gone. Asked between lines: the next one may be far off.
pub fn reader_has_gone() -> bool {
    let out = io::stdout();
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut polled, Some(&at_once)).is_ok() && polled[0].revents().intersects(gone)
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
