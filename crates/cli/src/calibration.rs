// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A calibration of this machine, kept as a run.

use anyhow::Result;
use cowlab_analysis::machine::profile_of;
use cowlab_bench::Rounds;
use cowlab_bench::calibrate::{derived, tasks};
use cowlab_bench::quiet::{Disturbance, Quiet, watched};
use cowlab_machine::Facts;
use cowlab_model::profile::MachineProfile;
use cowlab_report::{Block, Document, Section, machine_profile};
use cowlab_schema::calibrate;
use cowlab_store::Run;

use crate::context::Context;
use crate::profile_file::PROFILE_FILE;
use crate::run_life::{Kept, Report, RunLife};

/// What copying the entry of a huge page costs.
const THP_FORK: &str = calibrate::THP_FORK_AMONG_WORK_NS_PER_HUGE_PAGE.name;

/// Say what a calibration here cannot measure, and why.
pub fn note_missing(context: &Context, life: &mut RunLife) {
    if let Err(reason) = context.huge_page() {
        life.lacks(THP_FORK, reason.clone());
        life.lacks(calibrate::THP_SPLIT_NS.name, reason);
    }
    if !context.other_cpus() {
        life.lacks(calibrate::REMOTE_FLUSH_NS.name, "needs two CPUs: this process may use one");
    }
}

/// Whether other work runs here, which a calibration would slow and which would falsify it.
pub fn busy(facts: &Facts) -> Option<String> {
    let cpus = facts.cpu.allowed.len();
    let load = facts.load_average.filter(|load| *load >= cpus as f64 / 2.0)?;
    Some(format!("the load average is {load} on {cpus} CPUs"))
}

/// How quiet it was, and whether it was too loud.
fn words(quiet: &Quiet) -> (String, bool) {
    let Disturbance { others, stolen } = quiet.mean();
    let is_loud = quiet.disturbed * 10 > quiet.measurements;
    let advice = match is_loud {
        true => ": calibrate again at a quieter hour",
        false => "",
    };
    let text = format!(
        "beside it others used {:.0}% of a CPU and a hypervisor took {:.0}%; {} of {} measurements were \
         repeated, and {} were disturbed each time{advice}",
        others * 100.0,
        stolen * 100.0,
        quiet.repeated,
        quiet.measurements,
        quiet.disturbed
    );
    (text, is_loud)
}

/// Calibrate, and keep it as a run.
pub fn make(context: &Context, rounds: u32) -> Result<Kept> {
    let scope = context.scope()?;
    let mut life = RunLife::begin(&context.common, "calibrate", context.facts.environment())?;
    note_missing(context, &mut life);
    let (tasks, quiet) = watched(tasks(scope));
    let mut samples = context.measure(&tasks, Rounds::exactly(rounds))?;
    let (said, is_loud) = words(&quiet.borrow());
    context.say(&said);
    if is_loud {
        life.lacks("quiet machine", said);
    }
    samples.append(&mut context.cold_touch.borrow_mut());
    samples.extend(derived(&samples, scope));
    let profile = profile_of(&samples, scope.page_size_bytes, scope.huge_page_bytes)?;
    if scope.huge_page_bytes.is_some() && profile.huge_page_bytes.is_none() {
        life.lacks(
            THP_FORK,
            "free memory is too scattered for 64 huge pages side by side; look whether compaction \
             helps (echo 1 >/proc/sys/vm/compact_memory)",
        );
    }
    life.run.samples = samples;
    let kept = life.end(Ok(()), |run| {
        let report = Report::new(document(run, &profile), &profile)?;
        Ok(Report { profile: Some(profile), ..report })
    })?;
    let file = kept.path.join(PROFILE_FILE);
    context.say(&format!("the machine profile is {}", file.display()));
    Ok(kept)
}

fn document(run: &Run, profile: &MachineProfile) -> Document {
    let mut blocks = vec![Block::Table(machine_profile::table(profile))];
    for missing in &run.info.missing {
        blocks.push(Block::Note(format!("`{}` not available: {}", missing.metric, missing.reason)));
    }
    let mut document = Document::new("Machine profile", run.info.environments[0].host.clone());
    let title = "What fork and copy-on-write cost here";
    document.sections.push(Section::new("profile", title, blocks));
    document
}
