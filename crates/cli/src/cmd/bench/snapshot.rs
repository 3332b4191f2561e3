// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench snapshot`: CCoW's microbenchmark (2022).

use anyhow::Result;
use cowlab_bench::snapshot;
use cowlab_machine::{Facts, Root};
use cowlab_schema::snapshot::Snapshot;

use crate::args::{CellArgs, Common, base_page_bytes};
use crate::context::Context;
use crate::measure::finish;

pub fn run(common: &Common, args: &CellArgs<Snapshot, 3>) -> Result<()> {
    let mut cells = args.cells.product(Snapshot {
        size_bytes: snapshot::default_size_bytes(&Facts::probe(&Root::default())),
        page_size_bytes: base_page_bytes(),
        seed: common.seed,
        ..Snapshot::default()
    })?;
    let context = Context::of_pages(common, cells.iter().map(|cell| cell.page_size_bytes))?;
    for cell in &mut cells {
        cell.writes = cell.turnover_writes();
        cell.counting = context.facts.cow.counted(cell.policy);
        // Two children may hold a version each of what was written meanwhile.
        context.check_fits(cell.own_bytes(), cell.size_bytes, 2)?;
    }
    let guard = context.policies(cells.iter().map(|cell| cell.policy))?;
    // One value for all cells; none: found out.
    let interval_s = cells.first().map_or(0.0, |cell| cell.interval_s);
    let interval_ns = (interval_s > 0.0).then(|| ((interval_s * 1e9) as u64).max(1));
    let (calibrated, page, rounds) = (interval_ns.is_none(), context.page(), args.rounds.rounds);
    context.say_expected(snapshot::expected(&context.runner, &cells, calibrated, page, rounds)?);
    let tasks = snapshot::tasks(&cells, interval_ns, page, guard);
    finish(&context, snapshot::BENCH, &tasks, args.rounds.exactly())
}
