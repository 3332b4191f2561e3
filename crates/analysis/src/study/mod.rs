// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the samples of a study come to.

pub mod cow_faults;
pub mod fork_table;
pub mod sweep;
pub mod variants;

use anyhow::{Context as _, Result};
use cowlab_model::profile::MachineProfile;
use cowlab_schema::Bench;
use cowlab_store::{Environment, Run};
use sweep::Sweep;

use crate::check::{Check, check};
use crate::machine::profile_of;
use crate::samples::Samples;

/// A study: what was measured, and what it was condensed to.
#[derive(Debug, Clone)]
pub struct Study<'a> {
    /// Every sample, and how they were made.
    pub run: &'a Run,
    pub profile: MachineProfile,
    /// Predictions beside measurements, if any were made.
    pub check: Option<Check>,
    pub sweep: Sweep,
}

impl<'a> Study<'a> {
    /// Fits the profile and checks it on the points that it was not fitted to. Fails without a
    /// calibration in the run.
    pub fn of(run: &'a Run) -> Result<Study<'a>> {
        let environment = run.info.environments.first().context("the run names no environment")?;
        let (page, huge) = (environment.page_size_bytes, environment.thp_size_bytes);
        let profile = profile_of(&run.samples, page, huge)?;
        let check = check(&run.samples, &profile)?;
        Ok(Study::with(run, profile, check))
    }

    /// The same of a profile that is known, and what was checked of it.
    pub fn with(run: &'a Run, profile: MachineProfile, check: Option<Check>) -> Study<'a> {
        let mut study = Study { run, profile, check, sweep: Sweep::default() };
        study.sweep = sweep::sweep(&study);
        study
    }

    /// The samples of one bench on the machine itself, not in a guest.
    pub fn samples(&self, bench: &Bench) -> Samples<'a> {
        Samples::of(&self.run.samples, bench).in_environment(0)
    }

    pub fn environment(&self) -> Option<&'a Environment> {
        self.run.info.environments.first()
    }
}
