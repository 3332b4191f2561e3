// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tending, until it is done or told to end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use cowlab_machine::ProcessError;
use cowlab_observe::tend::act::thread_cpu_ns;
use cowlab_observe::tend::pace::Limits;
use cowlab_observe::tend::pressure::Tight;
use cowlab_observe::tend::{Event, Figures, Refusal, Rest, Tender};
use cowlab_observe::watch::Wanted;
use cowlab_report::terminal::clean;

use super::cpu_share::CpuShare;
use super::metrics::{self, Sums};
use super::{TendPlan, messages};
use crate::args::TendArgs;
use crate::output;
use crate::serve::{Endpoint, Newest};
use crate::sinks::{Complaint, Printer};

/// Targets at a time: each holds descriptors and memory of its own.
const MOST_TARGETS: usize = 64;
/// Lines that may wait for a reader.
const WAITING_LINES: usize = 256;
/// How often new processes are looked for, where that does not cost too much.
const SEARCH: Duration = Duration::from_secs(2);
/// The part of `--cpu-share` that looking for them may take.
const SEARCH_PART: f64 = 0.1;
/// How often figures are told and metrics written.
const REPORT: Duration = Duration::from_secs(10);
/// How often who scrapes gets new figures.
const PUBLISH: Duration = Duration::from_secs(1);
/// The longest sleep, so that an interrupt is seen.
const NAP: Duration = Duration::from_millis(200);

struct Live<'a> {
    json: bool,
    args: &'a TendArgs,
    plan: &'a TendPlan,
    tenders: BTreeMap<i32, Tender>,
    due: BTreeMap<i32, Instant>,
    /// Who could not be taken up, and what was said of it.
    refused: BTreeMap<i32, Refused>,
    /// How many there was no room for.
    crowded: usize,
    /// Something of what was asked for was not done.
    is_incomplete: bool,
    said: BTreeMap<i32, String>,
    /// Of those that have ended, and the names of all.
    past: Sums,
    printer: Printer,
    newest: Newest,
    crowd: Complaint,
}

/// Why somebody could not be taken up.
struct Refused {
    error: anyhow::Error,
    /// Nothing changes it for as long as the process lives. Anything else may pass: a server that
    /// was just started does not answer yet.
    lasts: bool,
}

pub fn run(json: bool, args: &TendArgs, plan: &TendPlan, interrupted: &AtomicBool) -> Result<()> {
    let newest = Newest::default();
    newest.set(metrics::of(&Sums::default()));
    // Its thread is started with no more rights than this one.
    let served = Endpoint::listen(args.listen, &newest)?;
    let began = Instant::now();
    let mut live = Live {
        json,
        args,
        plan,
        tenders: BTreeMap::new(),
        due: BTreeMap::new(),
        refused: BTreeMap::new(),
        crowded: 0,
        is_incomplete: false,
        said: BTreeMap::new(),
        past: Sums::default(),
        printer: Printer::start(WAITING_LINES)?,
        newest,
        crowd: Complaint::default(),
    };
    let mut search_at = began + live.search();
    let until = args.duration_s.map(|s| began + Duration::from_secs_f64(s));
    live.insist()?;
    let (mut reported, mut published) = (began, began);
    // What serves metrics is of use without a reader, and once is what was asked for.
    let goes_on = args.listen.is_some() || args.once;
    let mut reason = "told to end";
    // To get ready is not counted.
    let mut cpu_share = CpuShare::new(plan.settings.cpu_share);
    let (mut free_at, mut due_at) = (began, began);
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
        if now >= free_at {
            if now >= search_at && !args.once && !plan.is_by_pid() {
                search_at = now + live.search();
                live.tell_refused();
            }
            due_at = live.step(now, &mut cpu_share)?;
            // Not counted again before the next: to wake up costs something as well, and after a small
            // share's wait for that nothing would ever be done.
            let now = Instant::now();
            free_at = now + cpu_share.wait(now);
        }
        if live.is_over()? {
            reason = "done";
            break;
        }
        let next = due_at.max(free_at).min(now + NAP).min(until.unwrap_or(now + NAP));
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    live.finish(reason, interrupted)
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
        self.refused.retain(|pid, _| found.contains(pid));
        self.crowded = 0;
        for pid in found {
            if self.tenders.contains_key(&pid)
                || self.refused.get(&pid).is_some_and(|refused| refused.lasts)
            {
                continue;
            }
            if self.tenders.len() >= MOST_TARGETS {
                self.crowded += 1;
                continue;
            }
            self.begin(pid);
        }
    }

    fn begin(&mut self, pid: i32) {
        match self.plan.tender(self.args, pid) {
            Ok(tender) => {
                // Its name has its place among the labels from now on.
                self.past.add(&Figures::new(pid, tender.figures.name.clone()));
                self.due.insert(pid, Instant::now());
                self.tenders.insert(pid, tender);
                self.refused.remove(&pid);
            }
            Err(error) => self.refuse(pid, error),
        }
    }

    fn refuse(&mut self, pid: i32, error: anyhow::Error) {
        let lasts = error.downcast_ref::<Refusal>().is_some_and(Refusal::lasts);
        self.refused.insert(pid, Refused { error, lasts });
    }

    /// Say of whom it was not said before why they are not tended.
    fn tell_refused(&mut self) {
        for (pid, refused) in &self.refused {
            let reason = format!("{:#}", refused.error);
            if self.said.get(pid) != Some(&reason) {
                output::say(&clean(&reason));
                self.said.insert(*pid, reason);
            }
        }
        self.said.retain(|pid, _| self.refused.contains_key(pid));
        let crowd = match self.crowded {
            0 => Ok(()),
            _ => Err(anyhow!(
                "more than {MOST_TARGETS} processes match, which is what tend takes at a time: name \
                 fewer, or start another tend for the rest"
            )),
        };
        self.crowd.tell(crowd);
    }

    /// Somebody must be there to begin with, unless this is a service that waits for them.
    fn insist(&mut self) -> Result<()> {
        if !self.tenders.is_empty() {
            self.tell_refused();
            return Ok(());
        }
        // They are there, and none can be tended: that is what the program ends with.
        if self.args.once || self.plan.is_by_pid() || self.plan.wanted.len() == 1 {
            if self.refused.len() > 1 {
                self.tell_refused();
                bail!("no process can be tended");
            }
            if let Some((_, refused)) = self.refused.pop_first() {
                return Err(refused.error);
            }
        }
        self.tell_refused();
        let name = |wanted: &Wanted| match wanted {
            Wanted::Name(name) => Some(name.clone()),
            Wanted::Cgroup(path) => Some(path.display().to_string()),
            _ => None,
        };
        let names: Vec<String> = self.plan.wanted.iter().filter_map(name).collect();
        if self.args.once {
            bail!("no process is called or in {}", names.join(", "));
        }
        if self.refused.is_empty() {
            output::say(&format!("waiting for {} to be started", names.join(", ")));
        }
        Ok(())
    }

    /// Step everyone who is due; when the next one is.
    fn step(&mut self, now: Instant, cpu_share: &mut CpuShare) -> Result<Instant> {
        let due: Vec<i32> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(pid, _)| *pid).collect();
        for pid in due {
            let Some(tender) = self.tenders.get_mut(&pid) else { continue };
            match tender.step() {
                Ok(step) => {
                    cpu_share.excuse(step.apart_ns);
                    for event in &step.events {
                        let text = messages::event(self.json, &tender.figures, event)?;
                        self.printer.offer(text);
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
                    let text = messages::ended(self.json, &tender.figures, &reason)?;
                    self.printer.offer(text);
                    self.is_incomplete = true;
                    self.due.remove(&pid);
                    if let Some(tender) = self.tenders.remove(&pid) {
                        // What it has now is nothing, and what it did stays.
                        let (small_pages, huge_regions, regions_left) = (None, None, 0);
                        let did = tender.figures;
                        self.past.add(&Figures { small_pages, huge_regions, regions_left, ..did });
                    }
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
        for tender in self.tenders.values() {
            if let Some(text) = messages::progress(self.json, &tender.figures)? {
                self.printer.offer(text);
            }
        }
        Ok(())
    }

    fn publish(&self) {
        let mut sums = self.past.clone();
        self.tenders.values().for_each(|tender| sums.add(&tender.figures));
        sums.crowded = self.crowded;
        self.newest.set(metrics::of(&sums));
    }

    fn finish(mut self, reason: &str, interrupted: &AtomicBool) -> Result<()> {
        for tender in self.tenders.values() {
            self.printer.offer(messages::ended(self.json, &tender.figures, reason)?);
        }
        if self.printer.skipped > 0 {
            output::say(&format!(
                "{} lines were not printed: nobody read them",
                self.printer.skipped
            ));
        }
        self.printer.finish(interrupted)?;
        let all_done = self.tenders.values().all(Tender::is_done)
            && self.refused.is_empty()
            && self.crowded == 0;
        if self.args.once && (self.is_incomplete || !all_done) {
            bail!("not all that --once asks for was done: see above");
        }
        Ok(())
    }
}
