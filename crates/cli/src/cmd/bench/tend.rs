// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench tend`: the whole balance of keeping a forking process in huge pages.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cowlab_bench::Task;
use cowlab_bench::redis::load::RECORD_BYTES;
use cowlab_bench::redis::server;
use cowlab_bench::tend::connections::{self, Connections};
use cowlab_bench::tend::prefork::{self, Prefork};
use cowlab_bench::tend::tender::Tending;
use cowlab_bench::tend::{self, Balance, policy};
use cowlab_machine::{Root, page_reporting};
use cowlab_schema::tend::{Policy, Program, Tended};
use cowlab_store::Accelerator;

use crate::args::{BenchTendArgs, Common};
use crate::calibration;
use crate::context::Context;
use crate::measure::{finish, redis_placement};
use crate::profile_file::ProfileFile;
use crate::usage::WrongUsage;

/// Requests of a worker of the Python server.
const REQUESTS: u32 = 100;

/// Rounds of the calibration before: as many as `calibrate` makes.
const CALIBRATION_ROUNDS: u32 = 6;

/// Run the verb.
pub fn run(common: &Common, args: &BenchTendArgs) -> Result<()> {
    let cells = args.cells.product(Tended { seed: common.seed, ..Tended::default() })?;
    let Some(first) = cells.first() else { return Ok(()) };
    for cell in &cells {
        policy::usable(cell.policy, &Root::default(), common.set_mthp).map_err(WrongUsage)?;
    }
    let context = Context::new(common, None)?;
    let tending = Tending {
        program: std::env::current_exe().context("this program does not know where it is")?,
        profile: args.profile.clone(),
        budget_us: Some(first.budget_us).filter(|budget_us| *budget_us > 0),
        cpu_share: first.cpu_share,
        pings: first.ping,
    };
    // What cannot be measured is refused before the calibration.
    tasks(&context, &cells, &tending)?;
    let _held = match first.page_reporting {
        true => None,
        false => Some(page_reporting::hold(&Root::default())?),
    };
    let tending = Tending { profile: profile(&context, args)?, ..tending };
    let (tasks, expected_s) = tasks(&context, &cells, &tending)?;
    context.say_expected(Duration::from_secs_f64(expected_s * f64::from(args.rounds.rounds)));
    finish(&context, tend::BENCH, &tasks, args.rounds.exactly())
}

/// Predictions are of the machine as it is in these minutes, or as the caller says.
fn profile(context: &Context, args: &BenchTendArgs) -> Result<Option<PathBuf>> {
    if let Some(path) = &args.profile {
        ProfileFile::read(path)?;
        return Ok(Some(path.clone()));
    }
    // A guest of ours brings one run home, and its times may not be a machine's.
    if context.facts.environment().accelerator != Accelerator::Native {
        context.say("a guest is not calibrated, so no stop is predicted: give --profile");
        return Ok(None);
    }
    context
        .say("the machine is calibrated first, which takes two minutes; --profile leaves that out");
    // Not of the same context: the memory that is kept warm for it would be no server's.
    let own = Context::new(&context.common, None)?;
    Ok(Some(calibration::make(&own, CALIBRATION_ROUNDS)?.path))
}

/// One task for each server, and about how long they take.
fn tasks(context: &Context, cells: &[Tended], tending: &Tending) -> Result<(Vec<Task>, f64)> {
    let of = |program| cells.iter().filter(move |cell| cell.program == program);
    // The other programs do not ask for huge pages: only tend decides on them.
    let plain = |program| {
        of(program).filter(|cell| matches!(cell.policy, Policy::Untended | Policy::Tended))
    };
    let redis = redis(context, of(Program::Redis), tending)?;
    let expected_s = redis.iter().map(Balance::expected_s).sum();
    let mut tasks = tend::tasks(redis);
    tasks.extend(prefork::tasks(python(context, plain(Program::Prefork), tending)?));
    tasks.extend(connections::tasks(postgres(plain(Program::Postgres), tending)?));
    Ok((tasks, expected_s))
}

fn redis<'a>(
    context: &Context,
    asked: impl Iterator<Item = &'a Tended>,
    tending: &Tending,
) -> Result<Vec<Balance>> {
    let mut cells = Vec::new();
    for asked in asked {
        let records = asked.size_bytes / RECORD_BYTES;
        if records < 1000 {
            return Err(WrongUsage("--size-bytes must hold 1000 records at least".into()).into());
        }
        // Beside the records their snapshot, and its copies.
        context.check_fits(2 * asked.size_bytes, asked.size_bytes, 1, context.page())?;
        cells.push(Balance {
            program: server::program()?,
            asked: asked.clone(),
            records,
            tending: tending.clone(),
            placement: redis_placement(context, asked.pinned),
        });
    }
    Ok(cells)
}

/// Each once: these programs know fewer parameters than redis.
fn distinct<T: PartialEq>(cells: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for cell in cells {
        if !found.contains(&cell) {
            found.push(cell);
        }
    }
    found
}

fn python<'a>(
    context: &Context,
    asked: impl Iterator<Item = &'a Tended>,
    tending: &Tending,
) -> Result<Vec<Prefork>> {
    let cells = distinct(asked.map(|asked| Prefork {
        size_bytes: asked.size_bytes,
        workers: asked.clients,
        forks: asked.snapshots,
        requests: REQUESTS,
        policy: asked.policy,
        tending: tending.clone(),
    }));
    for cell in &cells {
        let bytes = cell.size_bytes;
        context.check_fits(bytes, bytes, cell.workers.into(), context.page())?;
    }
    Ok(cells)
}

fn postgres<'a>(
    asked: impl Iterator<Item = &'a Tended>,
    tending: &Tending,
) -> Result<Vec<Connections>> {
    let asked: Vec<&Tended> = asked.collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let programs = connections::programs()?;
    Ok(distinct(asked.into_iter().map(|asked| Connections {
        programs: programs.clone(),
        connections: asked.clients * 10,
        turns: asked.snapshots,
        policy: asked.policy,
        tending: tending.clone(),
    })))
}
