// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `calibrate`: the machine profile, as a run and as a file that others can share.

use anyhow::Result;

use crate::args::CalibrateArgs;
use crate::calibration;
use crate::context::Context;

/// Run the verb.
pub fn run(json: bool, args: &CalibrateArgs) -> Result<()> {
    let context = Context::new(&args.run.common(json, false), None)?;
    calibration::make(&context, args.rounds)?.print()
}
