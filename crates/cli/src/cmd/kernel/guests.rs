// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests that run this program's own `bench`, and what they bring home.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cowlab_bench::guest::Guests;
use cowlab_lab::{Built, Guest, Variant, Wanted, accelerator, boot};
use cowlab_store::{Accelerator, Run};

use super::Lab;
use super::messages::Messages;
use crate::args::{Common, GuestArgs};

/// Variable that asks a guest's cowlab for lines of progress.
pub const PROGRESS: &str = "COWLAB_PROGRESS";

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
    /// Boot, measure, and bring home what was measured.
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
                let run = self.boot(lab, common, *variant, built)?;
                guests.add(run, variant.name(), boot);
            }
        }
        Ok(())
    }

    fn boot(&self, lab: &Lab, common: &Common, variant: Variant, built: &Built) -> Result<Run> {
        let (args, accelerator) = (self.guest, self.accelerator);
        let scratch = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(lab.cache.folder("boot")?)
            .context("cannot make a folder for the guest")?;
        let runs = scratch.path().join("runs");
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command: Vec<OsString> = vec!["env".into(), format!("{PROGRESS}=1").into()];
        command.extend([program.into(), "--output".into(), runs.clone().into()]);
        command.extend(["--seed".into(), common.seed.to_string().into()]);
        command.extend(self.words_for(variant));
        let mut messages = Messages::new(lab.quiet);
        let mut ignored = std::io::sink();
        let guest = Guest {
            image: &built.image(),
            accelerator,
            memory_bytes: args.memory,
            measured: true,
            cpus: args.cpus.unwrap_or(if accelerator == Accelerator::Icount { 1 } else { 2 }),
            time_limit: Duration::from_secs_f64(args.time_limit_s),
            folder: scratch.path(),
            command: Some(&command),
            input: None,
            output: &mut ignored,
            messages: &mut messages,
            kernel_arguments: &built.identity(),
            qemu_arguments: &[],
        };
        let say = |text: &str| lab.say(text);
        let watch =
            cowlab_lab::Watch { say: &say, progress: &|_, _| {}, interrupted: &lab.interrupted };
        let ended = boot(guest, &watch);
        messages.finish();
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) if error.is::<cowlab_lab::Interrupted>() => return Err(error),
            Err(error) => {
                // Its log is in there, and the message says so; a guest that never ran has none.
                if scratch.path().join("console.log").exists() {
                    let _kept = scratch.keep();
                }
                return Err(error);
            }
        };
        if let Some(first) = ended.complaints.first() {
            let kept = scratch.keep();
            bail!(
                "the {variant} kernel complained in line {} of {}: {}",
                first.line,
                kept.join("console.log").display(),
                first.text
            );
        }
        if ended.status != 0 {
            bail!("`cowlab bench` in the guest: {}", messages.last_line(ended.status));
        }
        let entries = fs::read_dir(&runs).context("the guest wrote no run")?;
        let mut folders: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        match (folders.pop(), folders.len()) {
            (Some(only), 0) => read(&only),
            (_, more) => bail!("the guest wrote {more} runs, not one"),
        }
    }

    /// The plain kernel has one policy, `off`, whatever the others are measured under.
    fn words_for(&self, variant: Variant) -> Vec<OsString> {
        let mut words = self.words.clone();
        if variant != Variant::Plain {
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

fn read(folder: &Path) -> Result<Run> {
    Run::read(folder).context("what the guest measured cannot be read")
}
