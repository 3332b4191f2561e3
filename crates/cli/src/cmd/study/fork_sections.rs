// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `study fork-sections`: document 001's Table I and, for each change in kernel/study, Table II. Boots
//! of the kernel as it is and of the changed ones alternate; each runs `bench fork-sections`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use cowlab_lab::{Machine, Variant, boot};
use cowlab_machine::{Facts, Root};
use cowlab_report::Document;
use cowlab_report::fork_sections::{BASE, sections};
use cowlab_schema::settings::fork_sections::{CHANGE, ForkSections, IMAGE, SIZE_BYTES};
use cowlab_schema::{Text, fork_sections};
use cowlab_store::{Accelerator, Environment, Run};

use crate::args::{Cells, Common, StudyArgs};
use crate::lab::plan::Measurement;
use crate::lab::{GUEST_BYTES, Lab, guests};
use crate::run_life::{Report, RunLife};
use crate::usage::WrongUsage;

/// A boot and its forks: 1 GiB forked a hundred times takes a minute under emulation.
const BOOT_LIMIT_S: f64 = 1800.0;

/// The change that is no patch: page tables are left for after fork.
const DEFER: &str = "defer";

struct Candidate {
    name: String,
    image: PathBuf,
    /// What its guest is told of its build.
    identity: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Time,
    /// QEMU advances the guest's clocks by 1 ns for each instruction that it executes.
    Instructions,
}

/// Boots of each kernel, if not said.
const ROUNDS: u32 = 4;

pub fn run(common: &Common, study: &StudyArgs) -> Result<()> {
    let set = Cells::<ForkSections>::of_settings(&study.set)?;
    let args = set.single(ForkSections::default())?;
    let lab = Lab::open(common.json)?;
    boot::check_tools()?;
    let wanted = study.guest.settings.accelerator;
    let accelerator = lab.accelerator(wanted, || lab.image(&[Variant::Plain]))?;
    if accelerator == Accelerator::Kvm && args.instructions {
        lab.say("instructions are counted under emulation, beside the times of KVM");
    }
    let host = Facts::probe(&Root::default()).environment();
    let mut life = RunLife::begin(common, "study-fork-sections", host)?;
    life.run.info.environments.clear();
    let candidates = candidates(&lab, &texts(set.list(&IMAGE)), &texts(set.list(&CHANGE)))?;
    let sizes: Vec<String> = set.list(&SIZE_BYTES).iter().map(u64::to_string).collect();
    let measurement = Measurement::new("bench", "fork-sections")
        .with("rounds", 1)
        .with("forks", args.forks)
        .with("size-bytes", sizes.join(","));
    let memory_bytes = study.guest.settings.memory_bytes.unwrap_or(GUEST_BYTES);
    let limit_s = study.guest.settings.time_limit_s.or(Some(BOOT_LIMIT_S));
    for round in 0..study.rounds.unwrap_or(ROUNDS) {
        // Who is first alternates.
        let mut order: Vec<&Candidate> = candidates.iter().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for candidate in order {
            for clock in [Clock::Instructions, Clock::Time] {
                if clock == Clock::Instructions && (!args.instructions || round > 0) {
                    continue; // the same instructions every time
                }
                lab.say(&format!("round {}: {}, {clock:?}", round + 1, candidate.name));
                let (accelerator, qemu_arguments) = match clock {
                    Clock::Time => (accelerator, [].into()),
                    Clock::Instructions => {
                        let words = ["-icount", "shift=0,sleep=off"].map(OsString::from);
                        (Accelerator::Tcg, Vec::from(words))
                    }
                };
                let machine = Machine {
                    image: &candidate.image,
                    accelerator,
                    memory_bytes,
                    measured: clock == Clock::Time,
                    // With another, its instructions would pass time as well; and under TCG a child woken there
                    // costs the parent more than all of its fork.
                    cpus: 1,
                    kernel_arguments: &candidate.identity,
                    qemu_arguments: &qemu_arguments,
                };
                let name = &candidate.name;
                let (run, ended) =
                    guests::measure(&lab, machine, limit_s, name, &measurement, common.seed)?;
                ended.with_context(|| name.clone())?;
                add(&mut life.run, run, candidate, clock, round, accelerator);
            }
        }
    }
    life.end(Ok(()), report)?.show()
}

fn add(
    all: &mut Run,
    brought: Option<Run>,
    candidate: &Candidate,
    clock: Clock,
    round: u32,
    accelerator: Accelerator,
) {
    let Some(Run { info, samples }) = brought else { return };
    let first = all.info.environments.len() as u32;
    let environments = info.environments.into_iter();
    all.info.environments.extend(environments.map(|of| Environment { accelerator, ..of }));
    for mut sample in samples {
        sample.environment += first;
        fork_sections::KERNEL.put(&mut sample.params, &candidate.name);
        fork_sections::BOOT.put(&mut sample.params, round);
        if clock == Clock::Instructions {
            if let Some(stem) = sample.metric.strip_suffix("_ns") {
                sample.metric = format!("{stem}_instructions");
            } else if sample.unit != "ns" {
                // A count is the same under either clock.
            } else {
                continue;
            }
            sample.unit = "instructions".to_owned();
        }
        all.samples.push(sample);
    }
}

fn texts(values: Vec<Text>) -> Vec<String> {
    values.iter().map(Text::to_string).collect()
}

/// The kernels of the study, the unchanged one first.
fn candidates(lab: &Lab, images: &[String], asked: &[String]) -> Result<Vec<Candidate>> {
    if !images.is_empty() && !asked.is_empty() {
        let why = "--set image has kernels that are built already: leave --set change out";
        bail!(WrongUsage(why.to_owned()));
    }
    let mut all = Vec::new();
    for (index, text) in images.iter().enumerate() {
        let Some((name, image)) = text.split_once('=') else {
            bail!(WrongUsage(format!("--set image={text}: NAME=FILE")))
        };
        let name = if index == 0 { BASE } else { name };
        all.push(Candidate { name: name.to_owned(), image: image.into(), identity: Vec::new() });
    }
    if !all.is_empty() {
        return Ok(all);
    }
    let changes = changes(lab.kernel()?.path(), asked)?;
    for change in [None].into_iter().chain(changes.iter().map(Some)) {
        let built = lab.built_with(Variant::Traced, change.map(PathBuf::as_path))?;
        let name = change.map_or_else(|| BASE.to_owned(), |change| stem(change));
        all.push(Candidate { name, image: built.image(), identity: built.words() });
    }
    if is_asked(DEFER, asked) {
        let mut identity = all[0].identity.clone();
        identity.push("sysctl.vm.cow_defer=2".to_owned());
        all.push(Candidate { name: DEFER.to_owned(), image: all[0].image.clone(), identity });
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
    let mut known: Vec<String> = all.iter().map(|path| stem(path)).collect();
    known.push(DEFER.to_owned());
    for name in asked {
        if !known.iter().any(|known| known.starts_with(name.as_str())) {
            let known = known.join(", ");
            bail!(WrongUsage(format!("--set change={name}: no such change; there are: {known}")));
        }
    }
    all.retain(|path| is_asked(&stem(path), asked));
    Ok(all)
}

/// Whether a change is to be tried: by the beginning of its name, or as all are.
fn is_asked(change: &str, asked: &[String]) -> bool {
    asked.is_empty() || asked.iter().any(|name| change.starts_with(name.as_str()))
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn report(run: &Run) -> Result<Report> {
    let environment = &run.info.environments[0];
    let subtitle = format!("Linux {}, {:?}", environment.kernel, environment.accelerator);
    let mut document = Document::new("A study of fork, after Barkley and Schimmel 1988", subtitle);
    document.sections = sections(&run.samples);
    let summary = serde_json::to_value(&document)?;
    Report::new(document, summary)
}
