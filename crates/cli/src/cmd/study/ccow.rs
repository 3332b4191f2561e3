// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench ccow`: document 003 whole, in one run.

use anyhow::Result;
use cowlab_bench::ccow::{self, Plan};
use cowlab_bench::redis::server::{self, Placement};
use cowlab_bench::redis::{self, Redis};
use cowlab_bench::{Rounds, faults, snapshot};
use cowlab_machine::{Facts, Root};
use cowlab_probes::{Forks, Placement as Blocks, Snapshot};
use cowlab_schema::Policy;
use cowlab_store::Missing;

use crate::args::{CcowArgs, Common};
use crate::context::Context;
use crate::measure::{check_cow_faults, finish_lacking, redis_amount};
use crate::usage::WrongUsage;

/// The document's blocks.
const BLOCK_BYTES: u64 = 1024;

/// Run the verb.
pub fn run(common: &Common, args: &CcowArgs) -> Result<()> {
    // Before anything else: whoever lacks the server is told so at once.
    let program = server::program()?;
    let thp_bytes = Facts::probe(&Root::default()).thp.and_then(|thp| thp.pmd_size_bytes);
    let context = Context::new(common, thp_bytes)?;
    let page = context.page();
    let huge = context.huge_page();
    let huge_page = huge.as_ref().ok().copied();
    let one = Snapshot {
        size_bytes: args.size_bytes,
        writes: ((args.size_bytes / BLOCK_BYTES) as f64 * args.turnovers) as u64,
        block_bytes: BLOCK_BYTES,
        zipf_alpha: 0.0,
        placement: Blocks::Scattered,
        forks: Forks::Never,
        threads: 0,
        page_size_bytes: page,
        pinned: true,
        policy: Policy::Stock,
        counting: context.facts.cow.counts && context.facts.cow.process_counts,
        seed: common.seed,
    };
    let cells = ccow::snapshots(&one, &args.zipf_alpha, huge_page);
    for cell in &cells {
        cell.check().map_err(WrongUsage)?;
        context.check_fits(cell.own_bytes(), cell.size_bytes, 2, page)?;
    }
    context.size_flag.set("--redis-bytes");
    let (records, updates) = redis_amount(&context, args.redis_bytes, args.redis_turnovers, 1)?;
    let server = Redis {
        program,
        records,
        updates,
        clients: 4,
        pipeline: 1,
        zipf_alpha: 1.0,
        snapshots: args.snapshots,
        load_shares: args.load.clone(),
        page_size_bytes: page,
        set_mthp: false,
        policy: Policy::Stock,
        port: None,
        placement: Placement::of(&context.facts.cpu.allowed),
        seed: common.seed,
    };
    let counting = faults::counting(&context.facts);
    let plan = Plan {
        servers: ccow::servers(&server, huge_page),
        sweep: ccow::sweep(page, counting, common.seed),
        snapshots: cells,
    };
    check_cow_faults(&context, &plan.sweep)?;
    let guard = context.policies(&plan.policies())?;
    let missing = huge.err().map(|reason| Missing { metric: "CoW-THP".to_owned(), reason });
    let fewer = args.redis_rounds.min(args.rounds);
    let writes = snapshot::expected(&context.runner, &plan.snapshots, true, page, args.rounds)?;
    let updates = redis::expected(&context.runner, &plan.servers, fewer)?;
    context.say_expected(writes + updates);
    let rounds = Rounds::exactly(args.rounds);
    let tasks = plan.tasks(page, fewer, &guard);
    finish_lacking(&context, ccow::NAME, &tasks, rounds, missing.into_iter().collect())
}
