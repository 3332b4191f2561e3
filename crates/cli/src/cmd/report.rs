// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `report RUN`: what a study's samples say, computed again from the samples alone.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use cowlab_analysis::figures::figures;
use cowlab_analysis::study::Study;
use cowlab_report::blame::Blamed;
use cowlab_report::{Document, footprint, next_page, of_bench, study};
use cowlab_store::stacks::CopyStacks;
use cowlab_store::{Run, RunFolder, WITHHELD};

use crate::args::ReportArgs;
use crate::profile_file::{PROFILE_FILE, ProfileFile};
use crate::{output, run_life};

pub fn run(json: bool, args: &ReportArgs) -> Result<()> {
    let mut run = Run::read(&args.run)?;
    if args.share.is_some() {
        run = run.without_names();
    }
    let blamed = match CopyStacks::read(&args.run)? {
        // Addresses, and the names of what runs here, are not given away.
        Some(stacks) if args.share.is_none() => Some(Blamed::of(&run, &stacks)),
        Some(_) => bail!(
            "{} has stacks, which hold names and addresses of its programs: give away its flame.svg \
             and report.html if you want to",
            args.run.display()
        ),
        None => None,
    };
    let (document, summary) = match (&blamed, Study::of(&run)) {
        (Some(blamed), _) => (blamed.document(&run)?, serde_json::to_value(blamed.summary())?),
        (None, Ok(own)) => (study::document(&own), study::summary(&own)),
        (None, Err(error)) => match without_profile(&run)? {
            Some(both) => both,
            None => {
                let benches: BTreeSet<&str> =
                    run.samples.iter().map(|s| s.bench.as_str()).collect();
                let holds = match benches.is_empty() {
                    true => "no samples".to_owned(),
                    false => Vec::from_iter(benches).join(", "),
                };
                return Err(error.context(format!(
                    "{}: nothing can be computed again from this run, which holds {holds}: read its \
                     report.html and its tables/",
                    args.run.display(),
                )));
            }
        },
    };
    if let Some(file) = &args.output {
        let html = cowlab_report::html::render(&document);
        cowlab_store::replace(file, html.as_bytes())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(copy) = &args.share {
        share(&run, &document, &args.run, copy)?;
    }
    match (json, args.tables) {
        (true, _) => output::json_of_run(&run, &args.run, summary),
        (false, true) => output::text(&document),
        (false, false) => output::text(&document.findings()),
    }
}

fn share(run: &Run, document: &Document, original: &Path, copy: &Path) -> Result<()> {
    let folder = RunFolder::create_at(copy)?;
    run_life::write(&folder, run, document)?;
    if original.join(PROFILE_FILE).exists() {
        let mut file = ProfileFile::read(original)?;
        file.environment.host = WITHHELD.to_owned();
        folder.write(PROFILE_FILE, &serde_json::to_vec_pretty(&file)?)?;
    }
    let path = folder.commit_as(0o755)?;
    output::say(&format!("{} names neither this host nor the command line", path.display()));
    Ok(())
}

/// The report and the summary of what has no machine profile: guests alone, or the
/// benchmarks of a store that takes snapshots.
fn without_profile(run: &Run) -> Result<Option<(Document, serde_json::Value)>> {
    let own = of_bench(run);
    if let (None, Some(document)) = (&own, next_page::document(run)) {
        return Ok(Some((document, next_page::summary(run))));
    }
    let own = own.or_else(|| footprint::document(run));
    let Some(document) = own else { return Ok(None) };
    Ok(Some((document, serde_json::to_value(figures(&run.samples))?)))
}
