// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where and how a run was made.

use cowlab_store::{Accelerator, RunInfo};

use crate::fmt;

pub(crate) fn headline_facts(info: &RunInfo) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.push((name.to_owned(), value));
        }
    };
    let environment = info.environments.first();
    add("Host", environment.map(|e| e.host.clone()));
    add("CPU", environment.and_then(|e| e.cpu_model.clone()));
    add("Kernel", environment.map(|e| format!("Linux {}", e.kernel)));
    let started = info.started.to_string();
    // Parts of a second say nothing here.
    let seconds = started.split_once('.').map(|(seconds, _)| format!("{seconds}Z"));
    add("Started", Some(seconds.unwrap_or(started)));
    add("Took", info.duration_s.map(|s| fmt::quantity(s * 1e9, "ns")));
    add("Command", Some(command_line(info)).filter(|line| !line.is_empty()));
    facts
}

/// The command line, the program by its name alone: where it lay is nobody's business.
pub(crate) fn command_line(info: &RunInfo) -> String {
    let mut words = info.command.iter().map(String::as_str);
    let program = words.next().map(|path| path.rsplit('/').next().unwrap_or(path));
    program.into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// How an environment's instructions were executed.
pub(crate) fn executed(accelerator: Accelerator) -> &'static str {
    match accelerator {
        Accelerator::Native => "natively, on this kernel",
        Accelerator::Kvm => "in a guest under KVM",
        Accelerator::Tcg => "in an emulated guest (TCG): times are not hardware's",
        Accelerator::Icount => "in an emulated guest whose clock counts instructions (TCG, icount)",
    }
}
