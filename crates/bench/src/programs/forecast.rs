// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `forecast`: footprint × machine profile for each program, beside what its forks cost it.

use anyhow::Result;
use cowlab_model::application::ApplicationProfile;
use cowlab_model::cost::{Predicted, predict};
use cowlab_model::profile::MachineProfile;
use cowlab_store::{Params, Sample};

use super::{Cost, Program};
use crate::task::Recorder;

/// The name of this benchmark in samples.
pub const FORECAST: &str = "forecast";

/// The samples of one program: `extra_ns`, `alone_ns`, `extra_faults` and `extra_bytes`, measured
/// once a cycle, and predicted with its interval.
///
/// # Errors
/// The machine profile has no figures for it.
pub fn forecast(
    profile: &MachineProfile,
    program: &Program,
    application: &ApplicationProfile,
    cost: &Cost,
    start_unix_ns: i64,
) -> Result<Vec<Sample>> {
    let base = profile.page_size_bytes;
    // The work is repeated: what it writes was written since the fork before.
    let application =
        ApplicationProfile { written_before: application.written, ..application.clone() };
    let answer = predict(profile, &application.question(base, base))?;
    let sum = |of: fn(&Predicted) -> f64| of(&answer.fork_ns) + of(&answer.write_ns);
    let params = |figure: &str| {
        Params::from([
            ("name".to_owned(), program.name.clone()),
            ("figure".to_owned(), figure.to_owned()),
        ])
    };
    let mut samples = Vec::new();
    for (figure, ns) in
        [("predicted", sum(|p| p.value)), ("low", sum(|p| p.low)), ("high", sum(|p| p.high))]
    {
        let mut out = Recorder::new(FORECAST, params(figure), 0, start_unix_ns);
        out.add("extra_ns", ns);
        if figure == "predicted" {
            out.add("extra_bytes", answer.extra_bytes as f64);
            out.add("extra_faults", application.written as f64);
        }
        samples.extend(out.finish());
    }
    for (metric, values) in [
        ("extra_ns", &cost.extra_ns),
        ("alone_ns", &cost.alone_ns),
        ("extra_faults", &cost.extra_faults),
        ("extra_bytes", &cost.extra_bytes),
    ] {
        for (rep, value) in values.iter().enumerate() {
            let mut out = Recorder::new(FORECAST, params("measured"), rep as u32, start_unix_ns);
            out.add(metric, *value);
            samples.extend(out.finish());
        }
    }
    Ok(samples)
}
