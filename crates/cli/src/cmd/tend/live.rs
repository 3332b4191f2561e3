// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tending, until it is done or told to end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use cowlab_machine::ProcessError;
use cowlab_serve::{Endpoint, Newest, write_metrics};
use cowlab_tend::act::thread_cpu_ns;
use cowlab_tend::pace::Limits;
use cowlab_tend::ping::Ping;
use cowlab_tend::pressure::Tight;
use cowlab_tend::{Event, Figures, Refusal, Rest, Tender};

use super::cpu_share::CpuShare;
use super::metrics::{self, Complaint};
use super::{TendPlan, messages};
use crate::args::TendArgs;
use crate::output;

/// How often new processes are looked for, where that does not cost too much.
const SEARCH: Duration = Duration::from_secs(2);
/// The part of `--cpu-share` that looking for them may take.
const SEARCH_PART: f64 = 0.1;
/// How often figures are told and metrics written.
const REPORT: Duration = Duration::from_secs(10);
/// How often who scrapes gets new figures.
const PUBLISH: Duration = Duration::from_secs(1);
/// How soon a first answer is seen.
const GLANCE: Duration = Duration::from_millis(10);
/// The longest sleep, so that an interrupt is seen.
const NAP: Duration = Duration::from_millis(200);

struct Live<'a> {
    json: bool,
    args: &'a TendArgs,
    plan: &'a TendPlan,
    tenders: BTreeMap<i32, Tender>,
    due: BTreeMap<i32, Instant>,
    /// Who has been asked, and has yet to answer for the first time.
    asked: BTreeMap<i32, Ping>,
    /// Who could not be taken up, and what was said of it.
    refused: BTreeMap<i32, Refused>,
    /// Something of what was asked for was not done.
    is_incomplete: bool,
    said: BTreeMap<i32, String>,
    newest: Newest<Vec<Figures>>,
    complaint: Complaint,
}

/// Why somebody could not be taken up.
struct Refused {
    error: anyhow::Error,
    /// Nothing changes it for as long as the process lives. Anything else may pass: a server that
    /// was just started does not answer yet.
    lasts: bool,
}

/// Run it.
pub fn run(json: bool, args: &TendArgs, plan: &TendPlan, interrupted: &AtomicBool) -> Result<()> {
    let mut cpu_share = CpuShare::new(plan.settings.cpu_share);
    let newest = metrics::newest();
    if let Some(file) = &args.output {
        // With the rights that are left: each later write makes a new file too.
        metrics::write_first(&newest, file)?;
    }
    // Its thread is started with no more rights than this one.
    let served = match args.listen {
        Some(address) => Some(Endpoint::open(address, &newest)?),
        None => None,
    };
    if let Some(served) = &served {
        output::say(&format!("metrics are at http://{}/metrics", served.address()));
    }
    let began = Instant::now();
    let mut live = Live {
        json,
        args,
        plan,
        tenders: BTreeMap::new(),
        due: BTreeMap::new(),
        asked: BTreeMap::new(),
        refused: BTreeMap::new(),
        is_incomplete: false,
        said: BTreeMap::new(),
        newest,
        complaint: Complaint::default(),
    };
    let mut search_at = began + live.search();
    let until = args.duration_s.map(|s| began + Duration::from_secs_f64(s));
    let is_time_up = || until.is_some_and(|until| Instant::now() >= until);
    let is_over = || interrupted.load(Ordering::Relaxed) || is_time_up();
    while !live.asked.is_empty() && !is_over() {
        std::thread::sleep(GLANCE);
        live.take_up();
    }
    if live.asked.is_empty() {
        live.insist()?;
    }
    let (mut reported, mut published) = (began, began);
    // What serves or keeps metrics is of use without a reader, and once is what was asked for.
    let goes_on = args.listen.is_some() || args.output.is_some() || args.once;
    let mut reason = "told to end";
    loop {
        let now = Instant::now();
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        if !goes_on && output::reader_has_gone() {
            break;
        }
        if until.is_some_and(|until| now >= until) {
            reason = "its time is over";
            break;
        }
        if now >= reported + REPORT {
            reported = now;
            live.report()?;
        }
        if served.is_some() && now >= published + PUBLISH {
            published = now;
            live.publish();
        }
        let mut next = now + cpu_share.wait(now);
        if next == now {
            if now >= search_at && !args.once && !plan.is_by_pid() {
                search_at = now + live.search();
                live.tell_refused();
            }
            next = live.step(now)?;
        }
        if live.is_over()? {
            reason = "done";
            break;
        }
        let next = next.min(now + NAP).min(until.unwrap_or(now + NAP));
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    live.finish(reason)
}

impl Live<'_> {
    /// Take up who is meant and new; after how long to do so again.
    fn search(&mut self) -> Duration {
        let share = self.plan.settings.cpu_share * SEARCH_PART;
        let limits = Limits { cpu_share: share, ..Limits::default() };
        let cpu_before = thread_cpu_ns();
        self.take_up();
        SEARCH.max(limits.wait_after(thread_cpu_ns().saturating_sub(cpu_before)))
    }

    fn take_up(&mut self) {
        let found = self.plan.targets();
        let is_found = |pid: &i32| found.iter().any(|(found, _)| found == pid);
        self.refused.retain(|pid, _| is_found(pid));
        self.asked.retain(|pid, _| is_found(pid));
        for (pid, number) in found {
            if self.tenders.contains_key(&pid)
                || self.refused.get(&pid).is_some_and(|refused| refused.lasts)
            {
                continue;
            }
            match self.tender(pid, number) {
                Ok(None) => {}
                Ok(Some(tender)) => {
                    self.due.insert(pid, Instant::now());
                    self.tenders.insert(pid, tender);
                    self.refused.remove(&pid);
                }
                Err(error) => {
                    let lasts = error.downcast_ref::<Refusal>().is_some_and(Refusal::lasts);
                    self.refused.insert(pid, Refused { error, lasts });
                }
            }
        }
    }

    /// `None` as long as it has not answered for the first time.
    fn tender(&mut self, pid: i32, number: usize) -> Result<Option<Tender>> {
        let Some(address) = &self.plan.selectors[number].ping else {
            return self.plan.tender(self.args, pid, number, None).map(Some);
        };
        let ping = match self.asked.remove(&pid) {
            Some(ping) => ping,
            None => Ping::begin(address)?,
        };
        match ping.first() {
            None => {
                self.asked.insert(pid, ping);
                Ok(None)
            }
            Some(Err(error)) => bail!("--set ping: {error}"),
            Some(Ok(())) => self.plan.tender(self.args, pid, number, Some(ping)).map(Some),
        }
    }

    /// Say of whom it was not said before why they are not tended.
    fn tell_refused(&mut self) {
        for (pid, refused) in &self.refused {
            let reason = format!("{:#}", refused.error);
            if self.said.get(pid) != Some(&reason) {
                output::say(&reason);
                self.said.insert(*pid, reason);
            }
        }
        self.said.retain(|pid, _| self.refused.contains_key(pid));
    }

    /// Somebody must be there to begin with, unless this is a service that waits for them.
    fn insist(&mut self) -> Result<()> {
        if !self.tenders.is_empty() {
            self.tell_refused();
            return Ok(());
        }
        // They are there, and none can be tended: that is what the program ends with.
        if self.args.once || self.plan.is_by_pid() || self.plan.selectors.len() == 1 {
            if self.refused.len() > 1 {
                self.tell_refused();
                bail!("nobody can be tended");
            }
            if let Some((_, refused)) = self.refused.pop_first() {
                return Err(refused.error);
            }
        }
        self.tell_refused();
        let names: Vec<&str> = self
            .plan
            .selectors
            .iter()
            .filter_map(|selector| selector.name.as_deref().or(selector.cgroup.as_deref()))
            .collect();
        if self.args.once {
            bail!("no process is called or in {}", names.join(", "));
        }
        if self.refused.is_empty() {
            output::say(&format!("waiting for {} to be started", names.join(", ")));
        }
        Ok(())
    }

    /// Step everyone who is due; when the next one is.
    fn step(&mut self, now: Instant) -> Result<Instant> {
        let due: Vec<i32> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(pid, _)| *pid).collect();
        for pid in due {
            let Some(tender) = self.tenders.get_mut(&pid) else { continue };
            match tender.step() {
                Ok(step) => {
                    for event in &step.events {
                        messages::event(self.json, &tender.figures, event)?;
                        // Stalls and waits pass; lack of memory may not.
                        if let Event::Resting { reason, .. } = event
                            && !matches!(reason, Rest::Stalls | Rest::Memory(Tight::Waiting))
                            && self.args.once
                        {
                            bail!("gave up: {}", reason.words());
                        }
                    }
                    self.due.insert(pid, Instant::now() + step.wait);
                }
                Err(error) => {
                    let reason = match &error {
                        ProcessError::Vanished { .. } => "it has ended".to_owned(),
                        other => other.to_string(),
                    };
                    messages::figures(self.json, &tender.figures, Some(&reason))?;
                    self.is_incomplete = true;
                    self.tenders.remove(&pid);
                    self.due.remove(&pid);
                }
            }
        }
        Ok(self.due.values().min().copied().unwrap_or(now + NAP))
    }

    /// Whether there is nobody left to wait for.
    fn is_over(&self) -> Result<bool> {
        if self.args.once {
            return Ok(self.tenders.values().all(Tender::is_done));
        }
        Ok(self.plan.is_by_pid() && self.tenders.is_empty())
    }

    fn report(&mut self) -> Result<()> {
        for tender in self.tenders.values().filter(|_| self.json) {
            messages::figures(true, &tender.figures, None)?;
        }
        self.write_metrics();
        Ok(())
    }

    fn publish(&self) {
        let figures = self.tenders.values().map(|tender| tender.figures.clone());
        self.newest.set(figures.collect());
    }

    /// Tending goes on without, and the next may succeed.
    fn write_metrics(&mut self) {
        self.publish();
        if let Some(file) = &self.args.output
            && let Some(wrong) = self.complaint.of(write_metrics(&self.newest, file))
        {
            output::say(&wrong);
        }
    }

    fn finish(mut self, reason: &str) -> Result<()> {
        for tender in self.tenders.values() {
            messages::figures(self.json, &tender.figures, Some(reason))?;
        }
        self.write_metrics();
        let all_done = self.tenders.values().all(Tender::is_done) && self.refused.is_empty();
        if self.args.once && (self.is_incomplete || !all_done) {
            bail!("not all that --once asks for was done: see above");
        }
        Ok(())
    }
}
