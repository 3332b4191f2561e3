// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `explain`: one page on one program: whether its next fork fails, how long it stops it, what it copies and by
//! which code, what its workers share, and what would help.

mod page;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use cowlab_machine::process::Target;
use cowlab_machine::verdict::{Level, Verdict};
use cowlab_machine::{Facts, Root};
use cowlab_model::advice::Advice;
use cowlab_model::application::{ApplicationProfile, Children};
use cowlab_observe::sharing::{Figures, Sharing};
use cowlab_observe::watch::Wanted;
use cowlab_report::Document;
use cowlab_report::blame::BlameSummary;
use cowlab_store::Missing;
use serde::Serialize;

use crate::args::{ExplainArgs, ProfileArgs, TargetWord};
use crate::diagnosis::words::{Worded, worded};
use crate::diagnosis::{
    Amount, Copies, Diagnosis, Finding, Forks, Observed, TargetFacts, choices, diagnose, observe,
    parent_of_worker,
};
use crate::output;
use crate::profile_file::Priced;
use crate::usage::WrongUsage;

/// Between two looks at what workers share, where nothing else is waited for.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
/// Workers whose memory takes longer to look at are looked at once.
const SHORT_LOOK: Duration = Duration::from_secs(4);
/// Workers that live longer than this live on.
const LIVES_ON_S: f64 = 10.0;

#[derive(Serialize)]
struct ExplainSummary<'a> {
    pid: i32,
    name: &'a str,
    findings: &'a [Finding],
    fork: Fork<'a>,
    stop_ns: Option<Amount>,
    copied_bytes: Amount,
    /// As the server measured it, if it was asked.
    last_fork_ns: Option<u64>,
    children: Option<usize>,
    seen_forks: Option<&'a Forks>,
    sharing: Option<&'a Figures>,
    copies: Option<BlameSummary>,
    advice_sentence: String,
    application: Option<&'a ApplicationProfile>,
    advice: &'a [Advice],
}

#[derive(Serialize)]
struct Fork<'a> {
    sentence: String,
    #[serde(flatten)]
    verdict: &'a Verdict,
    findings: Vec<Worded>,
}

#[derive(Serialize)]
struct Several<'a> {
    processes: Vec<ExplainSummary<'a>>,
}

/// Everything that is said of one program.
struct Explained {
    facts: TargetFacts,
    diagnosis: Diagnosis,
    sharing: Option<Figures>,
    /// Whether nothing was watched, by wish.
    is_quick: bool,
}

pub fn run(json: bool, args: &ExplainArgs) -> Result<()> {
    if args.html.is_some() && args.targets.len() > 1 {
        bail!(WrongUsage("--html takes one target: run explain once for each".to_owned()));
    }
    if let Some(folder) =
        args.html.as_deref().and_then(Path::parent).filter(|of| *of != Path::new(""))
        && !folder.is_dir()
    {
        bail!(WrongUsage(format!(
            "--html: there is no folder {}: make it first",
            folder.display()
        )));
    }
    let machine = Facts::probe(&Root::default());
    let priced = Priced::find(&ProfileArgs { profile: None })?;
    let explained =
        args.targets.iter().map(|word| Explained::new(json, args, word, &priced, &machine));
    let (explained, errors) = output::parted(explained);
    let document =
        |of: &Explained, is_page| page::document(&machine, of, &priced.by, args, is_page);
    if let (Some(file), [of]) = (&args.html, &explained[..]) {
        write_page(file, document(of, true)?)?;
    }
    match (&explained[..], json) {
        ([], _) => {}
        ([only], true) if errors.is_empty() => {
            output::json_of(only.summary(), &[], &only.missing())?;
        }
        (several, true) => {
            let row = |error: &anyhow::Error| missing("processes", &output::message(error));
            let rows: Vec<Missing> =
                several.iter().flat_map(Explained::missing).chain(errors.iter().map(row)).collect();
            let processes = several.iter().map(Explained::summary).collect();
            output::json_of(Several { processes }, &[], &rows)?;
        }
        (several, false) => {
            let documents: Result<Vec<Document>> =
                several.iter().map(|of| document(of, false)).collect();
            output::texts(documents?)?;
        }
    }
    output::errors(errors)
}

fn write_page(file: &Path, page: Document) -> Result<()> {
    let page = cowlab_report::html::render(&page);
    cowlab_store::replace(file, page.as_bytes())
        .with_context(|| format!("--html {}: the page cannot be written", file.display()))
}

fn missing(metric: &str, reason: &str) -> Missing {
    Missing { metric: metric.to_owned(), reason: reason.to_owned() }
}

impl Explained {
    fn new(
        json: bool,
        args: &ExplainArgs,
        word: &TargetWord,
        priced: &Priced,
        machine: &Facts,
    ) -> Result<Explained> {
        let (pid, asked) = word.process()?;
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
        let mut facts = TargetFacts::read(machine, &target, asked)?;
        facts.add_own_bytes(&target);
        let mut sharing = None;
        if !args.quick {
            let began = Instant::now();
            sharing = Sharing::begin(&Wanted::Pid(target.pid().cast_unsigned())).ok();
            let is_short = began.elapsed() < SHORT_LOOK;
            let time = Duration::from_secs_f64(args.duration_s);
            let observed = observe(json, &target, machine, time);
            if observed.is_err() {
                target.wait_for_end(BETWEEN_LOOKS);
            }
            if let Some(sharing) = sharing.as_mut().filter(|_| is_short) {
                // Of one that has ended meanwhile the first look stays.
                let _ = sharing.look();
            }
            facts.add_observed(&target, observed, machine.page_size_bytes);
        }
        let sharing = sharing.map(|sharing| sharing.figures());
        Ok(Explained {
            diagnosis: diagnose(machine, &facts, &priced.profile),
            facts,
            sharing: sharing.filter(|figures| figures.forked().next().is_some()),
            is_quick: args.quick,
        })
    }

    fn observed(&self) -> Option<&Observed> {
        self.facts.observed.as_ref().ok()
    }

    fn copies(&self) -> Option<&Copies> {
        self.observed()?.copies.as_ref().ok()
    }

    fn forks(&self) -> Option<&Forks> {
        self.observed()?.forks()
    }

    /// Whether it starts programs, and none by a fork.
    fn only_spawns(&self) -> bool {
        self.facts.forked == 0
            && self.forks().is_some_and(|forks| forks.forks == 0 && forks.spawns > 0)
    }

    /// The finding that the answer begins with.
    fn told(&self) -> Option<&Finding> {
        self.diagnosis.worst().filter(|_| self.diagnosis.verdict.level != Level::WillFail)
    }

    fn has_ended(&self) -> bool {
        self.observed().is_some_and(|observed| observed.has_ended)
    }

    /// Whether its workers live on, so that their memory counts more than the stop of a fork now and then.
    fn lives_on(&self) -> bool {
        let Some(sharing) = &self.sharing else { return false };
        let workers = sharing.forked().count();
        let oldest_s = sharing.forked().map(|one| one.age_s).fold(0.0, f64::max);
        let forks = self.forks().map(|forks| forks.forks);
        let is_old = oldest_s > LIVES_ON_S && forks.unwrap_or(0) <= workers;
        Children::of(&self.facts.name) != Children::Save
            && workers > 0
            && (forks == Some(0) || is_old)
    }

    fn summary(&self) -> ExplainSummary<'_> {
        let (facts, diagnosis) = (&self.facts, &self.diagnosis);
        let (verdict, copies_by) = (&diagnosis.verdict, diagnosis.copied_bytes.source);
        let costs = diagnosis.costs.as_ref().ok();
        ExplainSummary {
            pid: facts.pid,
            name: &facts.name,
            findings: &diagnosis.findings,
            fork: Fork {
                sentence: page::verdict(self),
                findings: verdict.findings.iter().map(|one| worded(one, copies_by)).collect(),
                verdict,
            },
            stop_ns: diagnosis.stop_ns(),
            copied_bytes: diagnosis.copied_bytes,
            last_fork_ns: facts.asked.as_ref().and_then(|asked| asked.last_fork_ns),
            children: facts.children,
            seen_forks: self.forks(),
            sharing: self.sharing.as_ref(),
            copies: self.copies().map(|copies| copies.blamed.summary()),
            advice_sentence: page::what_a_fork_takes(self),
            application: costs.map(|costs| &costs.application),
            advice: costs.map_or(&[], |costs| &costs.choices),
        }
    }

    fn missing(&self) -> Vec<Missing> {
        let mut rows = match &self.diagnosis.costs {
            Ok(costs) => choices::missing(costs),
            Err(why) => vec![missing("stop_ns", why), missing("advice", why)],
        };
        match &self.facts.observed {
            Ok(observed) => {
                rows.extend(observed.forks.as_ref().err().map(|why| missing("seen_forks", why)));
                match &observed.copies {
                    Ok(copies) => rows.extend(copies.run.info.missing.iter().cloned()),
                    Err(why) => rows.push(missing("copies", why)),
                }
            }
            Err(why) => rows.extend([missing("seen_forks", why), missing("copies", why)]),
        }
        rows
    }
}
