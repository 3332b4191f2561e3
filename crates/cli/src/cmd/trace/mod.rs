// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `trace`: CASPER's verbs.

mod export;
mod record;
mod report;

use anyhow::Result;

use crate::args::Trace;

/// Run the verb.
pub fn run(json: bool, trace: &Trace) -> Result<()> {
    match trace {
        Trace::Export(args) => export::run(json, args),
        Trace::Record(args) => record::run(json, args),
        Trace::Report(args) => report::run(json, args),
    }
}
