// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of probes/cow_check.c.

use anyhow::Result;
use cowlab_schema::cow_check::CowCheck;

use crate::probes::program::Program;
use crate::probes::runner::{Outcome, Probe, Runner};

impl Probe for CowCheck {
    const PROGRAM: Program = Program::CowCheck;
    /// Pages checked; an error says who saw what where.
    type Result = u64;

    fn beside(&self, _: &Runner) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn read(outcome: Outcome) -> Result<u64> {
        outcome.rows.value("pages_checked")
    }
}
