// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench observe`: what watching costs.

use std::time::Instant;

use anyhow::Result;
use cowlab_analysis::figures::figures;
use cowlab_bench::{Rounds, observe};
use cowlab_report::figures::table as figure_table;
use cowlab_report::{Block, Document, Section, csv};
use cowlab_store::{Run, RunFolder, RunInfo};

use crate::args::{BenchObserveArgs, Common};
use crate::context::Context;
use crate::output;

/// Run the verb.
pub fn run(common: &Common, args: &BenchObserveArgs) -> Result<()> {
    let context = Context::new(common, None)?;
    let largest = args.heap_bytes.iter().copied().max().unwrap_or(0).max(args.size_bytes);
    context.check_fits(largest, args.size_bytes, 1, context.page())?;
    let settings = observe::Settings {
        watchers: args.watcher.clone(),
        size_bytes: args.size_bytes,
        heaps_bytes: args.heap_bytes.clone(),
        forks: args.forks,
        page_size_bytes: context.page(),
        tracing: context.facts.tracing.clone(),
    };
    let mut info = RunInfo::begin("bench-observe", common.seed, context.facts.environment());
    let folder = RunFolder::create(&common.output, &info)?;
    let began = Instant::now();
    let plan = observe::plan(&settings);
    for missing in &plan.missing {
        context.say(&format!("{}: {}", missing.metric, missing.reason));
    }
    let samples = context.measure(&plan.tasks, Rounds::exactly(args.rounds))?;
    info.missing = plan.missing;
    info.duration_s = Some(began.elapsed().as_secs_f64());
    let run = Run { info, samples };
    let summary = figures(&run.samples);
    let table = figure_table(observe::BENCH, observe::BENCH, &summary);
    folder.write_run(&run)?;
    folder.write("tables/observe.csv", csv::table_csv(&table).as_bytes())?;
    let written = folder.commit()?;
    context.say(&format!("the run is {}", written.display()));
    if common.json {
        return output::json_of_run(&run, &summary);
    }
    let mut blocks = vec![Block::Table(table)];
    for missing in &run.info.missing {
        let note = format!("not available: {}: {}", missing.metric, missing.reason);
        blocks.push(Block::Note(note));
    }
    let mut document = Document::new(observe::BENCH, run.info.environments[0].host.clone());
    document.sections.push(Section::new(observe::BENCH, "Figures", blocks));
    output::text(&document)
}
