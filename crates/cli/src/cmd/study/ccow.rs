// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `study ccow`: document 003 whole, in one run.

use anyhow::Result;
use cowlab_bench::ccow::{self, CcowPlan, Compared};
use cowlab_bench::redis::server::{self, Placement};
use cowlab_bench::redis::{self, Redis};
use cowlab_bench::{Rounds, cow_faults, snapshot};
use cowlab_lab::{AcceleratorChoice, Variant};
use cowlab_machine::{Facts, Root};
use cowlab_schema::Policy;
use cowlab_schema::redis::Store;
use cowlab_schema::settings::ccow::{Ccow, LOAD, REGIONS_KIB, THRESHOLDS_PERCENT, ZIPF_ALPHA};
use cowlab_schema::snapshot::Snapshot;
use cowlab_store::Missing;

use super::{in_guest, in_guests};
use crate::args::{Cells, Common, StudyArgs};
use crate::context::Context;
use crate::measure::{check_cow_faults, finish_as, redis_amount};
use crate::usage::WrongUsage;

/// Rounds, if not said.
const ROUNDS: u32 = 10;

pub fn run(common: &Common, study: &StudyArgs) -> Result<()> {
    let set = Cells::<Ccow>::of_settings(&study.set)?;
    let args = set.single(Ccow::default())?;
    let all_rounds = study.rounds.unwrap_or(ROUNDS);
    // Before anything else: whoever lacks the server is told so at once.
    let program = server::program()?;
    let thp_bytes = Facts::probe(&Root::default()).thp.and_then(|thp| thp.pmd_size_bytes);
    let context = Context::new(common, thp_bytes)?;
    let page = context.page();
    let huge = context.huge_page();
    let compared = Compared {
        thresholds: set.list(&THRESHOLDS_PERCENT),
        regions: set.list(&REGIONS_KIB),
        huge_page: huge.as_ref().ok().copied(),
    };
    if let Some(kib) = compared.regions.iter().find(|kib| !kib.is_power_of_two()) {
        let what = format!("--set regions_kib: {kib} is no power of two");
        return Err(WrongUsage(what).into());
    }
    let one = Snapshot {
        size_bytes: args.size_bytes,
        turnovers: args.turnovers,
        page_size_bytes: page,
        counting: context.facts.cow.counted(Policy::Off),
        seed: common.seed,
        ..Snapshot::default()
    };
    let one = Snapshot { writes: one.turnover_writes(), ..one };
    let cells = ccow::snapshots(&one, &set.list(&ZIPF_ALPHA), &compared);
    for cell in &cells {
        cell.check().map_err(WrongUsage)?;
        context.check_fits(cell.own_bytes(), cell.size_bytes, 2)?;
    }
    context.size_flag.set("--set redis_bytes");
    let (records, updates) = redis_amount(&context, args.redis_bytes, args.redis_turnovers, 1)?;
    let store = Store {
        records,
        updates,
        snapshots: args.snapshots,
        page_size_bytes: page,
        seed: common.seed,
        ..Store::default()
    };
    let server = Redis {
        program,
        store,
        load_shares: set.list(&LOAD),
        set_mthp: false,
        placement: Placement::of(&context.facts.cpu.allowed),
    };
    let counting = cow_faults::counting(&context.facts, Policy::Off);
    let plan = CcowPlan {
        servers: ccow::servers(&server, &compared),
        sweep: ccow::sweep(page, counting, common.seed),
        snapshots: cells,
    };
    check_cow_faults(&context, &plan.sweep)?;
    if context.facts.cow.precopy.is_none() {
        if study.guest.settings.accelerator == AcceleratorChoice::Icount {
            let why = "study ccow is of stops and rates, and a clock that counts instructions has \
                       none: leave accelerator=icount out";
            return Err(WrongUsage(why.into()).into());
        }
        let measurement = in_guest(study, "ccow").with("rounds", all_rounds);
        let variants = [Variant::Patched];
        return in_guests(common, study, ccow::NAME, &[(measurement, &variants, 1, None)]);
    }
    let guard = context.policies(plan.policies())?;
    let missing = huge.err().map(|reason| Missing { metric: "CoW-THP".to_owned(), reason });
    let fewer = args.redis_rounds.min(all_rounds);
    let writes = snapshot::expected(&context.runner, &plan.snapshots, true, page, all_rounds)?;
    let updates = redis::expected(&context.runner, &plan.servers, fewer)?;
    context.say_expected(writes + updates);
    let rounds = Rounds::exactly(all_rounds);
    let tasks = plan.tasks(page, fewer, &guard);
    let missing = missing.into_iter().collect();
    finish_as("study-ccow", &context, ccow::NAME, &tasks, rounds, missing)
}
