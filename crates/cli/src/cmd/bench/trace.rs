// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench trace`: casper's events and calls beside those of other tracers, and beside the floor.

use anyhow::{Result, bail};
use cowlab_bench::trace;

use crate::args::{BenchTraceArgs, Common};
use crate::context::Context;
use crate::measure::finish_lacking;
use crate::usage::WrongUsage;

/// Run the verb.
pub fn run(common: &Common, args: &BenchTraceArgs) -> Result<()> {
    if !args.buffer_bytes.is_power_of_two() || !(1 << 16..=1 << 30).contains(&args.buffer_bytes) {
        bail!(WrongUsage("--buffer-bytes must be a power of two from 64KiB to 1GiB".to_owned()));
    }
    let context = Context::new(common, None)?;
    let mut tools = args.tool.clone();
    tools.dedup();
    let settings = trace::TraceSettings {
        tools,
        threads: args.threads.clone(),
        events: args.events,
        buffer_bytes: args.buffer_bytes,
        pinned: !args.no_pin,
    };
    let plan = trace::plan(&settings)?;
    for missing in &plan.missing {
        context.say(&format!("{}: {}", missing.metric, missing.reason));
    }
    let most = args.threads.iter().max().copied().unwrap_or(1);
    if most as usize > context.facts.cpu.allowed.len() {
        context.say(&format!("{most} threads share {} CPUs", context.facts.cpu.allowed.len()));
    }
    finish_lacking(&context, trace::BENCH, &plan.tasks, args.rounds.exactly(), plan.missing)
}
