// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `explain`: one page on one program: how it forks, its next stop, what it copies, what would help.

mod page;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cowlab_blame::{Collector, LOOK, Share};
use cowlab_machine::verdict::Verdict;
use cowlab_machine::{Facts, Root};
use cowlab_model::advice::{Advice, sentence};
use cowlab_model::application::Children;
use cowlab_model::stats::median;
use cowlab_observe::Target;
use cowlab_observe::bpf::{Event, Happening, Lost, Observer, ObserverSettings};
use cowlab_observe::sharing::{Figures, Sharing};
use cowlab_observe::watch::Wanted;
use cowlab_report::Document;
use cowlab_report::blame::{BlameSummary, Blamed};
use cowlab_schema::blame as names;
use cowlab_store::{Missing, Run, RunInfo};
use serde::Serialize;

use crate::application::{Application, parent_of_worker, word_of};
use crate::args::{ExplainArgs, ProfileArgs};
use crate::cmd::advise::{self, Seen};
use crate::cmd::blame::{give_way, lacking, samples};
use crate::cmd::doctor::Patient;
use crate::next_stop::NextStop;
use crate::profile_file::Priced;
use crate::usage::WrongUsage;
use crate::{output, signals};

/// How long it is watched; with what is read before and after, the answer takes half a minute at most.
const WATCHED: Duration = Duration::from_secs(10);
/// Between two looks at what workers share, where nothing else is waited for.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
/// Workers whose memory takes longer to look at are looked at once.
const SHORT_LOOK: Duration = Duration::from_secs(4);

/// Forks that were seen while it was watched.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct SeenForks {
    /// For so long it was watched.
    duration_s: f64,
    /// Its forks, and how many of the children executed another program.
    forks: usize,
    executed: usize,
    /// Children by vfork and posix_spawn, which stop it until they execute.
    spawns: usize,
    /// Half of the stops were longer, and the longest one; `None` without forks, and where this kernel does
    /// not show them.
    stop_ns: Option<f64>,
    longest_stop_ns: Option<u64>,
}

/// What watching it told.
struct Watched {
    forks: Result<SeenForks, String>,
    copies: Result<Copies, String>,
    /// Whether it ended meanwhile.
    has_ended: bool,
}

struct Copies {
    blamed: Blamed,
    run: Run,
}

#[derive(Serialize)]
struct ExplainSummary<'a> {
    pid: i32,
    name: &'a str,
    fork: &'a Verdict,
    stop_ns: Option<&'a NextStop>,
    /// As the server measured it, if it was asked.
    last_fork_ns: Option<u64>,
    seen_forks: Option<&'a SeenForks>,
    sharing: Option<&'a Figures>,
    copies: Option<BlameSummary>,
    advice_sentence: Option<&'a str>,
    advice: &'a [Advice],
}

/// Everything that is said.
struct Explained {
    patient: Patient,
    sharing: Option<Figures>,
    watched: Result<Watched, String>,
    advised: Result<(Application, Vec<Advice>, String), String>,
    /// Whose prices the advice has.
    by: String,
    /// How it is best named to a verb.
    word: String,
    page_bytes: u64,
}

/// Run the verb.
pub fn run(json: bool, args: &ExplainArgs) -> Result<()> {
    if let Some(folder) =
        args.html.as_deref().and_then(Path::parent).filter(|of| *of != Path::new(""))
        && !folder.is_dir()
    {
        bail!(WrongUsage(format!(
            "--html: there is no folder {}: make it first",
            folder.display()
        )));
    }
    let facts = Facts::probe(&Root::default());
    let (pid, asked) = args.target.process()?;
    let mut target = Target::open(pid)?;
    if let Some(parent) = parent_of_worker(&target) {
        output::say(&format!(
            "{} ({}) is a worker, and the forks are its parent's: this is {} ({})",
            target.name(),
            target.pid(),
            parent.name(),
            parent.pid()
        ));
        target = parent;
    }
    let patient = Patient::of(&facts, target.pid(), asked.as_ref())?;
    let priced = Priced::find(&ProfileArgs { profile: None })?;
    let began = Instant::now();
    let mut sharing = Sharing::begin(&Wanted::Pid(target.pid().cast_unsigned())).ok();
    let is_short = began.elapsed() < SHORT_LOOK;
    let watched = watch(json, &target, &facts);
    if watched.is_err() {
        target.wait_for_end(BETWEEN_LOOKS);
    }
    if let Some(sharing) = sharing.as_mut().filter(|_| is_short) {
        // Of one that has ended meanwhile the first look stays.
        let _ = sharing.look();
    }
    let seen = watched.as_ref().map_or_else(|_| Seen::default(), Watched::seen);
    let advised = advise::of_process(&target, asked.as_ref(), seen, &priced.profile, &facts);
    let mut by = priced.by;
    let advised = advised.map(|(application, advice, scaling)| {
        let sentence = sentence(&advice, &application.name, application.stop_ns);
        by.extend(scaling.map(|scaling| scaling.words()));
        (application, advice, sentence)
    });
    let explained = Explained {
        patient,
        sharing: sharing.map(|sharing| sharing.figures()).filter(has_workers),
        watched,
        advised: advised.map_err(|error| output::message(&error)),
        by,
        word: word_of(&target),
        page_bytes: facts.page_size_bytes,
    };
    if let Some(file) = &args.html {
        write_page(file, page::document(&facts, &explained, true)?)?;
    }
    match json {
        true => explained.json(),
        false => output::text(&page::document(&facts, &explained, false)?),
    }
}

fn write_page(file: &Path, page: Document) -> Result<()> {
    let page = cowlab_report::html::render(&page);
    cowlab_serve::replace(file, page.as_bytes())
        .with_context(|| format!("--html {}: the page cannot be written", file.display()))
}

fn has_workers(of: &Figures) -> bool {
    of.forked().next().is_some()
}

/// Its forks and the copies after them, for a while. An error says why nothing is told of them.
fn watch(json: bool, target: &Target, facts: &Facts) -> Result<Watched, String> {
    let text = |error: cowlab_observe::bpf::BpfError| error.to_string();
    let interrupts = signals::last().map_err(|error| error.to_string())?;
    let mut observer = Observer::attach(ObserverSettings::default()).map_err(text)?;
    let pid = target.pid().cast_unsigned();
    observer.watch(pid).map_err(text)?;
    // Some kernels show forks, and not the faults that copy.
    let mut collector = Collector::attach(Share::ByCost)
        .and_then(|mut collector| collector.watch(target).map(|()| collector))
        .map_err(text);
    let mut run = Run {
        info: RunInfo::begin(names::BENCH.name, 0, facts.environment()),
        samples: Vec::new(),
    };
    output::progress(
        json,
        &format!("watching {} for {} s; Ctrl-C ends it earlier", target.name(), WATCHED.as_secs()),
    );
    give_way();
    let (began, mut events) = (Instant::now(), Vec::new());
    while began.elapsed() < WATCHED && interrupts.load(Ordering::Relaxed) == 0 && target.is_alive()
    {
        std::thread::sleep(LOOK);
        if let Ok(collector) = &mut collector {
            collector.look();
        }
        observer.read_events(|event| events.push(event));
    }
    let lasted = began.elapsed();
    let forks = match observer.lost() == Lost::default() {
        true => Ok(seen_forks(&events, pid, lasted)),
        false => Err("some events were lost".to_owned()),
    };
    let copies = collector.map(|collector| {
        let got = collector.finish();
        run.samples = samples(&got, lasted, run.info.started.as_nanosecond() as i64);
        run.info.missing = lacking(&got);
        Copies { blamed: Blamed::of(&run, &got.stacks), run }
    });
    Ok(Watched { forks, copies, has_ended: !target.is_alive() })
}

fn seen_forks(events: &[Event], pid: u32, lasted: Duration) -> SeenForks {
    let all: Vec<_> = events
        .iter()
        .filter(|event| event.tgid == pid)
        .filter_map(|event| match event.what {
            Happening::Fork(fork) if fork.child_tgid.is_some_and(|child| child != pid) => {
                Some(fork)
            }
            _ => None,
        })
        .collect();
    let forks: Vec<_> = all.iter().filter(|fork| !fork.shares_memory).collect();
    let is_executed = |child| {
        events.iter().any(|event| Some(event.tgid) == child && event.what == Happening::Exec)
    };
    let stops: Vec<u64> = forks.iter().filter_map(|fork| fork.stop_ns).collect();
    SeenForks {
        duration_s: lasted.as_secs_f64(),
        forks: forks.len(),
        executed: forks.iter().filter(|fork| is_executed(fork.child_tgid)).count(),
        spawns: all.len() - forks.len(),
        stop_ns: median(&stops.iter().map(|ns| *ns as f64).collect::<Vec<_>>()),
        longest_stop_ns: stops.into_iter().max(),
    }
}

impl Watched {
    /// What the advice is to go by. Without a fork that was seen from its beginning on, copies say nothing
    /// of one.
    fn seen(&self) -> Seen {
        let copies = self.copies.as_ref().ok();
        let collector_share = copies.and_then(|copies| copies.blamed.collector_share());
        let Ok(forks) = &self.forks else { return Seen { collector_share, ..Seen::default() } };
        let is_told = forks.forks > 0 && forks.executed == 0;
        let copies = copies.filter(|_| is_told);
        Seen {
            stop_ns: forks.stop_ns,
            pages_per_fork: copies.map(|copies| copies.pages() / forks.forks as f64),
            collector_share,
        }
    }
}

impl Copies {
    fn pages(&self) -> f64 {
        let pages = self.run.samples.iter().filter(|row| row.metric == names::COPIED_PAGES.name);
        pages.map(|row| row.value).sum()
    }
}

impl Explained {
    fn copies(&self) -> Option<&Copies> {
        self.watched.as_ref().ok()?.copies.as_ref().ok()
    }

    fn has_ended(&self) -> bool {
        self.watched.as_ref().is_ok_and(|watched| watched.has_ended)
    }

    fn seen_forks(&self) -> Option<&SeenForks> {
        self.watched.as_ref().ok()?.forks.as_ref().ok()
    }

    /// Whether its workers live on, so that their memory counts more than the stop of a fork now and then.
    fn lives_on(&self) -> bool {
        let Some(sharing) = &self.sharing else { return false };
        let workers = sharing.forked().count();
        let oldest_s = sharing.forked().map(|one| one.age_s).fold(0.0, f64::max);
        let forks = self.seen_forks().map(|seen| seen.forks);
        let is_old = oldest_s > WATCHED.as_secs_f64() && forks.unwrap_or(0) <= workers;
        Children::of(&self.patient.name) != Children::Save
            && workers > 0
            && (forks == Some(0) || is_old)
    }

    fn json(&self) -> Result<()> {
        let advised = self.advised.as_ref().ok();
        let summary = ExplainSummary {
            pid: self.patient.pid,
            name: &self.patient.name,
            fork: &self.patient.fork,
            stop_ns: self.patient.stop_ns.as_ref(),
            last_fork_ns: self.patient.last_fork_ns,
            seen_forks: self.seen_forks(),
            sharing: self.sharing.as_ref(),
            copies: self.copies().map(|copies| copies.blamed.summary()),
            advice_sentence: advised.map(|(.., sentence)| sentence.as_str()),
            advice: advised.map_or(&[], |(_, advice, _)| advice),
        };
        output::json_of(summary, &[], &self.missing())
    }

    fn missing(&self) -> Vec<Missing> {
        let row = |metric: &str, reason: &str| Missing {
            metric: metric.to_owned(),
            reason: reason.to_owned(),
        };
        let mut rows = Vec::new();
        rows.extend(self.patient.no_stop.as_ref().map(|why| row("stop_ns", why)));
        rows.extend(self.advised.as_ref().err().map(|why| row("advice", why)));
        match &self.watched {
            Ok(watched) => {
                rows.extend(watched.forks.as_ref().err().map(|why| row("seen_forks", why)));
                match &watched.copies {
                    Ok(copies) => rows.extend(copies.run.info.missing.iter().cloned()),
                    Err(why) => rows.push(row("copies", why)),
                }
            }
            Err(why) => rows.extend([row("seen_forks", why), row("copies", why)]),
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use cowlab_observe::bpf::ForkEvent;

    use super::*;

    #[test]
    fn forks_of_the_program_are_told_from_spawns_and_threads() {
        let event = |tgid, what| Event { time_ns: 0, tgid, tid: tgid, comm: String::new(), what };
        let fork = |child, shares_memory, stop_ns| {
            Happening::Fork(ForkEvent { child_tgid: Some(child), shares_memory, stop_ns })
        };
        let events = [
            event(7, fork(8, false, Some(1000))),
            event(7, fork(9, false, Some(3000))),
            event(7, fork(10, true, None)),
            // A thread, and another's fork.
            event(7, fork(7, true, None)),
            event(8, fork(11, false, Some(9000))),
            event(9, Happening::Exec),
        ];
        let seen = seen_forks(&events, 7, Duration::from_secs(4));
        assert_eq!((seen.forks, seen.executed, seen.spawns), (2, 1, 1));
        assert_eq!((seen.stop_ns, seen.longest_stop_ns), (Some(2000.0), Some(3000)));
        let none = seen_forks(&[], 7, Duration::from_secs(4));
        assert_eq!((none.forks, none.stop_ns, none.longest_stop_ns), (0, None, None));
    }
}
