// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every measuring verb needs: the machine's facts, a runner that Ctrl-C stops, progress.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use cowlab_analysis::study::variants::FOLIO_BYTES;
use cowlab_bench::calibrate::{Scope, cold_touch_sample};
use cowlab_bench::probes::{DoFork, Runner, WarmMemory, unix_ns};
use cowlab_bench::{Rounds, Task, run_rounds};
use cowlab_machine::fit::{self, Need};
use cowlab_machine::{Facts, Guard, Policy, PolicyGuard, Root, thp, usable};
use cowlab_schema::fmt;
use cowlab_store::Sample;

use crate::args::Common;
use crate::output;
use crate::progress::{Progress, about};
use crate::signals;
use crate::usage::WrongUsage;

/// At most so much free memory is kept warm: the largest heap, its copies, and an eighth more.
const WARM_BYTES: u64 = 2304 << 20;

/// Shorter remaining rounds are not announced.
const WORTH_TELLING: Duration = Duration::from_secs(30);

/// Kept warm beyond a measurement's own need.
const SPARE_BYTES: u64 = 64 << 20;

pub struct Context {
    pub common: Common,
    pub facts: Facts,
    pub runner: Runner,
    /// The most memory that a measurement needed so far.
    largest_need: Cell<u64>,
    /// The verb's flag for the size of a heap, for messages.
    pub size_flag: Cell<&'static str>,
    /// Costs of touching the memory that was warmed for the last measurement.
    pub cold_touch: RefCell<Vec<Sample>>,
    _thp: Vec<Guard>,
}

impl Context {
    /// Read the facts and get ready to measure with pages of `page_size_bytes`.
    pub fn new(common: &Common, page_size_bytes: Option<u64>) -> Result<Context> {
        let interrupted = signals::interrupted()?;
        let root = Root::default();
        let mut facts = Facts::probe(&root);
        let mut guards = Vec::new();
        if let (true, Some(size)) = (common.set_mthp, page_size_bytes)
            && usable::page_size(&facts, size).is_err()
        {
            guards = thp::allow(&root, size)?;
            facts = Facts::probe(&root);
        }
        Ok(Context {
            common: common.clone(),
            facts,
            runner: Runner::new(interrupted)?,
            largest_need: Cell::new(0),
            size_flag: Cell::new("--size-bytes"),
            cold_touch: RefCell::default(),
            _thp: guards,
        })
    }

    /// For pages of several sizes; fails if a program does not get them here.
    pub fn of_pages(common: &Common, sizes: impl Iterator<Item = u64>) -> Result<Context> {
        let sizes: BTreeSet<u64> = sizes.collect();
        // --set-mthp enables huge pages, not the base page.
        let context = Context::new(common, sizes.last().copied())?;
        let huge: Vec<String> =
            sizes.range(context.page() + 1..).map(|size| fmt::size(*size)).collect();
        if huge.len() > 1 {
            return Err(WrongUsage(format!(
                "a program gets the largest pages that are enabled, so a run has huge pages of one \
                 size: measure {} in runs of their own",
                huge.join(" and ")
            ))
            .into());
        }
        sizes.into_iter().try_for_each(|size| context.check_page_size(size))?;
        Ok(context)
    }

    pub fn page(&self) -> u64 {
        self.facts.page_size_bytes
    }

    /// Whether a second thread can run beside the measured one.
    pub fn other_cpus(&self) -> bool {
        self.facts.cpu.allowed.len() > 1
    }

    /// The size of THP, or why it cannot be had.
    pub fn huge_page(&self) -> Result<u64, String> {
        let size = self.facts.thp.as_ref().and_then(|thp| thp.pmd_size_bytes);
        let size = size.ok_or("needs a kernel with transparent huge pages")?;
        usable::page_size(&self.facts, size).map(|()| size)
    }

    /// A folio size below huge pages that a program gets here, or by --set-mthp; an error says what it
    /// needs.
    pub fn folios(&self) -> Result<u64, String> {
        let usable = usable::page_size(&self.facts, FOLIO_BYTES);
        let is_given = self.common.set_mthp && thp::exists(&Root::default(), FOLIO_BYTES);
        if is_given { Ok(FOLIO_BYTES) } else { usable.map(|()| FOLIO_BYTES) }
    }

    /// Refuse page sizes that a program here does not get.
    pub fn check_page_size(&self, page_size_bytes: u64) -> Result<()> {
        usable::page_size(&self.facts, page_size_bytes).map_err(|reason| WrongUsage(reason).into())
    }

    /// Refuse policies that this kernel lacks; else the guard that sets them, if the kernel has any.
    pub fn policies(
        &self,
        asked: impl IntoIterator<Item = Policy>,
    ) -> Result<Option<Rc<PolicyGuard>>> {
        for one in asked {
            usable::policy(&self.facts, one).map_err(anyhow::Error::msg)?;
        }
        let is_root = self.facts.credentials.as_ref().is_some_and(|own| own.euid == 0);
        if self.facts.cow.precopy.is_none() || !is_root {
            return Ok(None);
        }
        Ok(Some(Rc::new(PolicyGuard::new(&Root::default())?)))
    }

    /// Refuse what does not fit into memory, before anything is allocated.
    pub fn check_fits(&self, heap_bytes: u64, written_bytes: u64, children: u64) -> Result<()> {
        let page_size_bytes = self.page();
        let need = Need { heap_bytes, written_bytes, children, page_size_bytes };
        fit::check(&self.facts, &need).map_err(|large| match large.largest_heap_bytes {
            0 => anyhow!("{large}"),
            bytes => anyhow!("{large}; use {} {bytes}", self.size_flag.get()),
        })?;
        let all = heap_bytes.saturating_add(written_bytes.saturating_mul(children));
        self.largest_need.set(self.largest_need.get().max(all));
        Ok(())
    }

    pub fn fits(&self, settings: &DoFork) -> bool {
        let written = (settings.heap_bytes as f64 * settings.write_fraction) as u64;
        self.check_fits(settings.heap_bytes, written, 1).is_ok()
    }

    /// What a calibration may use.
    pub fn scope(&self) -> Result<Scope> {
        let largest = [1 << 30, 256 << 20, 64 << 20, 16 << 20]
            .into_iter()
            .find(|bytes| self.check_fits(*bytes, *bytes, 1).is_ok())
            .context("less than 40 MiB of memory are free: nothing can be measured")?;
        Ok(Scope {
            page_size_bytes: self.page(),
            huge_page_bytes: self.huge_page().ok(),
            other_cpus: self.other_cpus(),
            largest_bytes: largest,
        })
    }

    /// Keep free memory warm if a hypervisor may reclaim it.
    fn warm(&self) -> Option<WarmMemory<'_>> {
        if !self.facts.memory_may_be_taken_back() {
            return None;
        }
        let available = self.facts.memory.as_ref().and_then(|m| m.available_bytes).unwrap_or(0);
        let bytes =
            WARM_BYTES.min(self.largest_need.get() / 8 * 9 + SPARE_BYTES).min(available / 2);
        self.say("touching free memory, so that the hypervisor does not take it back");
        let warm = self.runner.keep_warm(bytes);
        if let Err(error) = &warm {
            self.say(&format!("memory is not kept warm, times may scatter: {error:#}"));
        }
        warm.ok()
    }

    /// Run tasks in rounds, with a progress bar on a terminal.
    pub fn measure(&self, tasks: &[Task], rounds: Rounds) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        self.measure_rounds(tasks, rounds, |mut round| {
            samples.append(&mut round);
            Ok(())
        })?;
        Ok(samples)
    }

    /// Like `measure`, but passes each completed round to `whole`.
    pub fn measure_rounds(
        &self,
        tasks: &[Task],
        rounds: Rounds,
        mut whole: impl FnMut(Vec<Sample>) -> Result<()>,
    ) -> Result<()> {
        let start_unix_ns = unix_ns();
        let warm = self.warm();
        let shown = RefCell::new(Progress::new(self.common.json));
        let progress = |name: &str, done: f64| shown.borrow_mut().at(done, name);
        let (began, mut made) = (Instant::now(), 0);
        if rounds.within < Duration::MAX {
            self.say_expected(rounds.within);
        }
        let whole = |round| {
            made += 1;
            // The first round shows how long the others will take.
            let left = began.elapsed() * (rounds.most - 1);
            if made == 1 && rounds.within == Duration::MAX && left >= WORTH_TELLING {
                let rounds = rounds.most - 1;
                shown
                    .borrow()
                    .suspend(|| self.say(&format!("{rounds} more rounds: {}", about(left))));
            }
            whole(round)
        };
        let seed = self.common.seed;
        let result = run_rounds(&self.runner, tasks, rounds, seed, progress, whole);
        shown.borrow().finish();
        if let Some(warm) = &warm {
            *self.cold_touch.borrow_mut() = cold_touch_sample(self.page(), warm, start_unix_ns);
        }
        result
    }

    pub fn say_expected(&self, expected: Duration) {
        self.say(&format!("this will take {}", about(expected)));
    }

    pub fn say(&self, what: &str) {
        output::progress(self.common.json, what);
    }
}
