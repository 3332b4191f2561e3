// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bench tend`: the whole balance of keeping a forking process in huge pages.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cowlab_bench::redis::load::RECORD_BYTES;
use cowlab_bench::redis::server::{self, Placement};
use cowlab_bench::tend::connections::{self, Connections};
use cowlab_bench::tend::prefork::{self, Prefork};
use cowlab_bench::tend::tender::Tending;
use cowlab_bench::tend::{self, Balance};
use cowlab_bench::{Rounds, Task};
use cowlab_machine::{Root, page_reporting};
use cowlab_store::Accelerator;

use crate::args::{BenchTendArgs, Common, Program};
use crate::calibration;
use crate::context::Context;
use crate::measure::finish;
use crate::profile_file::ProfileFile;
use crate::usage::WrongUsage;

/// Requests of a worker of the Python server.
const REQUESTS: u32 = 100;

/// Rounds of the calibration before: as many as `calibrate` makes.
const CALIBRATION_ROUNDS: u32 = 6;

/// Run the verb.
pub fn run(common: &Common, args: &BenchTendArgs) -> Result<()> {
    for policy in &args.policy {
        policy.usable(&Root::default(), common.set_mthp).map_err(WrongUsage)?;
    }
    let context = Context::new(common, None)?;
    let tending = Tending {
        program: std::env::current_exe().context("this program does not know where it is")?,
        profile: args.profile.clone(),
        budget_us: args.budget_us,
        cpu_share: args.cpu_share,
        pings: args.ping,
    };
    // What cannot be measured is refused before the calibration.
    tasks(&context, args, &tending)?;
    let _held = match args.no_page_reporting {
        true => Some(page_reporting::hold(&Root::default())?),
        false => None,
    };
    let tending = Tending { profile: profile(&context, args)?, ..tending };
    let (tasks, expected_s) = tasks(&context, args, &tending)?;
    context.say_expected(Duration::from_secs_f64(expected_s * f64::from(args.rounds)));
    finish(&context, tend::BENCH, &tasks, Rounds::exactly(args.rounds))
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
fn tasks(context: &Context, args: &BenchTendArgs, tending: &Tending) -> Result<(Vec<Task>, f64)> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut expected_s = 0.0;
    for program in &args.program {
        match program {
            Program::Redis => {
                let cells = redis(context, args, tending)?;
                expected_s += cells.iter().map(Balance::expected_s).sum::<f64>();
                tasks.extend(tend::tasks(cells));
            }
            Program::Prefork => {
                tasks.extend(prefork::tasks(python(context, args, tending)?));
            }
            Program::Postgres => tasks.extend(connections::tasks(postgres(args, tending)?)),
        }
    }
    Ok((tasks, expected_s))
}

fn redis(context: &Context, args: &BenchTendArgs, tending: &Tending) -> Result<Vec<Balance>> {
    let program = server::program()?;
    let mut cells = Vec::new();
    for &size_bytes in &args.size_bytes {
        let records = size_bytes / RECORD_BYTES;
        if records < 1000 {
            return Err(WrongUsage("--size-bytes must hold 1000 records at least".into()).into());
        }
        // Beside the records their snapshot, and its copies.
        context.check_fits(2 * size_bytes, size_bytes, 1, context.page())?;
        for &load_share in &args.load {
            for &policy in &args.policy {
                cells.push(Balance {
                    program: program.clone(),
                    records,
                    size_bytes,
                    clients: args.clients,
                    pipeline: args.pipeline,
                    zipf_alpha: args.zipf_alpha,
                    load_share,
                    snapshots: args.snapshots,
                    interval_s: args.snapshot_interval_s,
                    policy,
                    tending: tending.clone(),
                    placement: match args.no_pin {
                        true => None,
                        false => Placement::of(&context.facts.cpu.allowed),
                    },
                    seed: context.common.seed,
                });
            }
        }
    }
    Ok(cells)
}

/// The policies that only tend decides on: these programs do not ask for huge pages.
fn plain(args: &BenchTendArgs) -> impl Iterator<Item = tend::policy::Policy> {
    use tend::policy::Policy;
    let policies = args.policy.clone().into_iter();
    policies.filter(|policy| matches!(policy, Policy::Untended | Policy::Tended))
}

fn python(context: &Context, args: &BenchTendArgs, tending: &Tending) -> Result<Vec<Prefork>> {
    let mut cells = Vec::new();
    for &size_bytes in &args.size_bytes {
        context.check_fits(size_bytes, size_bytes, args.clients.into(), context.page())?;
        cells.extend(plain(args).map(|policy| Prefork {
            size_bytes,
            workers: args.clients,
            forks: args.snapshots,
            requests: REQUESTS,
            policy,
            tending: tending.clone(),
        }));
    }
    Ok(cells)
}

fn postgres(args: &BenchTendArgs, tending: &Tending) -> Result<Vec<Connections>> {
    let programs = connections::programs()?;
    let of = |policy| Connections {
        programs: programs.clone(),
        connections: args.clients * 10,
        turns: args.snapshots,
        policy,
        tending: tending.clone(),
    };
    Ok(plain(args).map(of).collect())
}
