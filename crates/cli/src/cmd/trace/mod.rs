// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `trace`: CASPER's verbs.

mod export;
mod record;
mod report;

use std::path::Path;

use anyhow::{Result, bail};
use cowlab_casper::profile::Profile;
use cowlab_casper::read;
use cowlab_schema::Command;
use cowlab_store::Missing;

use crate::args::Trace;

/// Run the verb.
pub fn run(json: bool, trace: &Trace) -> Result<()> {
    match trace {
        Trace::Export(args) => export::run(json, args),
        Trace::Record(args) => record::run(json, args),
        Trace::Report(args) => report::run(json, args),
    }
}

/// Open a trace; where there is none, say how one is made.
fn open(file: &Path) -> Result<read::Trace> {
    if !file.exists() {
        bail!("there is no {}: `{}` makes one", file.display(), Command::TraceRecord);
    }
    Ok(read::Trace::open(file)?)
}

/// Events that the trace lacks: lost while recording, or from the file since.
fn missing_events(profile: &Profile) -> u64 {
    let (damage, lost) = (&profile.damage, &profile.damage.lost);
    damage.missing_events + lost.dropped + lost.overwritten + lost.no_buffer + lost.disk
}

/// The same for `--json`.
fn missing(profile: &Profile) -> Vec<Missing> {
    let events = missing_events(profile);
    let reason = format!("the trace lacks {events} events");
    (events > 0).then(|| Missing { metric: "events".to_owned(), reason }).into_iter().collect()
}
