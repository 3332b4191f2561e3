// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kernel boot`: a command, or a shell, in a guest on this machine's files.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Result;
use cowlab_lab::{Ended, Guest, Interrupted, Machine, boot};
use serde::Serialize;

use crate::args::KernelBootArgs;
use crate::lab::{GUEST_BYTES, GUEST_CPUS, Lab};
use crate::output;
use crate::usage::{EndedWith, WrongUsage};

/// A command that takes longer has hung, unless somebody says otherwise.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);

/// For a shell: until somebody leaves it.
const SHELL_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Serialize)]
struct BootSummary<'a> {
    kernel: String,
    accelerator: cowlab_store::Accelerator,
    status: u8,
    first_output_s: Option<f64>,
    duration_s: f64,
    complaints: &'a [cowlab_lab::console::Complaint],
    output: String,
}

pub fn run(json: bool, args: &KernelBootArgs) -> Result<()> {
    let shell = args.command.is_empty();
    if shell && (json || !io::stdin().is_terminal()) {
        let why = "a shell needs a terminal: give a command after --";
        return Err(WrongUsage(why.to_owned()).into());
    }
    let lab = Lab::open(json)?.of(&args.source);
    boot::check_tools()?;
    let (image, mut kernel_arguments) = match &args.image {
        // Nobody knows what it was built from.
        Some(image) => (image.clone(), Vec::new()),
        None => {
            let built = lab.built(args.variant)?;
            (built.image(), built.words())
        }
    };
    let accelerator = lab.accelerator(args.guest.settings.accelerator, || Ok(image.clone()))?;
    let scratch = lab.cache.guest_folder("boot-")?;
    let limit = if shell { SHELL_LIMIT } else { COMMAND_LIMIT };
    let limit = args.guest.settings.time_limit_s.map_or(limit, Duration::from_secs_f64);
    let (mut collected, mut stdout) = (Vec::new(), io::stdout());
    let mut qemu_arguments = Vec::new();
    if let Some(folder) = &args.share {
        // Apart from what the guest itself needs: names in a user's folder are the user's.
        let (kernel_argument, of_qemu) = boot::share(folder)?;
        kernel_arguments.push(kernel_argument);
        qemu_arguments = of_qemu;
    }
    kernel_arguments.extend_from_slice(&args.kernel_argument);
    qemu_arguments.extend_from_slice(&args.qemu_argument);
    let guest = Guest {
        machine: Machine {
            image: &image,
            accelerator,
            memory_bytes: args.guest.settings.memory_bytes.unwrap_or(GUEST_BYTES),
            measured: args.measured,
            cpus: args.guest.settings.cpus.unwrap_or(GUEST_CPUS),
            kernel_arguments: &kernel_arguments,
            qemu_arguments: &qemu_arguments,
        },
        time_limit: limit,
        folder: scratch.path(),
        command: (!shell).then_some(&args.command),
        input: (!shell).then(|| Box::new(io::stdin()) as _),
        output: if json { &mut collected } else { &mut stdout },
        messages: &mut io::stderr(),
    };
    let ended = match lab.watched(|watch| boot(guest, watch)) {
        Ok(ended) => ended,
        Err(error) => {
            // Its log is in there, and the message says so; where nothing was booted, or somebody
            // ended it, there is nothing to be read.
            let log = scratch.path().join("console.log");
            let written = log.metadata().is_ok_and(|log| log.len() > 0);
            if written && !error.is::<Interrupted>() {
                let _ = scratch.keep();
            }
            return Err(error);
        }
    };
    for complaint in &ended.complaints {
        lab.say(&format!("the guest's log, line {}: {}", complaint.line, complaint.text));
    }
    if !ended.complaints.is_empty() {
        lab.say(&format!("the guest's log is {}", ended.console.display()));
        let _ = scratch.keep();
    }
    if json {
        let summary = BootSummary {
            kernel: image.display().to_string(),
            accelerator,
            status: ended.status,
            first_output_s: ended.first_output.map(|time| time.as_secs_f64()),
            duration_s: ended.duration.as_secs_f64(),
            complaints: &ended.complaints,
            output: String::from_utf8_lossy(&collected).into_owned(),
        };
        output::json_of(summary, &[], &[])?;
    }
    match ended {
        Ended { status: 0, .. } => Ok(()),
        Ended { status, .. } => Err(EndedWith(status).into()),
    }
}
