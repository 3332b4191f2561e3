// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What verbs print: one JSON document, or tables for people.

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::{Error, Result};
pub use cowlab_document::output::{begin, json, message, print, say, text};
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
    /// Where the run is; absent if none was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<&'a Path>,
    /// The same rows as in samples.ndjson.gz.
    pub samples: &'a [Sample],
    pub summary: S,
    /// What could not be measured.
    pub missing: &'a [Missing],
}

/// Print the JSON document of a run.
pub fn json_of_run(run: &Run, folder: &Path, summary: impl Serialize) -> Result<()> {
    json(&JsonDocument {
        format: FORMAT,
        run: Some(&run.info),
        folder: Some(folder),
        samples: &run.samples,
        summary,
        missing: &run.info.missing,
    })
}

/// Print the JSON document of a verb that keeps no run.
pub fn json_of(summary: impl Serialize, samples: &[Sample], missing: &[Missing]) -> Result<()> {
    json(&JsonDocument { format: FORMAT, run: None, folder: None, samples, summary, missing })
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

/// A line of progress on standard error, unless --json is given and nobody watches.
pub fn progress(json: bool, what: &str) {
    if !json || io::stderr().is_terminal() {
        say(what);
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
