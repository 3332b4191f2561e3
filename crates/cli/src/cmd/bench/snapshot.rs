// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench snapshot`: document 003's microbenchmark.

use anyhow::Result;
use cowlab_bench::{Rounds, snapshot};
use cowlab_probes::{Forks, Snapshot};

use crate::args::{Common, SnapshotArgs};
use crate::context::Context;
use crate::measure::finish;
use crate::usage::WrongUsage;

/// Run the verb.
pub fn run(common: &Common, args: &SnapshotArgs) -> Result<()> {
    // Huge pages are what --set-mthp has to switch on, not the base page.
    let context = Context::new(common, args.page_size_bytes.iter().max().copied())?;
    let cells = cells(&context, args)?;
    for cell in &cells {
        cell.check().map_err(WrongUsage)?;
        // Two children may hold a version each of what was written meanwhile.
        context.check_fits(cell.own_bytes(), cell.size_bytes, 2, context.page())?;
    }
    let guard = context.policies(&args.policy)?;
    let interval_ns = args.interval_s.map(|seconds| ((seconds * 1e9) as u64).max(1));
    let (calibrated, page) = (interval_ns.is_none(), context.page());
    context.say_expected(snapshot::expected(
        &context.runner,
        &cells,
        calibrated,
        page,
        args.rounds,
    )?);
    let tasks = snapshot::tasks(&cells, interval_ns, page, guard);
    finish(&context, snapshot::BENCH, &tasks, Rounds::exactly(args.rounds))
}

fn cells(context: &Context, args: &SnapshotArgs) -> Result<Vec<Snapshot>> {
    let sizes = match args.size_bytes[..] {
        [] => vec![snapshot::default_size_bytes(&context.facts)],
        ref sizes => sizes.to_vec(),
    };
    let mut cells = Vec::new();
    for page_size_bytes in context.page_sizes(&args.page_size_bytes)? {
        for &size_bytes in &sizes {
            let blocks = size_bytes / args.block_bytes.max(1);
            for &zipf_alpha in &args.zipf_alpha {
                for &placement in &args.placement {
                    for &threads in &args.threads {
                        for &policy in &args.policy {
                            cells.push(Snapshot {
                                size_bytes,
                                writes: (blocks as f64 * args.turnovers) as u64,
                                block_bytes: args.block_bytes,
                                zipf_alpha,
                                placement,
                                forks: Forks::Never,
                                threads,
                                page_size_bytes,
                                pinned: !args.no_pin,
                                policy,
                                counting: context.facts.cow.counts
                                    && context.facts.cow.process_counts,
                                seed: context.common.seed,
                            });
                        }
                    }
                }
            }
        }
    }
    Ok(cells)
}
