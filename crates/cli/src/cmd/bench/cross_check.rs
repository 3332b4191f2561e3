// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench cross-check`: are our times of fork and vfork the kernel's?

use anyhow::{Result, bail};
use cowlab_bench::cross_check;
use cowlab_schema::cross_check::CrossCheck;

use crate::args::{CellArgs, Common};
use crate::context::Context;
use crate::measure::finish;

/// Run the verb.
pub fn run(common: &Common, args: &CellArgs<CrossCheck>) -> Result<()> {
    let asked = args.cells.single(CrossCheck::default())?;
    let context = Context::new(common, None)?;
    let tracing = context.facts.tracing.as_ref().filter(|tracing| tracing.readable);
    let Some(tracing) = tracing else {
        bail!(
            "the kernel's trace events cannot be read: run as root, with tracefs mounted \
             (mount -t tracefs nodev /sys/kernel/tracing)"
        )
    };
    if tracing.clone_events.is_empty() {
        bail!("this kernel has no trace events of system calls (CONFIG_FTRACE_SYSCALLS)");
    }
    let mut tasks = cross_check::trace_tasks(&tracing.mount_point, &asked, context.page());
    if cross_check::has_stress_ng() {
        tasks.extend(cross_check::stress_ng_tasks());
    } else {
        context.say("stress-ng is not installed: its figures are left out");
    }
    finish(&context, cross_check::BENCH, &tasks, args.rounds.exactly())
}
