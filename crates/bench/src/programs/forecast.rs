// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `forecast`: footprint × machine profile for each program, beside what its forks cost it.

use std::rc::Rc;

use anyhow::{Result, bail};
use cowlab_model::application::ApplicationProfile;
use cowlab_model::cost::predict;
use cowlab_model::profile::MachineProfile;
use cowlab_probes::{Interrupted, unix_ns};
use cowlab_schema::{Figure, forecast};
use cowlab_store::{Missing, Params, Sample};

use super::measure::{CYCLE, measure};
use super::{Program, Programs};
use crate::task::{Round, Task};

/// The name of this benchmark in samples.
pub const FORECAST: &str = forecast::BENCH.name;

fn params(program: &Program, figure: Figure) -> Params {
    let mut params = Params::new();
    forecast::NAME.put(&mut params, &program.name);
    forecast::FIGURE.put(&mut params, figure);
    params
}

/// Measures what the program's forks cost it, a part of `pairs` in each of `rounds`: `extra_ns`,
/// of that `fork_ns` and `write_ns`, `alone_ns`, `extra_faults` and `extra_bytes`, once a cycle. What fails is told to `failed`, and
/// the other tasks go on.
pub fn task(
    programs: &Rc<Programs>,
    program: &Program,
    pairs: u32,
    rounds: u32,
    failed: impl Fn(&str, anyhow::Error) + 'static,
) -> Task {
    let (programs, program) = (Rc::clone(programs), program.clone());
    let pairs = pairs.div_ceil(rounds).next_multiple_of(CYCLE);
    Task::new(format!("forecast: {}", program.name), move |runner, round| {
        let mut out = round.record(FORECAST, params(&program, Figure::Measured), unix_ns());
        match measure(&programs, &program, pairs) {
            Ok(cost) => {
                for (metric, values) in [
                    (forecast::EXTRA_NS, &cost.extra_ns),
                    (forecast::FORK_NS, &cost.fork_ns),
                    (forecast::WRITE_NS, &cost.write_ns),
                    (forecast::ALONE_NS, &cost.alone_ns),
                    (forecast::EXTRA_FAULTS, &cost.extra_faults),
                    (forecast::EXTRA_BYTES, &cost.extra_bytes),
                ] {
                    for value in values {
                        out.add(metric, *value);
                    }
                }
            }
            Err(_) if runner.is_interrupted() => bail!(Interrupted),
            Err(error) => failed(&program.name, error),
        }
        Ok(())
    })
}

/// What the model says of the program, with its interval, and what that lacks. Fails if the machine
/// profile has no figures for it.
pub fn predicted(
    profile: &MachineProfile,
    program: &Program,
    application: &ApplicationProfile,
) -> Result<(Vec<Sample>, Vec<Missing>)> {
    let base = profile.page_size_bytes;
    // The work is repeated: what it writes was written since the fork before.
    let application =
        ApplicationProfile { written_before: application.written, ..application.clone() };
    let answer = predict(profile, &application.question(base, base))?;
    let mut round = Round::new(0);
    let (fork, write) = (&answer.fork_ns, &answer.write_ns);
    for (figure, fork_ns, write_ns) in [
        (Figure::Predicted, fork.value, write.value),
        (Figure::Low, fork.low, write.low),
        (Figure::High, fork.high, write.high),
    ] {
        let mut out = round.record(FORECAST, params(program, figure), unix_ns());
        out.add(forecast::EXTRA_NS, fork_ns + write_ns);
        out.add(forecast::FORK_NS, fork_ns);
        out.add(forecast::WRITE_NS, write_ns);
        if figure == Figure::Predicted {
            out.add(forecast::EXTRA_BYTES, answer.extra_bytes);
            out.add(forecast::EXTRA_FAULTS, application.written);
        }
    }
    let metric = format!("{FORECAST}: of {}", program.name);
    let missing = answer.notes.into_iter().map(|reason| Missing { metric: metric.clone(), reason });
    Ok((round.finish(), missing.collect()))
}
