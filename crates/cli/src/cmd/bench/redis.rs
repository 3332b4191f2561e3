// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench redis`: a real redis-server that takes snapshots under load.

use anyhow::Result;
use cowlab_bench::Rounds;
use cowlab_bench::redis::server::{self, Placement};
use cowlab_bench::redis::{self, Redis};
use cowlab_machine::{Root, thp};

use crate::args::{Common, RedisArgs};
use crate::context::Context;
use crate::measure::{finish, redis_amount};

/// Run the verb.
pub fn run(common: &Common, args: &RedisArgs) -> Result<()> {
    let program = server::program()?;
    let context = Context::new(common, None)?;
    let size_bytes = args.size_bytes.unwrap_or_else(|| redis::default_size_bytes(&context.facts));
    let (records, updates) = redis_amount(&context, size_bytes, args.turnovers, args.pipeline)?;
    let mut cells = Vec::new();
    for page_size_bytes in page_sizes(&context, &args.page_size_bytes)? {
        for &policy in &args.policy {
            cells.push(Redis {
                program: program.clone(),
                records,
                updates,
                clients: args.clients,
                pipeline: args.pipeline,
                zipf_alpha: args.zipf_alpha,
                snapshots: args.snapshots,
                load_shares: args.load.clone(),
                page_size_bytes,
                set_mthp: common.set_mthp,
                policy,
                port: args.port,
                placement: if args.no_pin {
                    None
                } else {
                    Placement::of(&context.facts.cpu.allowed)
                },
                seed: common.seed,
            });
        }
    }
    let guard = context.policies(&args.policy)?;
    context.say_expected(redis::expected(&context.runner, &cells, args.rounds)?);
    let tasks = redis::tasks(cells, context.page(), guard);
    finish(&context, redis::BENCH, &tasks, Rounds::exactly(args.rounds))
}

/// The page sizes asked for, or the base page. With --set-mthp each is switched on for its servers
/// alone, so it only must exist.
fn page_sizes(context: &Context, asked: &[u64]) -> Result<Vec<u64>> {
    if !context.common.set_mthp {
        return context.page_sizes(asked);
    }
    let sizes = if asked.is_empty() { vec![context.page()] } else { asked.to_vec() };
    for size in &sizes {
        if *size != context.page() && !thp::exists(&Root::default(), *size) {
            context.check_page_size(*size)?;
        }
    }
    Ok(sizes)
}
