// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `trace`: CASPER's verbs.

mod export;
mod record;
mod report;

use anyhow::Result;

use crate::args::{Common, Trace};

/// Run the verb.
pub fn run(common: &Common, trace: &Trace) -> Result<()> {
    match trace {
        Trace::Export(args) => export::run(common, args),
        Trace::Record(args) => record::run(common, args),
        Trace::Report(args) => report::run(common, args),
    }
}
