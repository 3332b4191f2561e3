// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long the next fork will stop a process, by the prices at hand.

use cowlab_machine::Facts;
use cowlab_model::profile::MachineProfile;
use cowlab_observe::Target;
use cowlab_tend::Survey;
use cowlab_tend::plan::CollapsePlan;
use cowlab_tend::stop::stops;
use serde::Serialize;

use crate::args::ProfileArgs;
use crate::profile_file::ProfileFile;

/// How long the next fork will stop a process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NextStop {
    /// The stop, in nanoseconds.
    pub value: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether a machine profile says it, not usual costs.
    pub is_calibrated: bool,
}

/// What prices a stop.
pub struct Prices {
    calibrated: Option<MachineProfile>,
    usual: MachineProfile,
}

impl Prices {
    /// The machine profile of the newest run, if there is one, and usual costs.
    pub fn find() -> Prices {
        let found = ProfileFile::find(&ProfileArgs { profile: None }).ok().flatten();
        Prices { calibrated: found.map(|(_, file)| file.profile), ..Prices::usual() }
    }

    /// Usual costs alone.
    pub fn usual() -> Prices {
        Prices { calibrated: None, usual: MachineProfile::usual() }
    }

    /// By the machine profile if that can say it, else by usual costs. An error says why neither can.
    pub fn of(&self, survey: &Survey) -> Result<NextStop, String> {
        let priced = |profile: &MachineProfile| {
            let now = stops(profile, survey, &CollapsePlan::default())?.now;
            let is_calibrated = !profile.is_usual;
            Ok(NextStop { value: now.value, low: now.low, high: now.high, is_calibrated })
        };
        let calibrated = self.calibrated.as_ref().and_then(|profile| priced(profile).ok());
        calibrated.map_or_else(|| priced(&self.usual), Ok)
    }
}

impl NextStop {
    /// Of a process as it is now: all of its page tables are looked at.
    pub fn of(facts: &Facts, target: &Target, prices: &Prices) -> Result<NextStop, String> {
        let huge = facts.thp.as_ref().and_then(|thp| thp.pmd_size_bytes).unwrap_or(2 << 20);
        prices.of(&Survey::take(target, huge).map_err(|error| error.to_string())?)
    }
}
