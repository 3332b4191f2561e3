// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests that run this program's own `bench`, and what they bring home.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use cowlab_bench::guest::Guests;
use cowlab_lab::{AcceleratorChoice, Built, Guest, Machine, Variant, boot};
use cowlab_store::{Accelerator, Missing, Run};

use super::messages::Messages;
use super::plan::Measurement;
use super::{GUEST_CPUS, Lab, own_program};
use crate::args::{Common, GuestSettings};

/// Where a guest's cowlab writes its run, in the guest's folder.
const RUNS: &str = "runs";

/// Memory of a guest that measures.
const MEASURED_BYTES: u64 = 2 << 30;

/// A guest that measures for longer has hung, unless somebody says otherwise.
const MEASURED_LIMIT_S: f64 = 7200.0;

/// From one boot's seed to the next: more than there are rounds, each of which has one of its own.
const BETWEEN_SEEDS: u64 = 1_000_003;

/// What is measured in guests, and how they are booted.
pub struct GuestRuns<'a> {
    pub measurement: Measurement,
    /// The kernels that are booted in turn.
    pub variants: &'a [Variant],
    pub boots: u32,
    pub accelerator: Accelerator,
    pub guest: &'a GuestSettings,
}

/// Everything that can be missing, before anything is measured: QEMU, and the kernels, which are
/// built here if the cache lacks them.
pub fn ready(lab: &Lab, wanted: AcceleratorChoice, variants: &[Variant]) -> Result<Accelerator> {
    boot::check_tools()?;
    let accelerator = lab.accelerator(wanted, || lab.image(variants))?;
    for variant in variants {
        lab.built(*variant)?;
    }
    Ok(accelerator)
}

impl GuestRuns<'_> {
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
        let machine = Machine {
            image: &built.image(),
            accelerator: self.accelerator,
            memory_bytes: self.guest.memory_bytes.unwrap_or(MEASURED_BYTES),
            measured: true,
            cpus: self.guest.cpus.unwrap_or(match self.accelerator {
                Accelerator::Icount => 1,
                _ => GUEST_CPUS,
            }),
            kernel_arguments: &built.words(),
            qemu_arguments: &[],
        };
        let measurement = match variant {
            variant if variant.has_policies() => self.measurement.clone(),
            _ => self.measurement.clone().without_policies(),
        };
        let limit_s = self.guest.time_limit_s;
        measure(lab, machine, limit_s, &variant.to_string(), &measurement, seed)
    }
}

/// What a boot of `machine` measured, if anything, and how it ended.
pub fn measure(
    lab: &Lab,
    machine: Machine<'_>,
    limit_s: Option<f64>,
    kernel: &str,
    measurement: &Measurement,
    seed: u64,
) -> Result<(Option<Run>, Result<()>)> {
    let mut scratch = lab.cache.guest_folder("bench-")?;
    let name = measurement.verb.join(" ");
    let mut command: Vec<OsString> = vec![own_program(scratch.path())?.into()];
    command.extend(measurement.words(&scratch.path().join(RUNS), seed));
    let mut messages = Messages::new(lab.quiet);
    let guest = Guest {
        machine,
        time_limit: Duration::from_secs_f64(limit_s.unwrap_or(MEASURED_LIMIT_S)),
        folder: scratch.path(),
        command: Some(&command),
        input: None,
        output: &mut std::io::sink(),
        messages: &mut messages,
    };
    let status =
        lab.watched(|watch| boot(guest, watch)).and_then(|ended| match ended.complaints.first() {
            Some(first) => bail!(
                "the {kernel} kernel complained in line {} of {}: {}",
                first.line,
                ended.console.display(),
                first.text
            ),
            None => Ok(ended.status),
        });
    if let Err(error) = &status {
        // Its log is in there, and the message says so; a guest that never ran has none.
        let log = scratch.path().join("console.log").exists();
        scratch.disable_cleanup(log && !error.is::<cowlab_lab::Interrupted>());
    }
    let run = brought(&scratch.path().join(RUNS));
    let ended = match status {
        Ok(0) if matches!(run, Ok(None)) => Err(anyhow!("the guest wrote no run")),
        Ok(0) => Ok(()),
        Ok(status) => Err(anyhow!("`cowlab {name}` in the guest: {}", messages.last_line(status))),
        Err(error) => Err(error),
    };
    // Why a guest ended says more than what it left half written.
    let run = if ended.is_ok() { run? } else { run.unwrap_or_default() };
    Ok((run, ended))
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
