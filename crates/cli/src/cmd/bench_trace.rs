// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench trace`: casper's events and calls beside those of other tracers, and beside the floor.

use std::time::Instant;

use anyhow::{Result, bail};
use cowlab_analysis::figures::figures;
use cowlab_bench::trace;
use cowlab_report::{Block, Document, Section};
use cowlab_store::{Run, RunFolder, RunInfo};

use crate::args::{BenchTraceArgs, Common};
use crate::context::Context;
use crate::output;
use crate::usage::WrongUsage;

/// Run the verb.
pub fn run(common: &Common, args: &BenchTraceArgs) -> Result<()> {
    if !args.buffer_bytes.is_power_of_two() || !(1 << 16..=1 << 30).contains(&args.buffer_bytes) {
        bail!(WrongUsage("--buffer-bytes must be a power of two from 64KiB to 1GiB".to_owned()));
    }
    let context = Context::new(common, None)?;
    let mut tools = args.tool.clone();
    tools.dedup();
    let settings = trace::Settings {
        tools,
        threads: args.threads.clone(),
        events: args.events,
        buffer_bytes: args.buffer_bytes,
        pinned: !args.no_pin,
    };
    let mut info = RunInfo::begin("bench-trace", common.seed, context.facts.environment());
    let folder = RunFolder::create(&common.output, &info)?;
    let began = Instant::now();
    let plan = trace::plan(&settings)?;
    for missing in &plan.missing {
        context.say(&format!("{}: {}", missing.metric, missing.reason));
    }
    let most = args.threads.iter().max().copied().unwrap_or(1);
    if most as usize > context.facts.cpu.allowed.len() {
        context.say(&format!("{most} threads share {} CPUs", context.facts.cpu.allowed.len()));
    }
    let samples = context.measure(&plan.tasks, args.rounds.exactly())?;
    info.missing = plan.missing;
    info.duration_s = Some(began.elapsed().as_secs_f64());
    let run = Run { info, samples };
    let table = cowlab_report::trace::table(&run.samples);
    folder.write_run(&run)?;
    folder.write("tables/trace.csv", cowlab_report::csv::table_csv(&table).as_bytes())?;
    let written = folder.commit()?;
    context.say(&format!("the run is {}", written.display()));
    if common.json {
        return output::json_of_run(&run, figures(&run.samples));
    }
    let mut blocks = vec![Block::Table(table)];
    for missing in &run.info.missing {
        let note = format!("not available: {}: {}", missing.metric, missing.reason);
        blocks.push(Block::Note(note));
    }
    let mut document = Document::new(trace::BENCH, run.info.environments[0].host.clone());
    document.sections.push(Section::new(trace::BENCH, "Figures", blocks));
    output::text(&document)
}
