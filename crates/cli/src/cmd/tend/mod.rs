// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tend`: keeps forking processes cheap to fork, from outside.

mod cpu_share;
mod dry_run;
mod live;
mod messages;
mod metrics;

use std::time::Duration;

use anyhow::{Context as _, Result};
use cowlab_machine::process::Target;
use cowlab_observe::tend::pace::Limits;
use cowlab_observe::tend::plan::Rules;
use cowlab_observe::tend::targets::targets;
use cowlab_observe::tend::{Tender, TenderSettings, privileges};
use cowlab_observe::watch::Wanted;
use cowlab_schema::settings::tend::TendSettings;

use crate::args::{TendArgs, wanted};
use crate::output;
use crate::profile_file::Priced;
use crate::signals;

/// The longest stall where nobody says another.
const BUDGET_US: u64 = 2000;
/// How many times `--cpu-share` one target may take at a time, out of what is saved up.
const AT_ONCE: f64 = 4.0;

struct TendPlan {
    wanted: Vec<Wanted>,
    budget_us: u64,
    interval: Duration,
    priced: Priced,
    settings: TendSettings,
}

pub fn run(json: bool, args: &TendArgs) -> Result<()> {
    let plan = TendPlan::of(args)?;
    privileges::drop_others().context("rights that are not needed cannot be given up")?;
    privileges::allow_files();
    if args.dry_run {
        return dry_run::run(json, args, &plan);
    }
    let interrupted = signals::asked_to_end()?;
    live::run(json, args, &plan, &interrupted)
}

impl TendPlan {
    fn of(args: &TendArgs) -> Result<TendPlan> {
        let settings = args.set.single(TendSettings::default())?;
        Ok(TendPlan {
            wanted: wanted(&args.who)?,
            budget_us: args.budget_us.unwrap_or(BUDGET_US),
            interval: Duration::from_secs_f64(settings.interval_s),
            priced: Priced::find(&args.profile)?,
            settings,
        })
    }

    /// The processes that are meant and run now.
    fn targets(&self) -> Vec<i32> {
        targets(&self.wanted)
    }

    /// Whether all are named by pid: nobody else will ever be meant.
    fn is_by_pid(&self) -> bool {
        self.wanted.iter().all(|wanted| matches!(wanted, Wanted::Pid(_)))
    }

    fn tender(&self, args: &TendArgs, pid: i32) -> Result<Tender> {
        let target = Target::open(pid)?;
        let settings = TenderSettings {
            rules: Rules { most_absent_pages: self.settings.absent_pages, ..Rules::default() },
            limits: Limits {
                budget_ns: self.budget_us * 1000,
                cpu_share: self.settings.cpu_share,
                share_at_once: (self.settings.cpu_share * AT_ONCE).min(1.0),
                ..Limits::default()
            },
            interval: self.interval,
            only_looks: args.dry_run,
        };
        let tender = Tender::new(target, settings, self.priced.profile.clone())?;
        if !tender.is_the_only_one() {
            output::say(&format!(
                "process {pid} is tended already, by another cowlab: end one of the two"
            ));
        }
        Ok(tender)
    }
}
