// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tend`: keeps forking processes cheap to fork, from outside.

mod cpu_share;
mod dry_run;
mod live;
mod messages;
mod metrics;
mod unit;

use std::time::Duration;

use anyhow::{Context as _, Result};
use cowlab_observe::Target;
use cowlab_observe::watch::Wanted;
use cowlab_schema::Text;
use cowlab_schema::settings::tend::{INTERVAL_S, PING, TendSettings};
use cowlab_tend::pace::Limits;
use cowlab_tend::ping::Ping;
use cowlab_tend::plan::Rules;
use cowlab_tend::targets::{PolicyFile, Selector, choose, everybody};
use cowlab_tend::{Tender, TenderSettings, privileges};

use crate::args::TendArgs;
use crate::output;
use crate::profile_file::Priced;
use crate::signals;

/// The longest stall where nobody says another.
const BUDGET_US: u64 = 2000;
/// How many times `--cpu-share` one target may take at a time, out of what is saved up.
const AT_ONCE: f64 = 4.0;

/// What is to be done, by flags or file.
struct TendPlan {
    selectors: Vec<Selector>,
    budget_us: u64,
    interval: Duration,
    priced: Priced,
    settings: TendSettings,
}

/// Run the verb.
pub fn run(json: bool, args: &TendArgs) -> Result<()> {
    if args.print_unit {
        return output::print(&unit::text(args)?);
    }
    let plan = TendPlan::of(args)?;
    privileges::drop_others().context("rights that are not needed cannot be given up")?;
    privileges::allow_files();
    if args.dry_run {
        return dry_run::run(json, args, &plan);
    }
    let interrupted = signals::told_to_end()?;
    live::run(json, args, &plan, &interrupted)
}

impl TendPlan {
    fn of(args: &TendArgs) -> Result<TendPlan> {
        let settings = args.set.single(TendSettings::default())?;
        let ping = args.set.list(&PING).first().map(Text::to_string);
        let file = args.targets.as_deref().map(PolicyFile::read).transpose()?.unwrap_or_default();
        let mut selectors = file.target.clone();
        selectors.extend(args.who.iter().map(|who| selector(who, &ping)));
        let interval_s = args.set.list(&INTERVAL_S).first().copied();
        let interval_s = interval_s.or(file.interval_s).unwrap_or(settings.interval_s);
        let priced = Priced::find(&args.profile)?;
        Ok(TendPlan {
            selectors,
            budget_us: args.budget_us.or(file.budget_us).unwrap_or(BUDGET_US),
            interval: Duration::from_secs_f64(interval_s),
            priced,
            settings,
        })
    }

    /// The processes that are meant and run now, with the number of the selector.
    fn targets(&self) -> Vec<(i32, usize)> {
        let mut found = choose(&self.selectors, &everybody(&self.selectors));
        // A pid that cannot be listed (hidepid) is still meant, and gives its own error.
        for (number, selector) in self.selectors.iter().enumerate() {
            if let Some(pid) = selector.pid
                && !found.iter().any(|(known, _)| *known == pid)
            {
                found.push((pid, number));
            }
        }
        found
    }

    /// Whether all are named by pid: nobody else will ever be meant.
    fn is_by_pid(&self) -> bool {
        self.selectors.iter().all(|selector| selector.pid.is_some())
    }

    /// Take up one of them, which answers `ping` if it is to be asked.
    fn tender(
        &self,
        args: &TendArgs,
        pid: i32,
        number: usize,
        ping: Option<Ping>,
    ) -> Result<Tender> {
        let selector = &self.selectors[number];
        let target = Target::open(pid)?;
        let settings = TenderSettings {
            rules: Rules { most_absent_pages: self.settings.absent_pages, ..Rules::default() },
            limits: Limits {
                budget_ns: selector.budget_us.unwrap_or(self.budget_us) * 1000,
                cpu_share: self.settings.cpu_share,
                share_at_once: (self.settings.cpu_share * AT_ONCE).min(1.0),
                ..Limits::default()
            },
            interval: self.interval,
            at_once: self.settings.at_once,
            only_looks: args.dry_run,
        };
        let tender = Tender::new(target, settings, self.priced.profile.clone(), ping)?;
        if !tender.is_the_only_one() {
            output::say(&format!(
                "process {pid} is tended already, by another cowlab: end one of the two"
            ));
        }
        Ok(tender)
    }
}

fn selector(who: &Wanted, ping: &Option<String>) -> Selector {
    let selector = Selector { ping: ping.clone(), ..Selector::default() };
    match who {
        Wanted::Name(name) => Selector { name: Some(name.clone()), ..selector },
        Wanted::Cgroup(path) => {
            Selector { cgroup: Some(path.to_string_lossy().into_owned()), ..selector }
        }
        // No process has a number that is larger than any.
        Wanted::Pid(pid) => Selector { pid: Some(i32::try_from(*pid).unwrap_or(0)), ..selector },
        Wanted::Any(_) | Wanted::All => selector,
    }
}
