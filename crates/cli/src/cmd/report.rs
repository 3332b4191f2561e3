// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `report RUN`: what a study's samples say, computed again from the samples alone.

use anyhow::{Context as _, Result};
use cowlab_bench::calibrate::{Scope, profile_of};
use cowlab_bench::points::{self, Check};
use cowlab_model::profile::MachineProfile;
use cowlab_report::Document;
use cowlab_report::figures::figures;
use cowlab_report::study::{self, Study};
use cowlab_store::Run;

use crate::args::{Common, ReportArgs};
use crate::cmd::calibrate::ProfileFile;
use crate::output;

/// What follows from a study's samples.
pub struct Analysis {
    profile: MachineProfile,
    check: Option<Check>,
}

impl Analysis {
    /// Fit the profile and check it on the points that it was not fitted to.
    pub fn of(run: &Run) -> Result<Analysis> {
        let environment = run.info.environments.first().context("the run names no environment")?;
        let scope = Scope {
            page_size_bytes: environment.page_size_bytes,
            huge_page_bytes: environment.thp_size_bytes,
            other_cpus: environment.cpus > 1,
            largest_bytes: u64::MAX,
        };
        let profile = profile_of(&run.samples, scope)?;
        let check = points::check(&run.samples, &profile)?;
        Ok(Analysis { profile, check })
    }

    fn study<'a>(&'a self, run: &'a Run) -> Study<'a> {
        Study { run, profile: &self.profile, check: self.check.as_ref() }
    }

    /// The report.
    pub fn document(&self, run: &Run) -> Document {
        study::document(&self.study(run))
    }

    /// The derived figures for `--json`.
    pub fn summary(&self, run: &Run) -> serde_json::Value {
        study::summary(&self.study(run))
    }

    /// The machine profile as a file.
    pub fn profile_file(&self, run: &Run) -> Result<Vec<u8>> {
        let environment = run.info.environments.first().context("the run names no environment")?;
        ProfileFile::bytes(environment, &self.profile)
    }
}

/// Run the verb.
pub fn run(common: &Common, args: &ReportArgs) -> Result<()> {
    let run = Run::read(&args.run)?;
    let (document, summary) = match Analysis::of(&run) {
        Ok(analysis) => (analysis.document(&run), analysis.summary(&run)),
        Err(error) => match without_profile(&run)? {
            Some(both) => both,
            None => {
                let what = "neither a study's nor of a guest that was measured under policies";
                return Err(error.context(format!("{}: {what}", args.run.display())));
            }
        },
    };
    if let Some(file) = &args.html {
        let html = cowlab_report::html::render(&document);
        std::fs::write(file, html).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if common.json { output::json_of_run(&run, summary) } else { output::text(&document) }
}

/// The report and the summary of what has no machine profile: guests alone, or the
/// benchmarks of a store that takes snapshots.
fn without_profile(run: &Run) -> Result<Option<(Document, serde_json::Value)>> {
    let own = study::of_bench(run);
    if let (None, Some(document)) = (&own, study::kernel::document(run)) {
        return Ok(Some((document, study::kernel::summary(run))));
    }
    let own =
        own.or_else(|| study::programs::document(run)).or_else(|| study::footprint::document(run));
    let Some(document) = own else { return Ok(None) };
    Ok(Some((document, serde_json::to_value(figures(&run.samples))?)))
}
