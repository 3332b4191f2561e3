// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `report RUN`: what a study's samples say, computed again from the samples alone.

use anyhow::{Context as _, Result};
use cowlab_analysis::figures::figures;
use cowlab_analysis::study::Study;
use cowlab_report::{Document, footprint, kernel, of_bench, programs, study};
use cowlab_store::Run;

use crate::args::ReportArgs;
use crate::output;

/// Run the verb.
pub fn run(json: bool, args: &ReportArgs) -> Result<()> {
    let run = Run::read(&args.run)?;
    let (document, summary) = match Study::of(&run) {
        Ok(own) => (study::document(&own), study::summary(&own)),
        Err(error) => match without_profile(&run)? {
            Some(both) => both,
            None => {
                let what = "neither a study's nor of a guest that was measured under policies";
                return Err(error.context(format!("{}: {what}", args.run.display())));
            }
        },
    };
    if let Some(file) = &args.output {
        let html = cowlab_report::html::render(&document);
        cowlab_serve::replace(file, html.as_bytes())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    match (json, args.tables) {
        (true, _) => output::json_of_run(&run, summary),
        (false, true) => output::text(&document),
        (false, false) => output::text(&document.findings()),
    }
}

/// The report and the summary of what has no machine profile: guests alone, or the
/// benchmarks of a store that takes snapshots.
fn without_profile(run: &Run) -> Result<Option<(Document, serde_json::Value)>> {
    let own = of_bench(run);
    if let (None, Some(document)) = (&own, kernel::document(run)) {
        return Ok(Some((document, kernel::summary(run))));
    }
    let own = own.or_else(|| programs::document(run)).or_else(|| footprint::document(run));
    let Some(document) = own else { return Ok(None) };
    Ok(Some((document, serde_json::to_value(figures(&run.samples))?)))
}
