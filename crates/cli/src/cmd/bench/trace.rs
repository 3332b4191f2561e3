// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench trace`: casper's events and calls beside those of other tracers, and beside the floor.

use anyhow::Result;
use cowlab_bench::trace;
use cowlab_schema::trace::Traced;

use crate::args::{CellArgs, Common};
use crate::context::Context;
use crate::measure::finish_lacking;

/// Run the verb.
pub fn run(common: &Common, args: &CellArgs<Traced>) -> Result<()> {
    let cells = args.cells.product(Traced::default())?;
    let context = Context::new(common, None)?;
    let plan = trace::plan(&cells)?;
    for missing in &plan.missing {
        context.say(&format!("{}: {}", missing.metric, missing.reason));
    }
    let most = cells.iter().map(|cell| cell.threads).max().unwrap_or(1);
    if most as usize > context.facts.cpu.allowed.len() {
        context.say(&format!("{most} threads share {} CPUs", context.facts.cpu.allowed.len()));
    }
    finish_lacking(&context, trace::BENCH, &plan.tasks, args.rounds.exactly(), plan.missing)
}
