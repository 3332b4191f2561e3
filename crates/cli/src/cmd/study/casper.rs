// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel fork-study`: document 001's Table I and, for each change in kernel/study, Table II. Boots
//! of the kernel as it is and of the changed ones alternate; each runs `bench fork-sections`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cowlab_lab::{Guest, Interrupted, Order, Variant, accelerator, boot};
use cowlab_machine::{Facts, Root};
use cowlab_report::Document;
use cowlab_report::fork_study::{BASE, sections};
use cowlab_store::{Accelerator, Environment, Run, RunInfo, Sample, unit_of};
use serde::Deserialize;

use crate::args::ForkStudyArgs;
use crate::lab::Lab;
use crate::run_life::{Report, RunLife};
use crate::usage::WrongUsage;

/// A boot and its forks: 1 GiB forked a hundred times takes a minute under emulation.
const BOOT_LIMIT: Duration = Duration::from_secs(1800);

/// A kernel of the study.
struct Candidate {
    name: String,
    image: PathBuf,
    /// What its guest is told of its build.
    identity: Vec<String>,
}

/// What a guest's clock counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Time,
    /// QEMU advances the guest's clocks by 1 ns for each instruction that it executes.
    Instructions,
}

/// What `bench fork-sections --json` printed in the guest.
#[derive(Deserialize)]
struct Printed {
    run: RunInfo,
    samples: Vec<Sample>,
}

/// Run the verb.
pub fn run(json: bool, args: &ForkStudyArgs) -> Result<()> {
    let common = &args.run.common(json, false);
    let lab = Lab::open(json, &args.place)?;
    boot::check_tools()?;
    let (accelerator, why) = accelerator::decide(args.accelerator.wanted(), accelerator::try_kvm)?;
    lab.say(&format!("accelerator: {why}"));
    if accelerator == Accelerator::Kvm && !args.no_instructions {
        lab.say("instructions are counted under emulation, beside the times of KVM");
    }
    let host = Facts::probe(&Root::default()).environment();
    let mut life = RunLife::begin(common, "study-casper", host)?;
    let candidates = candidates(&lab, args)?;
    let mut collected = Collected::default();
    for round in 0..args.rounds {
        // Who is first alternates.
        let mut order: Vec<&Candidate> = candidates.iter().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for candidate in order {
            for clock in [Clock::Instructions, Clock::Time] {
                if clock == Clock::Instructions && (args.no_instructions || round > 0) {
                    continue; // the same instructions every time
                }
                lab.say(&format!("round {}: {}, {clock:?}", round + 1, candidate.name));
                let printed = measure(&lab, args, candidate, clock, accelerator)?;
                collected.add(printed, candidate, clock, round, accelerator);
            }
        }
    }
    life.run.info.environments = collected.environments;
    life.run.samples = collected.samples;
    life.end(Ok(()), report)?.show()
}

/// The kernels of the study, the unchanged one first.
fn candidates(lab: &Lab, args: &ForkStudyArgs) -> Result<Vec<Candidate>> {
    let mut all = Vec::new();
    for (index, text) in args.image.iter().enumerate() {
        let Some((name, image)) = text.split_once('=') else {
            bail!(WrongUsage(format!("--image {text}: NAME=FILE")))
        };
        let name = if index == 0 { BASE } else { name };
        all.push(Candidate { name: name.to_owned(), image: image.into(), identity: Vec::new() });
    }
    if !all.is_empty() {
        return Ok(all);
    }
    let changes = changes(lab.kernel()?.path(), &args.change)?;
    for change in [None].into_iter().chain(changes.iter().map(Some)) {
        let built = lab.built_as(Order::of(Variant::Traced), change.map(PathBuf::as_path))?;
        let name = change.map_or_else(|| BASE.to_owned(), |change| stem(change));
        all.push(Candidate { name, image: built.image(), identity: built.words() });
    }
    Ok(all)
}

/// The patches of kernel/study that were asked for; all, if none was.
fn changes(kernel: &Path, asked: &[String]) -> Result<Vec<PathBuf>> {
    if asked.iter().any(|name| name == "none") {
        return Ok(Vec::new());
    }
    let folder = kernel.join("study");
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut all = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|is| is == "patch") {
            all.push(path);
        }
    }
    all.sort();
    let known = || all.iter().map(|path| stem(path)).collect::<Vec<_>>().join(", ");
    for name in asked {
        if !all.iter().any(|path| stem(path).starts_with(name.as_str())) {
            bail!(WrongUsage(format!("--change {name}: no such change; there are: {}", known())));
        }
    }
    all.retain(|path| {
        asked.is_empty() || asked.iter().any(|name| stem(path).starts_with(name.as_str()))
    });
    Ok(all)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Boot a kernel and let it take its forks apart.
fn measure(
    lab: &Lab,
    args: &ForkStudyArgs,
    candidate: &Candidate,
    clock: Clock,
    accelerator: Accelerator,
) -> Result<Printed> {
    let program = std::env::current_exe().context("where is this program?")?;
    let sizes: Vec<String> = args.size_bytes.iter().map(u64::to_string).collect();
    let boots = lab.cache.folder("boot")?;
    let scratch = tempfile::Builder::new().prefix("fork-study-").tempdir_in(boots)?;
    // Into the shared folder: some 3000 samples are much for the guest's serial ports.
    let document = scratch.path().join("samples.json");
    let script = r#"out=$1; shift; exec "$@" >"$out""#;
    let mut command: Vec<OsString> = ["/bin/sh", "-c", script, "sh"].map(OsString::from).into();
    command.extend([document.clone().into(), program.into()]);
    let flags = [
        "--json",
        "bench",
        "--output",
        "/tmp/runs",
        "fork-sections",
        "--rounds",
        "1",
        "--forks",
        &args.forks.to_string(),
        "--size-bytes",
        &sizes.join(","),
    ];
    command.extend(flags.iter().map(OsString::from));
    let (accelerator, qemu_arguments): (Accelerator, Vec<OsString>) = match clock {
        Clock::Time => (accelerator, Vec::new()),
        Clock::Instructions => {
            (Accelerator::Tcg, ["-icount", "shift=0,sleep=off"].map(OsString::from).into())
        }
    };
    let (mut printed, mut messages) = (Vec::new(), Vec::new());
    let guest = Guest {
        image: &candidate.image,
        accelerator,
        memory_bytes: args.memory,
        measured: clock == Clock::Time,
        // With another, its instructions would pass time as well; and under TCG a child woken there
        // costs the parent more than all of its fork.
        cpus: 1,
        time_limit: BOOT_LIMIT,
        folder: scratch.path(),
        command: Some(&command),
        input: None,
        output: &mut printed,
        messages: &mut messages,
        kernel_arguments: &candidate.identity,
        qemu_arguments: &qemu_arguments,
    };
    let ended = match lab.watched(|watch| boot(guest, watch)) {
        Ok(ended) => ended,
        Err(error) => {
            if !error.is::<Interrupted>() {
                // Its log is in there, and the message says so.
                let _kept = scratch.keep();
            }
            return Err(error);
        }
    };
    let said = String::from_utf8_lossy(&messages);
    if ended.status != 0 {
        bail!("{}: bench fork-sections ended with {}:\n{said}", candidate.name, ended.status);
    }
    if let Some(complaint) = ended.complaints.first() {
        let log = scratch.keep().join("console.log");
        let (line, text) = (complaint.line, &complaint.text);
        bail!(
            "{}: its kernel complained in line {line} of {}: {text}",
            candidate.name,
            log.display()
        );
    }
    let text = std::fs::read(&document).context("the guest left no samples")?;
    serde_json::from_slice(&text).with_context(|| format!("the guest printed no document:\n{said}"))
}

/// What came home of all boots.
#[derive(Default)]
struct Collected {
    environments: Vec<Environment>,
    samples: Vec<Sample>,
}

impl Collected {
    fn add(
        &mut self,
        printed: Printed,
        candidate: &Candidate,
        clock: Clock,
        round: u32,
        accelerator: Accelerator,
    ) {
        let mut environments = printed.run.environments;
        for environment in &mut environments {
            environment.accelerator = match clock {
                Clock::Time => accelerator,
                Clock::Instructions => Accelerator::Tcg,
            };
        }
        let first = self.environments.len() as u32;
        self.environments.extend(environments);
        for mut sample in printed.samples {
            sample.environment += first;
            sample.params.insert("kernel".to_owned(), candidate.name.clone());
            sample.params.insert("boot".to_owned(), round.to_string());
            if clock == Clock::Instructions {
                if let Some(stem) = sample.metric.strip_suffix("_ns") {
                    sample.metric = format!("{stem}_instructions");
                } else if sample.unit != "ns" {
                    // A count is the same under either clock.
                } else {
                    continue;
                }
                sample.unit = unit_of(&sample.metric).to_owned();
            }
            self.samples.push(sample);
        }
    }
}

fn report(run: &Run) -> Result<Report> {
    let environment = &run.info.environments[0];
    let subtitle = format!("Linux {}, {:?}", environment.kernel, environment.accelerator);
    let mut document = Document::new("A study of fork, after Barkley and Schimmel 1988", subtitle);
    document.sections = sections(&run.samples);
    let summary = serde_json::to_value(&document)?;
    Report::new(document, summary)
}
