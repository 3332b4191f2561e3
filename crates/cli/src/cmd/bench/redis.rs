// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench redis`: a real redis-server that takes snapshots under load.

use anyhow::Result;
use cowlab_bench::redis::server::{self, Placement};
use cowlab_bench::redis::{self, Redis};
use cowlab_machine::{Root, thp};
use cowlab_schema::redis::Store;

use crate::args::{Common, RedisArgs};
use crate::context::Context;
use crate::measure::{finish, redis_amount};

pub fn run(common: &Common, args: &RedisArgs) -> Result<()> {
    let program = server::program()?;
    let context = Context::new(common, None)?;
    let mut stores = args.cells.product(Store {
        size_bytes: redis::default_size_bytes(&context.facts),
        page_size_bytes: context.page(),
        seed: common.seed,
        ..Store::default()
    })?;
    for store in &mut stores {
        (store.records, store.updates) =
            redis_amount(&context, store.size_bytes, store.turnovers, store.pipeline)?;
        check_page_size(&context, store.page_size_bytes)?;
    }
    let guard = context.policies(stores.iter().map(|store| store.policy))?;
    let of = |store: Store| Redis {
        program: program.clone(),
        load_shares: args.load.clone(),
        set_mthp: common.set_mthp,
        // A server has a CPU to itself, unless the scheduler decides.
        placement: if store.pinned { Placement::of(&context.facts.cpu.allowed) } else { None },
        store,
    };
    let cells: Vec<Redis> = stores.into_iter().map(of).collect();
    context.say_expected(redis::expected(&context.runner, &cells, args.rounds.rounds)?);
    let tasks = redis::tasks(cells, context.page(), guard);
    finish(&context, redis::BENCH, &tasks, args.rounds.exactly())
}

/// With --set-mthp a size is switched on for its servers alone, so it only must exist.
fn check_page_size(context: &Context, size: u64) -> Result<()> {
    let exists = size == context.page() || thp::exists(&Root::default(), size);
    if context.common.set_mthp && exists { Ok(()) } else { context.check_page_size(size) }
}
