// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench observe`: what watching costs.

use anyhow::Result;
use cowlab_bench::{Rounds, observe};

use crate::args::{BenchObserveArgs, Common};
use crate::context::Context;
use crate::measure::finish_lacking;

/// Run the verb.
pub fn run(common: &Common, args: &BenchObserveArgs) -> Result<()> {
    let context = Context::new(common, None)?;
    let largest = args.heap_bytes.iter().copied().max().unwrap_or(0).max(args.size_bytes);
    context.check_fits(largest, args.size_bytes, 1, context.page())?;
    let settings = observe::ObserveSettings {
        watchers: args.watcher.clone(),
        size_bytes: args.size_bytes,
        heaps_bytes: args.heap_bytes.clone(),
        forks: args.forks,
        page_size_bytes: context.page(),
        tracing: context.facts.tracing.clone(),
    };
    let plan = observe::plan(&settings);
    for missing in &plan.missing {
        context.say(&format!("{}: {}", missing.metric, missing.reason));
    }
    let rounds = Rounds::exactly(args.rounds);
    finish_lacking(&context, observe::BENCH, &plan.tasks, rounds, plan.missing)
}
