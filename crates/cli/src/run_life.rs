// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run: begun before anything is measured, kept as a folder with its report, and shown.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};
use cowlab_model::profile::MachineProfile;
use cowlab_report::{Document, csv, html};
use cowlab_store::{Environment, Missing, Run, RunFolder, RunInfo};
use serde::Serialize;

use crate::args::Common;
use crate::output;
use crate::profile_file::{PROFILE_FILE, ProfileFile};

/// A run in progress. Dropped, it leaves nothing.
pub struct RunLife {
    pub run: Run,
    folder: RunFolder,
    began: Instant,
    json: bool,
}

pub struct Report {
    /// For people: a page and tables.
    pub document: Document,
    /// For `--json`.
    pub summary: serde_json::Value,
    /// If the run calibrated.
    pub profile: Option<MachineProfile>,
    /// More files of the run, by name.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Report {
    pub fn new(document: Document, summary: impl Serialize) -> Result<Report> {
        let summary = serde_json::to_value(summary)?;
        Ok(Report { document, summary, profile: None, files: Vec::new() })
    }
}

pub struct Kept {
    pub path: PathBuf,
    pub run: Run,
    pub report: Report,
    json: bool,
}

impl RunLife {
    /// Begin; fails early if nothing can be written.
    pub fn begin(common: &Common, name: &str, environment: Environment) -> Result<RunLife> {
        let info = RunInfo::begin(name, common.seed, environment);
        let folder = RunFolder::create(&common.output, &info)?;
        let run = Run { info, samples: Vec::new() };
        Ok(RunLife { run, folder, began: Instant::now(), json: common.json })
    }

    pub fn lacks(&mut self, metric: &str, reason: impl Into<String>) {
        self.run.info.missing.push(Missing { metric: metric.to_owned(), reason: reason.into() });
    }

    /// Write the samples so far into the unfinished folder: SIGKILL loses only what comes later.
    pub fn keep_so_far(&self) -> Result<()> {
        self.folder.write_run(&self.run)
    }

    /// Keep it with `report`'s result. Samples measured before an error are kept too, and the error
    /// says where.
    pub fn end(
        self,
        ended: Result<()>,
        report: impl FnOnce(&Run) -> Result<Report>,
    ) -> Result<Kept> {
        if self.run.samples.is_empty() {
            ended?;
            return self.kept(report);
        }
        let kept = self.kept(report)?;
        ended.with_context(|| format!("{} has what was measured before", kept.path.display()))?;
        Ok(kept)
    }

    fn kept(mut self, report: impl FnOnce(&Run) -> Result<Report>) -> Result<Kept> {
        self.run.info.duration_s = Some(self.began.elapsed().as_secs_f64());
        let report = report(&self.run)?;
        write(&self.folder, &self.run, &report.document)?;
        if let Some(profile) = &report.profile {
            let file = ProfileFile::bytes(&self.run.info.environments[0], profile)?;
            self.folder.write(PROFILE_FILE, &file)?;
        }
        for (name, contents) in &report.files {
            self.folder.write(name, contents)?;
        }
        Ok(Kept { path: self.folder.commit()?, run: self.run, report, json: self.json })
    }
}

/// Write a run with its report as a page and as tables.
pub fn write(folder: &RunFolder, run: &Run, document: &Document) -> Result<()> {
    folder.write_run(run)?;
    for (name, contents) in csv::tables(document) {
        folder.write(&format!("tables/{name}"), contents.as_bytes())?;
    }
    folder.write("report.html", html::render(document).as_bytes())
}

impl Kept {
    /// Say where it is, and print it.
    pub fn show(&self) -> Result<()> {
        output::progress(self.json, &format!("the run is {}", self.path.display()));
        self.print()
    }

    /// As one JSON document, or as text.
    pub fn print(&self) -> Result<()> {
        match self.json {
            true => output::json_of_run(&self.run, &self.path, &self.report.summary),
            false => output::text(&self.report.document),
        }
    }

    /// Print only the findings unless `all`, and where the page is.
    pub fn print_findings(&self, all: bool) -> Result<()> {
        match (self.json, all) {
            (true, _) => output::json_of_run(&self.run, &self.path, &self.report.summary)?,
            (false, true) => output::text(&self.report.document)?,
            (false, false) => output::text(&self.report.document.findings())?,
        }
        let page = std::path::absolute(self.path.join("report.html")).context("the run's path")?;
        output::progress(
            self.json,
            &format!("the report is file://{} (--tables prints it)", page.display()),
        );
        Ok(())
    }
}
