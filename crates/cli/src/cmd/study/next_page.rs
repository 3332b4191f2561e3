// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `study next-page`: document 002 under its policy and deeper ones; in guests also the instructions
//! that the patches cost while they are switched off.

use anyhow::Result;
use cowlab_bench::{Rounds, cow_faults, next_page};
use cowlab_lab::Variant;
use cowlab_schema::Policy;
use cowlab_schema::settings::next_page::{DEPTHS, NextPage};
use cowlab_store::Accelerator;

use super::{in_guest, in_guests};
use crate::args::{Cells, Common, StudyArgs};
use crate::context::Context;
use crate::lab::plan::Measurement;
use crate::measure::{check_cow_faults, finish_as};

/// The kernels that are counted against each other.
const COUNTED: [Variant; 2] = [Variant::Plain, Variant::Patched];

const COUNTED_BOOTS: u32 = 3;

/// Rounds, if not said.
const ROUNDS: u32 = 5;

/// Run the verb: on this kernel if it has the policy, else in guests.
pub fn run(common: &Common, args: &StudyArgs) -> Result<()> {
    let depths = Cells::<NextPage>::of_settings(&args.set)?.list(&DEPTHS);
    let rounds = args.rounds.unwrap_or(ROUNDS);
    let context = Context::new(common, None)?;
    if context.facts.cow.precopy.is_none() {
        let policies = in_guest(args, "next-page");
        let faults = Measurement::new("bench", "cow-faults")
            .with("policy", "off")
            .with("size-bytes", "16MiB")
            .with("rounds", 1);
        let forks = Measurement::new("bench", "fork-sweep")
            .with("heap-bytes", "4096,10MB,100MB")
            .with("write-fraction", 0)
            .with("forks", 20)
            .with("rounds", 1);
        let counted =
            |measurement| (measurement, &COUNTED[..], COUNTED_BOOTS, Some(Accelerator::Icount));
        let policies = (policies.with("rounds", rounds), &COUNTED[1..], 1, None);
        return in_guests(
            common,
            args,
            next_page::NAME,
            &[policies, counted(faults), counted(forks)],
        );
    }
    let counting = cow_faults::counting(&context.facts, Policy::Off);
    let (page, other_cpus) = (context.page(), context.other_cpus());
    let cells = next_page::plan(page, &depths, other_cpus, counting, common.seed);
    check_cow_faults(&context, &cells)?;
    let guard = context.policies(cells.iter().map(|cell| cell.policy))?;
    let tasks = cow_faults::tasks(cells, guard);
    finish_as(
        "study-next-page",
        &context,
        next_page::NAME,
        &tasks,
        Rounds::exactly(rounds),
        Vec::new(),
    )
}
