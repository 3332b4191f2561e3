// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `calibrate`: the machine profile, as a run and as a file that others can share.

use anyhow::Result;

use crate::args::CalibrateArgs;
use crate::calibration;
use crate::context::Context;
use crate::output;

/// What a round takes on two CPUs of 2 GHz: time, and CPU time of all CPUs.
const ROUND_S: (f64, f64) = (20.0, 15.5);

pub fn run(json: bool, args: &CalibrateArgs) -> Result<()> {
    let context = Context::new(&args.run.common(json, false), None)?;
    announce(&context, args.rounds);
    calibration::make(&context, args.rounds)?.print()
}

/// Says before it starts what it takes, and whether other work runs that it would slow.
fn announce(context: &Context, rounds: u32) {
    let of_all = |round_s: f64| round_s * f64::from(rounds);
    output::say(&format!(
        "{rounds} rounds: about {:.1} minutes and {:.0} s of CPU time on all CPUs; whatever else runs \
         here is slowed",
        of_all(ROUND_S.0) / 60.0,
        of_all(ROUND_S.1)
    ));
    if let Some(busy) = calibration::busy(&context.facts) {
        output::say(&format!(
            "{busy}: that work is slowed and falsifies the figures; calibrate when it is over, or take \
             less with --rounds 2"
        ));
    }
}
