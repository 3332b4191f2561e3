// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One target: looked at, decided on, collapsed region by region, between its forks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::time::{Duration, Instant};

use cowlab_machine::cgroup::Cgroup;
use cowlab_machine::limits::Credentials;
use cowlab_machine::process::{Pagemap, Target};
use cowlab_machine::thp::Thp;
use cowlab_machine::{ProcessError, Root};
use cowlab_model::profile::MachineProfile;
use cowlab_model::steady::Rhythm;

use crate::tend::act::{Collapser, Fetch, thread_cpu_ns};
use crate::tend::event::{Event, Rest, Step};
use crate::tend::figures::Figures;
use crate::tend::forks::{self, Forks, LOOK, patience, sharing};
use crate::tend::history::History;
use crate::tend::pace::{Haste, Limits, Pace};
use crate::tend::plan::{self, CollapsePlan, Rules, in_turn};
use crate::tend::pressure::Gauges;
use crate::tend::refusal;
use crate::tend::region::Survey;
use crate::tend::stop::{self, Stops};

mod collapse;
mod trial;

/// The rest after memory was tight.
const TIGHT_REST: Duration = Duration::from_secs(10);
/// The rest after huge pages were switched off.
const SWITCHED_OFF_REST: Duration = Duration::from_secs(30);
/// How often the machine's setting is read while there is something to do.
const SETTING_LOOK: Duration = Duration::from_secs(1);
/// The first rest without a huge page; each that follows is twice as long, up to the longest.
const NO_PAGE_REST: Duration = Duration::from_secs(5);
const LONGEST_NO_PAGE_REST: Duration = Duration::from_secs(320);

/// How long a look without deeds waits for forks, and between two looks.
const WATCHED: Duration = Duration::from_secs(1);
const SHORT_LOOK: Duration = Duration::from_millis(5);

/// Regions that are collapsed to learn what that costs now.
const TRIALS: usize = 4;
/// The part of the time from a look until the next fork in which what it found should be done.
const PART_OF_INTERVAL: f64 = 0.5;
#[derive(Debug, Clone)]
pub struct TenderSettings {
    pub rules: Rules,
    /// What it may cost the target.
    pub limits: Limits,
    /// Between two looks at a target that has not forked since.
    pub interval: Duration,
    /// Nothing is collapsed: no right to is needed.
    pub only_looks: bool,
}

pub struct Tender {
    target: Target,
    /// Locked as long as it is tended; `None` where somebody else has locked it, who tends it, too.
    mark: Option<File>,
    /// Of the memory that it had when it was taken up: another program has another.
    pagemap: Pagemap,
    /// That memory itself, where it may be read.
    memory: Option<File>,
    collapser: Collapser,
    settings: TenderSettings,
    profile: MachineProfile,
    huge_page_bytes: u64,
    began: Instant,
    forks: Forks,
    history: History,
    pace: Pace,
    gauges: Gauges,
    pass: Pass,
    waits: Waits,
    /// This step looked, warmed or collapsed, and did not only wait.
    did_work: bool,
    pub figures: Figures,
}

/// From one look at the target to the next.
#[derive(Default)]
struct Pass {
    number: u64,
    queue: VecDeque<u64>,
    /// Regions that got no huge page when there was one for us: they come last.
    last: BTreeSet<u64>,
    /// Regions of this pass that were busy, and how often.
    tries: BTreeMap<u64, u32>,
    surveyed: Option<Duration>,
    /// When all that was found should be done; `None` where no fork can be expected.
    done_by: Option<Duration>,
    /// Forks and collapsed regions before the look.
    forks_before: u64,
    collapsed_before: u64,
    /// Faults of its children that had ended by the look (proc_pid_stat(5), cminflt).
    reaped_faults: Option<u64>,
    /// The end of the children after whom all was huge again.
    restored_from: Option<Duration>,
    /// The stop as the look found it, and with all done; `None` where the profile lacks a price.
    stops: Option<Stops>,
    is_busy: bool,
    /// Some regions could still be collapsed for the first time.
    is_first: bool,
    /// A collapse of this pass stalled the target over the budget: its pages are read before the next.
    is_cold: bool,
    /// It rested since the look: what is queued may be gone.
    is_stale: bool,
}

/// When it may go on.
struct Waits {
    next_at: Duration,
    rest_until: Option<Duration>,
    /// How long the next rest without a huge page is.
    no_page_rest: Duration,
    /// When it was read whether huge pages are switched off, and what that said.
    forbidden: (Duration, bool),
}

/// What it takes to tend `target`, or why it cannot be.
fn admit(target: &Target, only_looks: bool) -> Result<(Collapser, Pagemap, u64), anyhow::Error> {
    let root = Root::default();
    let thp = Thp::read(&root);
    // First, since a target that is refused for this is asked again and again.
    refusal::check_machine(thp.as_ref())?;
    let huge_page_bytes = thp.as_ref().and_then(|thp| thp.pmd_size_bytes).unwrap_or(2 << 20);
    let mut collapser = Collapser::new(huge_page_bytes)?;
    let own = Credentials::of_self(&root);
    let pagemap = Pagemap::open(target);
    refusal::check(&refusal::Facts {
        thp,
        missing_right: refusal::missing_right(target, &own, pagemap.as_ref().err(), only_looks),
        rehearsal: collapser.rehearse().err(),
        pid: target.pid(),
        name: target.name().to_owned(),
        may_have_huge_pages: refusal::may_have_huge_pages(target)?,
        has_pidfd: target.pidfd().is_some(),
    })?;
    Ok((collapser, pagemap?, huge_page_bytes))
}

impl Tender {
    /// Why a process cannot be tended; without one, no process of this machine.
    pub fn refusal(target: Option<&Target>) -> Option<String> {
        match target {
            Some(target) => admit(target, true).err().map(|error| format!("{error:#}")),
            None => {
                let thp = Thp::read(&Root::default());
                refusal::check_machine(thp.as_ref()).err().map(|refusal| refusal.to_string())
            }
        }
    }

    /// Take up a target, or say why it cannot be tended.
    pub fn new(
        target: Target,
        settings: TenderSettings,
        profile: MachineProfile,
    ) -> Result<Tender, anyhow::Error> {
        let (collapser, pagemap, huge_page_bytes) = admit(&target, settings.only_looks)?;
        let gauges = Gauges::of(&Cgroup::read(&Root::default(), target.pid()));
        Ok(Tender {
            figures: Figures {
                huge_page_bytes,
                ..Figures::new(target.pid(), target.name().to_owned())
            },
            pace: Pace::new(settings.limits),
            mark: File::open(target.path("stat")).ok().filter(|file| file.try_lock().is_ok()),
            memory: target.open_file("mem").ok(),
            target,
            pagemap,
            collapser,
            settings,
            profile,
            huge_page_bytes,
            began: Instant::now(),
            forks: Forks::default(),
            history: History::default(),
            gauges,
            pass: Pass { is_first: true, ..Pass::default() },
            waits: Waits {
                next_at: Duration::ZERO,
                rest_until: None,
                no_page_rest: NO_PAGE_REST,
                forbidden: (Duration::ZERO, false),
            },
            did_work: false,
        })
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether nobody else tends it.
    pub fn is_the_only_one(&self) -> bool {
        self.mark.is_some()
    }

    /// Whether a pass was made and nothing is left of it.
    pub fn is_done(&self) -> bool {
        self.pass.surveyed.is_some()
            && self.pass.queue.is_empty()
            && !self.pass.is_busy
            && self.waits.rest_until.is_none()
    }

    /// Looks at the target and decides; nothing is done to it.
    pub fn look(&mut self) -> Result<(Survey, CollapsePlan), ProcessError> {
        let survey = Survey::take(&self.target, self.huge_page_bytes)?;
        let collapse_ns = self.collapse_ns();
        let plan = self.plan(&survey, collapse_ns);
        Ok((survey, plan))
    }

    /// How often it forks, watched for a moment; `None` where fewer than two children were seen.
    pub fn rhythm(&self) -> Result<Option<Rhythm>, ProcessError> {
        let (began, mut forks, mut shared) = (Instant::now(), Forks::default(), 0u32);
        let mut looks = 0;
        while began.elapsed() < WATCHED {
            shared += u32::from(forks.observe(began.elapsed(), sharing(&self.target)?));
            looks += 1;
            std::thread::sleep(SHORT_LOOK);
        }
        let between_s = began.elapsed().as_secs_f64() / forks.count().max(1) as f64;
        let child_s = between_s * f64::from(shared) / f64::from(looks);
        Ok((forks.count() > 1).then_some(Rhythm { between_s, child_s }))
    }

    /// By what collapses cost here: once real ones were timed, there is no need to try. Where they
    /// tell that something does not pay, those few may have been dear, and what is not done is never
    /// timed again; so where a trial tells otherwise, a few are made, and decide what follows.
    fn plan_by_cost(&mut self, survey: &Survey) -> CollapsePlan {
        let Some(timed) = self.pace.cpu_ns().map(|ns| self.plan(survey, Some(ns))) else {
            let tried_ns = self.collapse_ns();
            return self.plan(survey, tried_ns);
        };
        if timed.unprofitable_regions == 0 {
            return timed;
        }
        let tried_ns = self.collapse_ns();
        let tried = self.plan(survey, tried_ns);
        if tried.unprofitable_regions >= timed.unprofitable_regions {
            return timed;
        }
        self.pace.forget_cost();
        tried.up_to(timed.steps.len() + TRIALS)
    }

    fn plan(&self, survey: &Survey, collapse_ns: Option<u64>) -> CollapsePlan {
        let prices = stop::prices(&self.profile, collapse_ns);
        let pages = self.huge_page_bytes / self.page_bytes();
        let rules = &self.settings.rules;
        plan::plan(&survey.regions, pages, &self.history, self.pass.number, &prices, rules)
    }

    pub fn page_bytes(&self) -> u64 {
        rustix::param::page_size() as u64
    }

    pub fn profile(&self) -> &MachineProfile {
        &self.profile
    }

    /// Do the next thing that is due; never longer than a collapse or a look takes. Fails once the
    /// target has ended or may not be looked at any more.
    pub fn step(&mut self) -> Result<Step, ProcessError> {
        let cpu_before = thread_cpu_ns();
        let before = (self.figures.warming_cpu_ns, self.figures.collapsed_regions);
        let is_first_pass = self.pass.is_first;
        self.did_work = false;
        let mut step = Step { wait: LOOK, ..Step::default() };
        let result = self.advance(&mut step);
        let cpu_ns = thread_cpu_ns().saturating_sub(cpu_before);
        let warming_ns = self.figures.warming_cpu_ns - before.0;
        step.apart_ns = if is_first_pass && self.did_work { cpu_ns } else { warming_ns };
        let charged_ns = cpu_ns.saturating_sub(step.apart_ns);
        let limits = &self.settings.limits;
        // To look alone costs as much as the target has children, and uses up nothing that was saved.
        let wait = match self.figures.collapsed_regions == before.1 {
            true => limits.wait_after(charged_ns),
            false => limits.pause_after(charged_ns),
        };
        step.wait = step.wait.max(wait);
        self.figures.cpu_ns += cpu_ns;
        self.figures.forks = self.forks.count();
        self.figures.regions_left = self.pass.queue.len() as u64;
        self.figures.done_in_ns = self.done_in().map(|left| left.as_nanos() as u64);
        self.figures.fork_ns = self.fork_ns();
        result.map(|()| step)
    }

    /// How long what is left of this pass takes, at its rate so far.
    fn done_in(&self) -> Option<Duration> {
        let left = self.pass.queue.len() as u64;
        let did = self.figures.pass_regions.checked_sub(left).filter(|did| *did > 0)?;
        let took = self.began.elapsed().saturating_sub(self.pass.surveyed?);
        self.pass.is_busy.then(|| took.mul_f64(left as f64 / did as f64))
    }

    /// How long a fork stops it, with what was collapsed since the last look.
    fn fork_ns(&self) -> Option<f64> {
        let Stops { now, after } = self.pass.stops?;
        let did = (self.figures.collapsed_regions - self.pass.collapsed_before) as f64;
        let saved = (now.value - after.value) * did / self.figures.pass_regions.max(1) as f64;
        Some(now.value - saved)
    }

    fn haste(&self, now: Duration) -> Haste {
        match self.pass.is_first {
            true => Haste::FirstPass,
            false => Haste::Upkeep {
                regions_left: self.pass.queue.len() as u64,
                left_ns: self.pass.done_by.map(|by| by.saturating_sub(now).as_nanos() as u64),
            },
        }
    }

    fn advance(&mut self, step: &mut Step) -> Result<(), ProcessError> {
        let now = self.began.elapsed();
        if !self.is_alone(now, step)? {
            step.wait = patience(now, self.forks.alive_since());
            return Ok(());
        }
        if let Some(until) = self.waits.rest_until {
            if now < until {
                return Ok(());
            }
            self.waits.rest_until = None;
        }
        let due = match self.pass.surveyed {
            None => true,
            Some(at) => {
                let forked = self.forks.count() != self.pass.forks_before;
                let stale = self.pass.is_stale && self.figures.huge_regions.is_some();
                // A pass that took longer than the interval is told as done before the next begins.
                let over = self.pass.queue.is_empty() && !self.pass.is_busy;
                forked || stale || (over && now >= at + self.settings.interval)
            }
        };
        if due {
            self.survey(now, step)?;
        }
        let Some(start) = self.pass.queue.front().copied() else {
            self.done(now, step);
            return Ok(());
        };
        // What there is to do nothing for is no rest.
        if self.is_forbidden(now) {
            self.rest(now, Rest::SwitchedOff, SWITCHED_OFF_REST, step);
            return Ok(());
        }
        if let Err(tight) = self.gauges.check(now, self.target.pid()) {
            self.rest(now, Rest::Memory(tight), TIGHT_REST, step);
            return Ok(());
        }
        // Between two collapses a huge page is warmed for the next, while the target goes on.
        if !self.collapser.is_warm() {
            return self.warm(start, now, step);
        }
        if now < self.waits.next_at {
            step.wait = self.waits.next_at - now;
            return Ok(());
        }
        self.pass.queue.pop_front();
        self.collapse(start, now, step)
    }

    fn warm(&mut self, start: u64, now: Duration, step: &mut Step) -> Result<(), ProcessError> {
        self.did_work = true;
        let began = Instant::now();
        let haste = self.haste(now);
        let is_read = haste == Haste::FirstPass || self.pass.is_cold;
        let (memory, pagemap) = (self.memory.as_ref(), &mut self.pagemap);
        let copied = memory.filter(|_| is_read).map(|memory| Fetch { memory, pagemap, start });
        let warmed = self.collapser.warm(&self.target, copied);
        self.gauges.waited_ourselves(began.elapsed());
        match warmed {
            Ok(ns) => {
                self.figures.warming_cpu_ns += ns;
                step.wait = self.waits.next_at.saturating_sub(self.began.elapsed());
                Ok(())
            }
            Err(outcome) => {
                self.pass.queue.pop_front();
                self.judge(outcome, start, now, step)
            }
        }
    }

    /// Whether huge pages were switched off on this machine since: a collapse on request would be made
    /// all the same (madvise(2)), against what its operator wants.
    fn is_forbidden(&mut self, now: Duration) -> bool {
        let (read_at, was_forbidden) = self.waits.forbidden;
        if now < read_at + SETTING_LOOK {
            return was_forbidden;
        }
        let thp = Thp::read(&Root::default());
        let is_forbidden = thp.is_some_and(|thp| refusal::forbidding(&thp).is_some());
        self.waits.forbidden = (now, is_forbidden);
        is_forbidden
    }

    /// Whether no forked child lives; tells when that changes.
    fn is_alone(&mut self, now: Duration, step: &mut Step) -> Result<bool, ProcessError> {
        let before = (self.forks.alive_since(), self.forks.count());
        let is_first_look = !self.forks.has_looked();
        let shared = self.forks.observe(now, sharing(&self.target)?);
        if is_first_look && shared {
            step.events.push(Event::Shared { alive: self.forks.alive() });
        }
        if self.forks.count() != before.1 {
            step.events.push(Event::Forked { alive: self.forks.alive() });
            self.pass.is_busy = false;
        }
        if let (Some(since), false) = (before.0, shared) {
            step.events.push(Event::Alone { after_ns: (now - since).as_nanos() as u64 });
        }
        Ok(!shared)
    }

    fn survey(&mut self, now: Duration, step: &mut Step) -> Result<(), ProcessError> {
        self.did_work = true;
        self.pass.number += 1;
        let forks = self.forks.count() - self.pass.forks_before;
        // A child that lived for less than the time between two looks splits huge pages too.
        let reaped_faults = forks::reaped_faults(self.target.pid());
        let unseen = self.pass.reaped_faults.is_some() && reaped_faults != self.pass.reaped_faults;
        self.pass.reaped_faults = reaped_faults;
        let survey = Survey::take(&self.target, self.huge_page_bytes)?;
        if survey.knows_huge {
            self.history.surveyed(&survey.regions, self.pass.number, forks.max(u64::from(unseen)));
        }
        let plan = self.plan_by_cost(&survey);
        // Without knowing which are huge, once after each fork is enough.
        let again = survey.knows_huge || forks > 0 || self.pass.surveyed.is_none();
        self.pass.queue = match again {
            true => in_turn(plan.steps.iter().map(|step| step.start), &self.pass.last),
            false => VecDeque::new(),
        };
        self.pass.tries.clear();
        // A pass goes on after a rest.
        self.pass.is_cold &= self.pass.is_stale;
        self.pass.is_stale = false;
        self.pass.surveyed = Some(now);
        self.pass.done_by =
            self.forks.until_next(now).map(|left| now + left.mul_f64(PART_OF_INTERVAL));
        self.pass.forks_before = self.forks.count();
        self.pass.collapsed_before = self.figures.collapsed_regions;
        self.pass.is_busy = !self.pass.queue.is_empty();
        self.figures.pass_regions = self.pass.queue.len() as u64;
        self.figures.small_pages = Some(survey.small_pages);
        self.figures.huge_regions = survey.knows_huge.then_some(survey.huge_regions);
        self.pass.stops = stop::stops(&self.profile, &survey, &plan).ok();
        // Usual costs decide what pays, and promise nothing.
        let stops = self.pass.stops.filter(|_| !self.profile.is_usual);
        let before = self.pass.stops.map(|stops| stops.now.value);
        self.figures.fork_before_ns = self.figures.fork_before_ns.or(before);
        if self.pass.is_busy || forks > 0 || self.pass.number == 1 {
            step.events.push(Event::Surveyed {
                small_pages: survey.small_pages,
                huge_regions: survey.huge_regions,
                candidate_regions: plan.steps.len() as u64,
                sparse_regions: plan.sparse_regions,
                backed_off_regions: plan.backed_off_regions,
                unprofitable_regions: plan.unprofitable_regions,
                fork_ns: stops.map(|stops| stops.now),
                fork_after_ns: stops.map(|stops| stops.after),
            });
        }
        Ok(())
    }

    fn rest(&mut self, now: Duration, reason: Rest, how_long: Duration, step: &mut Step) {
        self.pass.is_stale = true;
        self.collapser.release();
        self.waits.rest_until = Some(now + how_long);
        *self.figures.rests.entry(reason.name()).or_insert(0) += 1;
        step.events.push(Event::Resting { reason, for_ns: how_long.as_nanos() as u64 });
        step.wait = how_long.min(LOOK);
    }

    fn rest_without_page(&mut self, now: Duration, step: &mut Step) {
        self.rest(now, Rest::NoHugePage, self.waits.no_page_rest, step);
        self.waits.no_page_rest = (self.waits.no_page_rest * 2).min(LONGEST_NO_PAGE_REST);
    }

    fn done(&mut self, now: Duration, step: &mut Step) {
        if !std::mem::take(&mut self.pass.is_busy) {
            return;
        }
        self.pass.last.clear();
        self.collapser.release();
        self.pass.is_first = false;
        let surveyed = self.pass.surveyed.unwrap_or_default();
        // Later passes over the same memory are not what the fork left behind.
        if let Some(ended) =
            self.forks.ended().filter(|ended| self.pass.restored_from != Some(*ended))
            && ended <= surveyed
        {
            self.figures.restored_ns = Some((now - ended).as_nanos() as u64);
            self.pass.restored_from = Some(ended);
        }
        step.events.push(Event::Done {
            collapsed_regions: self.figures.collapsed_regions - self.pass.collapsed_before,
            took_ns: (now - surveyed).as_nanos() as u64,
        });
    }
}
