// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `study --kernel` measures in guests: document 002 under its policies, and the instructions
//! that the patches cost while they are switched off.

use std::ffi::OsString;

use anyhow::{Context as _, Result};
use cowlab_bench::guest::Guests;
use cowlab_lab::Variant;
use cowlab_store::Accelerator;

use crate::args::PreCopyArgs;
use crate::args::{Common, GuestArgs};
use crate::context::Context;
use crate::lab::Lab;
use crate::lab::guests::{self, Plan};
use crate::measure::{check_cow_faults, finish};
use cowlab_bench::{Rounds, faults, precopy};
use cowlab_schema::Policy;

/// The kernels that are counted against each other.
const COUNTED: [Variant; 2] = [Variant::Plain, Variant::Patched];

/// Boots of each of them.
const COUNTED_BOOTS: u32 = 3;

/// Guests that are ready to be measured in.
pub struct KernelStudy<'a> {
    lab: Lab,
    common: &'a Common,
    guest: &'a GuestArgs,
    accelerator: Accelerator,
}

impl<'a> KernelStudy<'a> {
    /// Build what is missing. Whatever cannot be had is an error now, not after the study.
    pub fn prepare(common: &'a Common, guest: &'a GuestArgs) -> Result<KernelStudy<'a>> {
        let lab = Lab::open(common.json, &guest.place)?;
        let accelerator = guests::ready(&lab, guest.accelerator.wanted(), &COUNTED)
            .context("--kernel needs a guest with the patched kernel")?;
        Ok(KernelStudy { lab, common, guest, accelerator })
    }

    /// Measure; `rounds` of the policies.
    pub fn measure(&self, rounds: u32, guests: &mut Guests) -> Result<()> {
        let policies = format!("bench pre-copy --rounds {rounds}");
        self.plan(&policies, &COUNTED[1..], 1, self.accelerator).measure(
            &self.lab,
            self.common,
            guests,
        )?;
        let faults = "bench cow-faults --policy off --size-bytes 16MiB --rounds 1";
        let forks = "bench fork-sweep --heap-bytes 4096,10MB,100MB --write-fraction 0 --forks 20 \
                     --rounds 1";
        for words in [faults, forks] {
            self.plan(words, &COUNTED, COUNTED_BOOTS, Accelerator::Icount).measure(
                &self.lab,
                self.common,
                guests,
            )?;
        }
        Ok(())
    }

    fn plan(
        &self,
        words: &str,
        variants: &'a [Variant],
        boots: u32,
        accelerator: Accelerator,
    ) -> Plan<'a> {
        let words = words.split_whitespace().map(OsString::from).collect();
        Plan { words, variants, boots, accelerator, guest: self.guest }
    }
}

/// Its workloads under its policy and deeper ones, on this kernel.
pub fn measure(common: &Common, args: &PreCopyArgs) -> Result<()> {
    let context = Context::new(common, None)?;
    let counting = faults::counting(&context.facts);
    let cells =
        precopy::plan(context.page(), &args.depths, context.other_cpus(), counting, common.seed);
    check_cow_faults(&context, &cells)?;
    let policies: Vec<Policy> = cells.iter().map(|cell| cell.policy).collect();
    let guard = context.policies(&policies)?;
    finish(&context, precopy::NAME, &faults::tasks(cells, guard), Rounds::exactly(args.rounds))
}
