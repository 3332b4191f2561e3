// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `footprint`: the application profile of a command or of a running process.

mod screen;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use cowlab_machine::process::Target;
use cowlab_machine::{Facts, Root};
use cowlab_observe::bpf::access::AccessFacts;
use cowlab_observe::footprint::bpf_source::BpfSource;
use cowlab_observe::footprint::faults::FaultLog;
use cowlab_observe::footprint::follow::Follow;
use cowlab_observe::footprint::method::{MethodFacts, Subject, choose};
use cowlab_observe::footprint::samples::{is_bound, samples};
use cowlab_observe::footprint::spans::{Key, Sum};
use cowlab_observe::footprint::tracer::{Tracer, on_own_thread};
use cowlab_observe::footprint::{Method, Spans, live};
use cowlab_store::Missing;
use serde::Serialize;

use crate::args::FootprintArgs;
use crate::diagnosis::worker;
use crate::output;
use crate::run_life::{Report, RunLife};
use crate::signals;
use crate::usage::{EndedWith, WrongUsage, cannot_start};

/// How long the wait for a fork is, if not given.
const WAIT_FOR_FORK_S: f64 = 60.0;
/// How long the command's descendants may outlive it before this is told.
const TELL_AFTER: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct FootprintSummary {
    method: String,
    reason: String,
    forks: u64,
    spawns: u64,
    unseen: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_stop_ns: Option<u64>,
    /// As wait(2) gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_status: Option<i32>,
}

/// What was chosen, and a way to end early.
struct FootprintPlan<'a> {
    args: &'a FootprintArgs,
    method: Method,
    reason: String,
    facts: Facts,
    interrupts: Arc<AtomicUsize>,
    json: bool,
}

pub fn run(json: bool, args: &FootprintArgs) -> Result<()> {
    let common = &args.run.common(json, false);
    let target = match &args.targets[..] {
        [] if args.command.is_empty() => bail!(WrongUsage(
            "name a running process by PID|NAME, or a command behind `--`, as in `cowlab footprint \
             -- python3 program.py`"
                .to_owned()
        )),
        [] => None,
        [target] => Some(Target::open(target.process()?.0)?),
        several => bail!(WrongUsage(format!(
            "footprint looks at one process at a time: {} are named",
            several.len()
        ))),
    };
    let facts = Facts::probe(&Root::default());
    let subject = match (&target, args.forks.is_some()) {
        (None, _) => Subject::Command,
        (Some(_), true) => Subject::Fork,
        (Some(_), false) => Subject::Interval,
    };
    let of_worker = target.as_ref().and_then(worker);
    if let (Subject::Fork, Some(why)) = (subject, &of_worker) {
        output::say(&format!("{why}; waiting for a fork of it all the same"));
    }
    let bpf = AccessFacts::probe(&Root::default()).decide();
    let of_method = MethodFacts::probe(target.as_ref(), bpf);
    let (method, reason) =
        choose(subject, &of_method, args.method).map_err(|reason| anyhow!(reason))?;
    let interrupts = signals::last()?;
    let mut life = RunLife::begin(common, "footprint", facts.environment())?;
    let plan = FootprintPlan { args, method, reason, facts, interrupts, json };
    let (spans, status) = match target {
        None => on_own_thread(|| plan.command())?,
        Some(target) => (plan.process(&target)?, None),
    };
    life.run.info.missing = missing(&spans, of_method.frames, method);
    life.run
        .info
        .missing
        .extend(of_worker.map(|reason| Missing { metric: "forks".to_owned(), reason }));
    if of_method.is_forked && method == Method::Snapshot && subject == Subject::Interval {
        let reason = "it shares pages with its parent: a page that was written and holds the same bytes again (a \
                      reference count) was copied and is not seen; as root, --method exclusive counts it";
        life.run
            .info
            .missing
            .push(Missing { metric: "cow_pages".to_owned(), reason: reason.to_owned() });
    }
    let summary = FootprintSummary {
        method: plan.method.to_string(),
        reason: plan.reason,
        forks: spans.forks,
        spawns: spans.spawns,
        unseen: spans.unseen,
        longest_stop_ns: (spans.stops > 0).then_some(spans.longest_stop_ns),
        exit_status: status,
    };
    let start_unix_ns = life.run.info.started.as_nanosecond() as i64;
    life.run.samples = samples(&spans, plan.facts.page_size_bytes, start_unix_ns);
    let mut kept = life.end(Ok(()), |run| {
        let document = cowlab_report::footprint::document(run)
            .context("nothing was seen: the process, or the looking at it, ended too early")?;
        Report::new(document, &summary)
    })?;
    output::say(&format!("method {} ({})", summary.method, summary.reason));
    if !json {
        let whole = &kept.report.document;
        kept.report.document = screen::of(&kept.run, &kept.path, whole, spans.forks, &plan.facts)?;
    }
    kept.show()?;
    match status {
        Some(status) if status != 0 => Err(EndedWith::of_wait_status(status).into()),
        _ => Ok(()),
    }
}

/// What this run could not see.
fn missing(spans: &Spans, frames: bool, method: Method) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut add = |metric: &str, reason: String| {
        missing.push(Missing { metric: metric.to_owned(), reason });
    };
    let forked = spans.sums.keys().any(|key| key.between.is_fork());
    if forked && !frames && method == Method::Exclusive {
        add(
            "writer",
            "only that one of the two sides wrote is known: page frames tell which, and need CAP_SYS_ADMIN"
                .to_owned(),
        );
    }
    if method != Method::Snapshot {
        add("bytes_changed", "only --method snapshot compares bytes".to_owned());
    }
    if forked && method != Method::Faults {
        add("hit_fraction", "the order of writes is seen by --method faults alone".to_owned());
    }
    if spans.unseen > 0 {
        add(
            "spans",
            format!("{} processes ended or executed before they could be looked at", spans.unseen),
        );
    }
    if spans.faults_lost.is_some_and(|lost| lost > 0) {
        let lost = spans.faults_lost.unwrap_or(0);
        add("cow_pages", format!("{lost} faults were lost: pages that they wrote do not count"));
    }
    let freed_pages = most_pages(spans, |_, sum| sum.freed_unseen_pages);
    if freed_pages > 0 {
        add(
            "cow_pages",
            format!(
                "up to {freed_pages} pages more may have been copied and then given back (munmap, \
                 MADV_DONTNEED), by the faults that were taken: they do not count here; --method \
                 faults counts them, with CAP_BPF and CAP_PERFMON"
            ),
        );
    }
    let of_unknown = |own: bool| {
        move |key: &Key, sum: &Sum| if is_bound(key) == own { sum.unknown_pages } else { 0 }
    };
    let own_pages = most_pages(spans, of_unknown(true));
    if own_pages > 0 {
        add(
            "pages_written",
            format!(
                "{own_pages} pages were its own before the first moment: what was written of them is \
                 not seen; --method snapshot compares them"
            ),
        );
    }
    let unknown_pages = most_pages(spans, of_unknown(false));
    if unknown_pages > 0 {
        add(
            "pages_written",
            format!(
                "{unknown_pages} pages could not be judged, in swap at one of the moments or \
                 unreadable: they count as not written"
            ),
        );
    }
    for (metric, reason) in &spans.missing {
        add(metric, reason.clone());
    }
    missing
}

/// Pages that could not be judged. The writers of one span tell of the same ones.
fn most_pages(spans: &Spans, of: impl Fn(&Key, &Sum) -> u64) -> u64 {
    let mut most: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (key, sum) in &spans.sums {
        let pages = most.entry((key.program.as_str(), key.between.name())).or_default();
        *pages = of(key, sum).max(*pages);
    }
    most.values().sum()
}

impl FootprintPlan<'_> {
    fn stopped(&self) -> bool {
        self.interrupts.load(Ordering::Relaxed) != 0
    }

    /// The last signal that came, once.
    fn signal(&self) -> Option<i32> {
        let signal = self.interrupts.swap(0, Ordering::Relaxed);
        (signal != 0).then_some(signal as i32)
    }

    /// Runs the command and follows all that it starts.
    fn command(&self) -> Result<(Spans, Option<i32>)> {
        let (program, arguments) =
            self.args.command.split_first().context("no command was given")?;
        let mut start = Command::new(program);
        start.args(arguments);
        if self.json {
            // Standard output has the document, and nothing else.
            start.stdout(std::io::stderr());
        }
        let cannot = || cannot_start(program);
        let faults = self.faults(false)?;
        let (tracer, root) = Tracer::start(start, self.args.mark).with_context(cannot)?;
        let mut follow = Follow::new(tracer, self.method, faults);
        follow.begin(root)?;
        let (told, signals) = (Cell::new(false), Cell::new(0));
        let status = follow.run(root, |ended| {
            if ended.is_some_and(|ended| ended.elapsed() > TELL_AFTER) && !told.replace(true) {
                output::say(
                    "the command ended, processes that it started go on: Ctrl-C ends the looking",
                );
            }
            if let Some(signal) = self.signal() {
                signals.set(signals.get() + 1);
                if ended.is_none() && signals.get() == 1 {
                    signals::forward(signal, root);
                }
            }
            // The first is the command's, and the end of the looking only with its end.
            signals.get() > usize::from(ended.is_none())
        })?;
        Ok((follow.finish(), status))
    }

    fn process(&self, target: &Target) -> Result<Spans> {
        let forks = self.args.forks;
        let usual_s = if forks.is_some() { WAIT_FOR_FORK_S } else { 1.0 };
        let wait = Duration::from_secs_f64(self.args.duration_s.unwrap_or(usual_s));
        if forks.is_some() {
            let (name, pid, seconds) = (target.name(), target.pid(), wait.as_secs_f64());
            output::progress(
                self.json,
                &format!(
                    "waiting up to {seconds} s for a fork of {name} ({pid}), and for its child's end"
                ),
            );
        }
        match forks {
            None => live::interval(target, self.method, wait, || self.stopped()),
            Some(forks) => {
                let faults = self.faults(true)?;
                live::forks(target, self.method, forks, wait, faults, || self.stopped())
            }
        }
    }

    fn faults(&self, follows: bool) -> Result<Option<FaultLog>> {
        if self.method != Method::Faults {
            return Ok(None);
        }
        let source = BpfSource::attach(follows)?;
        Ok(Some(FaultLog::new(Box::new(source))))
    }
}

#[cfg(test)]
mod tests {
    use cowlab_observe::footprint::spans::{Between, Span};
    use cowlab_observe::footprint::{Tally, Writer};

    use super::*;

    fn seen(unknown_pages: [u64; 3]) -> Spans {
        let mut spans = Spans::default();
        for (writer, unknown_pages) in
            [Writer::Parent, Writer::Child, Writer::Either].into_iter().zip(unknown_pages)
        {
            spans.add(Span {
                image: 0,
                between: Between::ForkToExit,
                program: "server".to_owned(),
                writer,
                method: Method::Exclusive,
                tally: Tally::default(),
                start_unix_ns: 0,
                duration_ns: 1,
                writer_cpu_ns: None,
                others_cpu_ns: None,
                unknown_pages,
                freed_unseen_pages: 0,
                blind_ns: 0,
            });
        }
        spans
    }

    fn reason(spans: &Spans, metric: &str) -> Option<String> {
        let all = missing(spans, true, Method::Exclusive);
        all.into_iter().find(|row| row.metric == metric).map(|row| row.reason)
    }

    #[test]
    fn what_could_not_be_judged_is_told_once() {
        assert_eq!(reason(&seen([0; 3]), "pages_written"), None);
        let told = reason(&seen([4, 5, 5]), "pages_written").unwrap();
        assert!(told.starts_with("5 pages could not be judged"), "{told}");
        let lost = Spans { faults_lost: Some(3), ..Spans::default() };
        assert!(reason(&lost, "cow_pages").unwrap().starts_with("3 faults were lost"));
        let ended = ("forks".to_owned(), "process 7 ended".to_owned());
        let early = Spans { missing: vec![ended], ..seen([0; 3]) };
        assert_eq!(reason(&early, "forks").unwrap(), "process 7 ended");
    }
}
