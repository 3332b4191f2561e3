// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench observe`: what watching costs.

use anyhow::Result;
use cowlab_bench::observe;
use cowlab_schema::observe::Observed;

use crate::args::{CellArgs, Common};
use crate::context::Context;
use crate::measure::finish_lacking;

/// Run the verb.
pub fn run(common: &Common, args: &CellArgs<Observed, 10>) -> Result<()> {
    let cells = args.cells.product(Observed::default())?;
    let context = Context::new(common, None)?;
    for cell in &cells {
        let largest = cell.heap_bytes.max(cell.size_bytes);
        context.check_fits(largest, cell.size_bytes, 1, context.page())?;
    }
    let plan = observe::plan(&cells, context.page(), &context.facts.tracing);
    for missing in &plan.missing {
        context.say(&format!("{}: {}", missing.metric, missing.reason));
    }
    finish_lacking(&context, observe::BENCH, &plan.tasks, args.rounds.exactly(), plan.missing)
}
