// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests that run this program's own `bench`, and what they bring home.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use cowlab_bench::guest::Guests;
use cowlab_lab::{Built, Guest, Variant, Wanted, accelerator, boot};
use cowlab_store::{Accelerator, Missing, Run};

use super::Lab;
use super::messages::Messages;
use crate::args::{Common, GuestArgs};
use crate::progress::PROGRESS;

/// Where a guest's cowlab writes its run, in the guest's folder.
const RUNS: &str = "runs";

/// From one boot's seed to the next: more than there are rounds, each of which has one of its own.
const BETWEEN_SEEDS: u64 = 1_000_003;

/// What is measured in guests, and how they are booted.
pub struct Plan<'a> {
    /// The arguments of the guest's cowlab, `bench` among them.
    pub words: Vec<OsString>,
    /// The kernels that are booted in turn.
    pub variants: &'a [Variant],
    /// Boots of each.
    pub boots: u32,
    /// Who executes them.
    pub accelerator: Accelerator,
    /// The machine that they see.
    pub guest: &'a GuestArgs,
}

/// Everything that can be missing, before anything is measured: QEMU, and the kernels, which are
/// built here if the cache lacks them.
pub fn ready(lab: &Lab, wanted: Wanted, variants: &[Variant]) -> Result<Accelerator> {
    boot::check_tools()?;
    let (accelerator, why) = accelerator::decide(wanted, accelerator::try_kvm)?;
    lab.say(&format!("accelerator: {why}"));
    for variant in variants {
        lab.built(*variant)?;
    }
    Ok(accelerator)
}

impl Plan<'_> {
    /// Boot, measure, and bring home what was measured: before an error as well.
    pub fn measure(&self, lab: &Lab, common: &Common, guests: &mut Guests) -> Result<()> {
        let built: Vec<(Variant, Built)> =
            self.variants.iter().map(|v| Ok((*v, lab.built(*v)?))).collect::<Result<_>>()?;
        for boot in 0..self.boots {
            // There and back, so that a drift of the machine does not fall on one kernel.
            let mut order: Vec<_> = built.iter().collect();
            if boot % 2 == 1 {
                order.reverse();
            }
            for (variant, built) in order {
                if self.boots * self.variants.len() as u32 > 1 {
                    lab.say(&format!("booting {variant}, {} of {}", boot + 1, self.boots));
                }
                // Other random orders each time, the same for all kernels.
                let seed = common.seed.wrapping_add(u64::from(boot) * BETWEEN_SEEDS);
                let (run, ended) = self.boot(lab, seed, *variant, built)?;
                if let Some(run) = run {
                    guests.add(run, variant.name(), boot);
                }
                ended?;
            }
        }
        Ok(())
    }

    /// What a boot measured, if anything, and how it ended.
    fn boot(
        &self,
        lab: &Lab,
        seed: u64,
        variant: Variant,
        built: &Built,
    ) -> Result<(Option<Run>, Result<()>)> {
        let mut scratch = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(lab.cache.folder("boot")?)
            .context("cannot make a folder for the guest")?;
        let mut messages = Messages::new(lab.quiet);
        let status = self.execute(lab, seed, variant, built, scratch.path(), &mut messages);
        messages.finish();
        if let Err(error) = &status {
            // Its log is in there, and the message says so; a guest that never ran has none.
            let log = scratch.path().join("console.log").exists();
            scratch.disable_cleanup(log && !error.is::<cowlab_lab::Interrupted>());
        }
        let run = brought(&scratch.path().join(RUNS));
        let ended = match status {
            Ok(0) if matches!(run, Ok(None)) => Err(anyhow!("the guest wrote no run")),
            Ok(0) => Ok(()),
            Ok(status) => {
                Err(anyhow!("`cowlab bench` in the guest: {}", messages.last_line(status)))
            }
            Err(error) => Err(error),
        };
        // Why a guest ended says more than what it left half written.
        let run = if ended.is_ok() { run? } else { run.unwrap_or_default() };
        Ok((run, ended))
    }

    /// The status of a guest's `cowlab bench`, which writes into `folder`.
    fn execute(
        &self,
        lab: &Lab,
        seed: u64,
        variant: Variant,
        built: &Built,
        folder: &Path,
        messages: &mut Messages,
    ) -> Result<u8> {
        let (args, accelerator) = (self.guest, self.accelerator);
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command: Vec<OsString> = vec!["env".into(), format!("{PROGRESS}=1").into()];
        let mut words = self.words_for(variant).into_iter();
        command.push(program.into());
        // `bench`, whose flags these are.
        command.extend(words.next());
        command.extend(["--output".into(), folder.join(RUNS).into()]);
        command.extend(["--seed".into(), seed.to_string().into()]);
        command.extend(words);
        let mut ignored = std::io::sink();
        let guest = Guest {
            image: &built.image(),
            accelerator,
            memory_bytes: args.memory,
            measured: true,
            cpus: args.cpus.unwrap_or(if accelerator == Accelerator::Icount { 1 } else { 2 }),
            time_limit: Duration::from_secs_f64(args.time_limit_s),
            folder,
            command: Some(&command),
            input: None,
            output: &mut ignored,
            messages,
            kernel_arguments: &built.words(),
            qemu_arguments: &[],
        };
        let say = |text: &str| lab.say(text);
        let watch =
            cowlab_lab::Watch { say: &say, progress: &|_, _| {}, interrupted: &lab.interrupted };
        let ended = boot(guest, &watch)?;
        if let Some(first) = ended.complaints.first() {
            bail!(
                "the {variant} kernel complained in line {} of {}: {}",
                first.line,
                ended.console.display(),
                first.text
            );
        }
        Ok(ended.status)
    }

    /// The plain kernel has one policy, `off`, whatever the others are measured under. Those of `bench
    /// tend` are of another kind, and any kernel has them.
    fn words_for(&self, variant: Variant) -> Vec<OsString> {
        let mut words = self.words.clone();
        if variant != Variant::Plain || words.iter().any(|word| word == "tend") {
            return words;
        }
        let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
        for index in 0..own {
            if words[index] == "--policy" && index + 1 < own {
                words[index + 1] = "off".into();
            } else if words[index].as_bytes().starts_with(b"--policy=") {
                words[index] = "--policy=off".into();
            }
        }
        words
    }
}

/// What guests brought home becomes the run's: before an error as well.
pub fn bring(guests: Guests, ended: &Result<()>, run: &mut Run) {
    run.samples.extend(guests.samples);
    run.info.environments = guests.environments;
    run.info.missing.extend(guests.missing);
    run.info.missing.extend(ended.as_ref().err().map(ended_early));
}

/// What a run lacks whose guests did not all end well.
fn ended_early(error: &anyhow::Error) -> Missing {
    // What follows its first line is the guest's log.
    let why = format!("{error:#}");
    let first = why.lines().next().unwrap_or_default();
    Missing { metric: "boots".to_owned(), reason: format!("not all were made: {first}") }
}

/// The run that a guest wrote; of one that was ended, what it had measured when it last wrote that down.
fn brought(runs: &Path) -> Result<Option<Run>> {
    let Ok(entries) = fs::read_dir(runs) else { return Ok(None) };
    let mut folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let run = folders.find(|folder| folder.join("run.json").exists());
    run.map(|folder| Run::read(&folder).context("what the guest measured cannot be read"))
        .transpose()
}
