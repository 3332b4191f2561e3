// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `calibrate`: the machine profile, as a run and as a file that others can share.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use cowlab_analysis::machine::{NAMES, profile_of};
use cowlab_bench::Rounds;
use cowlab_bench::calibrate::{derived, tasks};
use cowlab_model::profile::MachineProfile;
use cowlab_report::{Block, Cell, Column, Document, Section, Table};
use cowlab_store::{Missing, Run, RunFolder, RunInfo};

use crate::args::CalibrateArgs;
use crate::context::Context;
use crate::output;
use crate::profile_file::{PROFILE_FILE, ProfileFile};

/// What a calibration here cannot measure, and why.
pub fn missing(context: &Context) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut add = |metric: &str, reason: String| {
        missing.push(Missing { metric: metric.to_owned(), reason });
    };
    if let Err(reason) = context.huge_page() {
        add("thp_fork_among_work_ns_per_huge_page", reason.clone());
        add("thp_split_ns", reason);
    }
    if !context.other_cpus() {
        add("remote_flush_ns", "needs two CPUs: this process may use one".to_owned());
    }
    missing
}

/// The profile as a table.
pub fn table(profile: &MachineProfile) -> Table {
    let columns =
        vec![Column::text("what"), Column::number("median (95% interval)"), Column::text("name")];
    let mut table = Table::new("machine-profile", "The machine profile", columns);
    for (metric, _) in NAMES {
        if let Some(cost) = profile.costs.get(metric) {
            let e = cost.estimate;
            table.push(vec![
                Cell::text(&cost.name),
                Cell::estimate(e.value, e.low, e.high, &cost.unit),
                Cell::text(metric),
            ]);
        }
    }
    table
}

/// Run the verb.
pub fn run(json: bool, args: &CalibrateArgs) -> Result<()> {
    let common = &args.run.common(json, false);
    let context = Context::new(common, None)?;
    let (_, run, profile) = make(&context, args.rounds)?;
    if common.json {
        return output::json_of_run(&run, &profile);
    }
    let mut blocks = vec![Block::Table(table(&profile))];
    for missing in &run.info.missing {
        blocks.push(Block::Note(format!("`{}` not available: {}", missing.metric, missing.reason)));
    }
    let mut document = Document::new("Machine profile", context.facts.environment().host);
    document.sections.push(Section::new(
        "profile",
        "What fork and copy-on-write cost here",
        blocks,
    ));
    output::text(&document)
}

/// Calibrate, and keep it as a run: its folder, it, and its profile.
pub fn make(context: &Context, rounds: u32) -> Result<(PathBuf, Run, MachineProfile)> {
    let scope = context.scope()?;
    let environment = context.facts.environment();
    let mut info = RunInfo::begin("calibrate", context.common.seed, environment.clone());
    info.missing = missing(context);
    let folder = RunFolder::create(&context.common.output, &info)?;

    let began = Instant::now();
    let mut samples = context.measure(&tasks(scope), Rounds::exactly(rounds))?;
    samples.append(&mut context.cold_touch.borrow_mut());
    samples.extend(derived(&samples, scope));
    info.duration_s = Some(began.elapsed().as_secs_f64());
    let profile = profile_of(&samples, scope.page_size_bytes, scope.huge_page_bytes)?;
    if scope.huge_page_bytes.is_some() && profile.huge_page_bytes.is_none() {
        info.missing.push(Missing {
            metric: "thp_fork_among_work_ns_per_huge_page".to_owned(),
            reason: "free memory is too scattered for 64 huge pages side by side; look whether \
                     compaction helps (echo 1 >/proc/sys/vm/compact_memory)"
                .to_owned(),
        });
    }
    let run = Run { info, samples };

    folder.write(PROFILE_FILE, &ProfileFile::bytes(&environment, &profile)?)?;
    folder.write_run(&run)?;
    let written = folder.commit()?;
    context.say(&format!("the machine profile is {}", written.join(PROFILE_FILE).display()));
    Ok((written, run, profile))
}
