// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sharing`: what a parent and its workers share, and how fast they lose it.

mod metrics;
pub mod text;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use cowlab_machine::ProcessError;
use cowlab_observe::sharing::{Figures, Sharing};
use cowlab_observe::tend::act::thread_cpu_ns;
use cowlab_observe::tend::privileges::allow_files;
use cowlab_observe::watch::{Budget, Wanted};
use rustix::event::{Timespec, poll};

use crate::args::{SharingArgs, wanted};
use crate::serve::{Endpoint, Newest};
use crate::sinks::Printer;
use crate::{output, signals};

/// The part of a CPU that walking page tables may take where somebody looks, and where nobody does.
const CPU_SHARE: f64 = 0.01;
const SERVED_CPU_SHARE: f64 = 0.001;
/// A signal that came just before a wait is seen within this time.
const NAP: Duration = Duration::from_secs(1);
/// Pages that may wait for a reader.
const WAITING: usize = 4;

pub fn run(json: bool, args: &SharingArgs) -> Result<()> {
    let target = &wanted(std::slice::from_ref(&args.target))?[0];
    let stop = signals::asked_to_end()?;
    allow_files();
    let newest = Newest::default();
    let _endpoint = Endpoint::listen(args.listen, &newest)?;
    let mut looks = Looks::begin(target, args)?;
    let goes_on = args.watch || args.listen.is_some();
    // Where metrics are served, nobody reads lines, unless they are asked for.
    let prints = json || args.watch;
    let mut printer = Printer::start(WAITING)?;
    let mut shown = None;
    while !stop.load(Ordering::Relaxed) {
        newest.set(metrics::of(&looks));
        if goes_on && prints {
            // What was not looked at again is not said again.
            let is_new = shown.replace(looks.looked) != Some(looks.looked);
            let is_read =
                !is_new || printer.offer(text::one_of_many(json, &looks.figures, looks.looked)?);
            if args.listen.is_none() && (!is_read || output::reader_has_gone()) {
                break;
            }
        }
        if looks.is_last() {
            break;
        }
        looks.wait(&stop);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if let Some(end) = looks.next()? {
            output::say(&end);
            break;
        }
    }
    printer.finish(&stop)?;
    if goes_on { Ok(()) } else { text::only(json, &looks.figures, looks.looked) }
}

/// One look after the other.
struct Looks {
    sharing: Sharing,
    budget: Budget,
    interval: Duration,
    /// When the next one is due, when the last one is, and when time was last paid for.
    due: Instant,
    until: Option<Instant>,
    paid: Instant,
    /// What the newest one said.
    figures: Figures,
    looked: jiff::Timestamp,
}

impl Looks {
    fn begin(target: &Wanted, args: &SharingArgs) -> Result<Looks> {
        let now = Instant::now();
        let cpu_ns = thread_cpu_ns();
        let sharing = Sharing::begin(target)?;
        if sharing.figures().forked().next().is_none() && args.listen.is_some() {
            output::say(&format!("{} has no worker yet", sharing.parent().name()));
        }
        let is_served = args.listen.is_some() && !args.watch;
        let share = if is_served { SERVED_CPU_SHARE } else { CPU_SHARE };
        let mut budget = Budget::new(share, 0.0);
        budget.spend(thread_cpu_ns() - cpu_ns);
        let once = !args.watch && args.listen.is_none() && args.duration_s.is_none();
        let until =
            args.duration_s.map(|s| now + Duration::from_secs_f64(s)).or(once.then_some(now));
        Ok(Looks {
            budget,
            interval: Duration::from_secs_f64(args.interval_s),
            due: now + Duration::from_secs_f64(args.interval_s),
            until,
            paid: now,
            figures: sharing.figures(),
            sharing,
            looked: jiff::Timestamp::now(),
        })
    }

    fn is_last(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// How long until the next look.
    fn pause(&self) -> Duration {
        let due = self.until.map_or(self.due, |until| until.min(self.due));
        due.saturating_duration_since(Instant::now())
    }

    /// Waits for the next look, or for a signal.
    fn wait(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) && !self.pause().is_zero() {
            let nap = self.pause().min(NAP);
            let nap = Timespec {
                tv_sec: nap.as_secs().cast_signed(),
                tv_nsec: nap.subsec_nanos().into(),
            };
            // A signal ends it.
            let _ = poll(&mut [], Some(&nap));
        }
    }

    /// Looks once more, at pages only where they may have changed and the budget allows it, or for
    /// the last time. How the parent ended, if it did.
    fn next(&mut self) -> Result<Option<String>> {
        let now = Instant::now();
        // A late look is left out, not made up for.
        while self.due <= now {
            self.due += self.interval;
        }
        self.budget.pass((now - self.paid).as_nanos() as u64);
        self.paid = now;
        let has_changed = self.sharing.may_have_changed();
        // One that has ended costs no walk, and what it was is not shown any more.
        let is_alive = self.sharing.parent().is_alive();
        if is_alive && has_changed && !self.is_last() && !self.budget.allows() {
            return Ok(None);
        }
        let cpu_ns = thread_cpu_ns();
        let looked = match has_changed {
            true => self.sharing.look(),
            false => {
                self.sharing.repeat();
                Ok(())
            }
        };
        self.budget.spend(thread_cpu_ns() - cpu_ns);
        match looked {
            Ok(()) => {
                self.figures = self.sharing.figures();
                self.looked = jiff::Timestamp::now();
                Ok(None)
            }
            Err(error @ (ProcessError::Vanished { .. } | ProcessError::Executed { .. })) => {
                Ok(Some(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }
}
