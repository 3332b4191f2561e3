// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `advise`: what a fork costs an application here, and what each choice would change.

mod table;

use std::path::Path;

use anyhow::{Result, bail};
use cowlab_analysis::application::Unjudged;
use cowlab_bench::{Rounds, advice as trial};
use cowlab_machine::{Facts, Root, usable};
use cowlab_model::advice::{Advice, Choice, Shape, Surroundings, advise, sentence};
use cowlab_model::application::{ApplicationProfile, Children};
use cowlab_model::cost::Vmas;
use cowlab_model::profile::MachineProfile;
use cowlab_observe::Target;
use cowlab_observe::redis::Asked;
use cowlab_report::Document;
use cowlab_report::fmt::{bytes, time};
use cowlab_schema::Command;
use cowlab_store::{Missing, Run};
use cowlab_tend::Tender;
use serde::Serialize;

use crate::application::{Application, of_pid, of_run, shared_with_children, word_of};
use crate::args::{AdviseArgs, Common, TargetWord};
use crate::calibration::priced;
use crate::context::Context;
use crate::output;
use crate::profile_file::Priced;
use crate::run_life::{Report, RunLife};
use crate::usage::WrongUsage;
pub use table::screen;
use table::{forecast_samples, heading, name_of, page};

/// The folio that is priced besides the base page and the huge page.
const MTHP_BYTES: u64 = 64 << 10;

/// Of a shorter stop too much is what a look at the kernel's events does not see.
const LONG_STOP_NS: f64 = 500_000.0;

/// What `--json` has beside the samples.
#[derive(Serialize)]
pub struct AdviseSummary<'a> {
    /// The advice in one sentence.
    pub sentence: &'a str,
    /// The application.
    pub application: &'a ApplicationProfile,
    /// Each choice.
    pub advice: &'a [Advice],
}

/// Run the verb.
pub fn run(json: bool, args: &AdviseArgs) -> Result<()> {
    if args.targets.len() > 1 && (json || args.verify) {
        let flag = if json { "--json" } else { "--verify" };
        bail!(WrongUsage(format!("{flag} takes one target: run advise once for each")));
    }
    // Beside a program that runs nothing is measured unasked.
    let of_runs = args.targets.iter().all(|word| Path::new(word).is_dir());
    let priced = if of_runs { priced(json, &args.profile)? } else { Priced::find(&args.profile)? };
    let facts = Facts::probe(&Root::default());
    let advised = args.targets.iter().map(|word| of_target(json, args, word, &priced, &facts));
    let (documents, errors) = output::parted(advised);
    output::texts(documents.into_iter().flatten())?;
    output::errors(errors)
}

/// The advice for one target: to be printed, unless that was done.
fn of_target(
    json: bool,
    args: &AdviseArgs,
    word: &str,
    Priced { profile, by }: &Priced,
    facts: &Facts,
) -> Result<Option<Document>> {
    let common = &args.run.common(json, args.set_mthp);
    let mut subtitle = by.clone();
    let base = profile.page_size_bytes;
    let run = Path::new(word);
    let mut target = None;
    let mut asked = None;
    let mut application = if run.is_dir() || word.contains('/') && !word.contains("://") {
        let program = args.program.as_deref();
        let mut application = of_run(run, program, base)?;
        let unjudged = Unjudged::of(&Run::read(run)?.samples, program)?;
        application.notes.extend(unjudged.notes(&application.profile));
        application
    } else {
        let pid;
        (pid, asked) = TargetWord::parse(word).map_err(WrongUsage)?.process()?;
        let mut application = of_pid(pid, args.write_fraction, asked.as_ref(), facts)?;
        let server = Target::open(pid)?;
        let address = server.server_address().filter(|_| asked.is_none());
        if let Some(address) = address {
            application.notes.push(format!(
                "`{}` asks the server as well: how long its last fork stopped it, and what that copied",
                Command::AdviseRedis.at(Some(&address))
            ));
        }
        target = Some(server);
        application
    };
    complete(&mut application.profile, args);
    let around = Surroundings {
        server: asked.as_ref().and_then(|asked| asked.server),
        ..surroundings(facts, target.as_ref())
    };
    let (mut advice, scaling) = as_seen(profile, &application, &around)?;
    subtitle.extend(scaling.map(|scaling| scaling.words()));
    let mut text = sentence(&advice, &application.name, application.stop_ns);
    if let Some(server) = target.as_ref().filter(|_| {
        let profile = &application.profile;
        profile.children == Children::Serve && profile.forks_per_s.is_none()
    }) {
        text = format!(
            "If its workers live long, their memory matters more than the stop: `{}`. {text}",
            Command::Explain.of(server.pid())
        );
    }
    let life = args.verify.then(|| verify(common, args, &mut advice)).transpose()?;
    if life.is_some() {
        subtitle += &format!("; measured here, {} rounds", args.rounds);
    }
    let trials = life.as_ref().map_or(&[][..], |life| &life.run.samples);
    let mut document = Document::new("Advice", subtitle);
    document.sections = page(&text, &application, &advice, trials);
    let mut samples = forecast_samples(&advice, &application.profile);
    samples.extend(trials.iter().cloned());
    let missing = missing(&advice, args.verify);
    let summary =
        AdviseSummary { sentence: &text, application: &application.profile, advice: &advice };
    let Some(mut life) = life else {
        if json {
            output::json_of(summary, &samples, &missing)?;
            return Ok(None);
        }
        if !args.tables {
            document.title = heading(&application);
            document.sections = screen(&text, &application, &advice, word);
        }
        return Ok(Some(document));
    };
    life.run.info.missing = missing;
    life.run.samples = samples;
    let report = Report::new(document, summary)?;
    life.end(Ok(()), |_| Ok(report))?.show()?;
    Ok(None)
}

/// Prices that are multiplied by what a program's stops took of the predicted ones.
#[derive(Debug, Clone, Copy)]
pub struct Scaling {
    seen_ns: f64,
    predicted_ns: f64,
}

impl Scaling {
    fn factor(self) -> f64 {
        self.seen_ns / self.predicted_ns
    }

    /// Behind whose prices they are.
    pub fn words(self) -> String {
        // Without their ratio, which would not be that of the rounded figures.
        format!(
            "; they predict a stop of {1} where {0} were measured, so all times here are scaled to the latter",
            time(self.seen_ns),
            time(self.predicted_ns)
        )
    }
}

/// Each choice, by scaled prices where the program's stops were just seen.
fn as_seen(
    profile: &MachineProfile,
    application: &Application,
    around: &Surroundings,
) -> Result<(Vec<Advice>, Option<Scaling>)> {
    let advice = advise(profile, &application.profile, around)?;
    let now = advice[0].forecast.as_ref().ok();
    let seen = application.stop_ns.filter(|stop_ns| *stop_ns > LONG_STOP_NS);
    let (Some(seen_ns), Some(now)) = (seen, now) else { return Ok((advice, None)) };
    let scaling = Scaling { seen_ns, predicted_ns: now.stop_ns.value };
    let scaled = profile.clone().scaled(scaling.factor());
    Ok((advise(&scaled, &application.profile, around)?, Some(scaling)))
}

/// What was just seen of a process's forks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Half of the stops were longer.
    pub stop_ns: Option<f64>,
    /// Pages copied by both sides.
    pub pages_per_fork: Option<f64>,
    /// The share of its copies that a garbage collector made, by their stacks.
    pub collector_share: Option<f64>,
}

/// What a fork costs a process as it is now, and what each choice would change; and how prices were scaled.
pub fn of_process(
    target: &Target,
    asked: Option<&Asked>,
    seen: Seen,
    profile: &MachineProfile,
    facts: &Facts,
) -> Result<(Application, Vec<Advice>, Option<Scaling>)> {
    let mut application = of_pid(target.pid(), None, asked, facts)?;
    application.stop_ns = seen.stop_ns.or(application.stop_ns);
    application.profile.collector_share = seen.collector_share;
    // Of one that forks all the time, of_pid has seen the copies itself.
    let pages = seen.pages_per_fork.filter(|_| application.profile.forks_per_s.is_none());
    if let Some(pages) = pages {
        application.profile.written = (pages.ceil() as u64).min(application.profile.pages);
        let copied = bytes(application.profile.written * facts.page_size_bytes);
        application.notes =
            vec![format!("{copied} were copied after each fork that was just seen")];
    }
    let around = Surroundings {
        server: asked.and_then(|asked| asked.server),
        ..surroundings(facts, Some(target))
    };
    let (advice, scaling) = as_seen(profile, &application, &around)?;
    Ok((application, advice, scaling))
}

/// What a fork of the program of a footprint costs, and what each choice would change.
pub fn of_footprint(run: &Path, profile: &MachineProfile, facts: &Facts) -> Result<Vec<Advice>> {
    let application = of_run(run, None, profile.page_size_bytes)?;
    Ok(advise(profile, &application.profile, &surroundings(facts, None))?)
}

/// What the flags say of the application.
fn complete(profile: &mut ApplicationProfile, args: &AdviseArgs) {
    profile.written_before = (profile.pages as f64 * args.written_before_fraction).ceil() as u64;
    profile.writer = args.writer.unwrap_or(profile.writer);
    if let Some(threads) = args.threads {
        profile.threads = threads;
    }
}

fn surroundings(facts: &Facts, target: Option<&Target>) -> Surroundings {
    let thp = facts.thp.as_ref();
    let huge = thp.and_then(|thp| thp.pmd_size_bytes).ok_or("this kernel has no huge pages");
    Surroundings {
        mthp_sizes_bytes: thp
            .filter(|thp| thp.sizes.contains_key(&MTHP_BYTES))
            .map(|_| MTHP_BYTES)
            .into_iter()
            .collect(),
        no_huge_pages: match huge {
            Err(why) => Some(why.to_owned()),
            Ok(size) => usable::page_size(facts, size).err(),
        },
        no_tend: Tender::refusal(target).or_else(|| target.and_then(shared_with_children)),
        target: target.map(word_of),
        server: None,
        precopy: facts.cow.precopy.is_some(),
        other_cpus: facts.cpu.allowed.len() > 1,
    }
}

/// Measure a process of each shape; what cannot be had here says why from now on.
fn verify(common: &Common, args: &AdviseArgs, advice: &mut [Advice]) -> Result<RunLife> {
    let mthp = advice.iter().find_map(|one| match one.choice {
        Choice::Mthp(bytes) => Some(bytes),
        _ => None,
    });
    let context = Context::new(common, mthp)?;
    let base = context.page();
    let mut shapes = Vec::new();
    for one in advice.iter_mut() {
        if let Ok(shape) = &one.shape {
            match fits(&context, shape) {
                Ok(()) => shapes.push((name_of(&one.choice), shape.clone())),
                Err(why) => one.shape = Err(why),
            }
        }
    }
    let mut life = RunLife::begin(common, "advise", context.facts.environment())?;
    let tasks = trial::tasks(shapes, base, context.scatter_bytes()?);
    life.run.samples = context.measure(&tasks, Rounds::exactly(args.rounds))?;
    Ok(life)
}

/// Whether a process of that shape can be had here.
fn fits(context: &Context, shape: &Shape) -> Result<(), String> {
    usable::page_size(&context.facts, shape.page_size_bytes)?;
    if shape.threads > 0 && !context.other_cpus() {
        return Err("needs two CPUs: this process may use one".to_owned());
    }
    let probe = trial::probe_of(shape, context.page(), 0);
    let mappings = probe.vmas_anon + probe.vmas + Vmas::OF_A_PROBE.anon + Vmas::OF_A_PROBE.others;
    if let Some(most) = context.facts.max_map_count.filter(|most| mappings + 8 > *most) {
        return Err(format!("it has {mappings} mappings, and vm.max_map_count is {most} here"));
    }
    // Before its fork the whole heap of a scattered one is copied once.
    let share = if probe.scattered { 1.0 } else { probe.write_fraction };
    let written = (probe.heap_bytes as f64 * share) as u64;
    context
        .check_fits(probe.heap_bytes, written, 1, context.page())
        .map_err(|error| error.to_string())
}

/// What has no forecast, and with `--verify` what could not be tried.
fn missing(advice: &[Advice], verified: bool) -> Vec<Missing> {
    let mut missing = Vec::new();
    for one in advice {
        let mut add = |what: &str, reason: &String| {
            let metric = format!("{} of {}", what, name_of(&one.choice));
            missing.push(Missing { metric, reason: reason.clone() });
        };
        if let Err(reason) = &one.forecast {
            add("forecast", reason);
        }
        if let (true, Err(reason)) = (verified, &one.shape) {
            add("trial", reason);
        }
    }
    missing
}
