// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One screen of a footprint: the answer, what the forks cost, what to do, and the largest rows.

use std::path::Path;

use anyhow::{Context as _, Result};
use cowlab_machine::Facts;
use cowlab_model::advice::Forecast;
use cowlab_report::fmt::time;
use cowlab_report::{Document, footprint};
use cowlab_schema::Command;
use cowlab_store::Run;

use crate::args::ProfileArgs;
use crate::cmd::predict::{Footprint, Wanted};
use crate::diagnosis::Costs;
use crate::output;
use crate::profile_file::Priced;

/// A fork that costs less, with its copies, is not worth a change; nor are forks that take less than this
/// share of the time.
const SHORT_NS: f64 = 1e6;
const SMALL_SHARE: f64 = 0.1;

/// The screen of a run that is kept at `path`; `whole` is its report.
pub fn of(run: &Run, path: &Path, whole: &Document, forks: u64, facts: &Facts) -> Result<Document> {
    let mut answer = footprint::answer(run).unwrap_or_else(|| whole.subtitle.clone());
    let mut rows = Vec::new();
    if forks > 0 {
        match priced(path, facts) {
            Ok((by, costs, now)) => {
                let (stop, writes) = (time(now.stop_ns.value), time(now.writes_ns.value));
                answer += &format!(
                    " The fork stops its parent for about {stop}, and the copies take {writes}."
                );
                rows.push(("prices", by));
                rows.push(("do now", to_do(&now, &costs, path, forks, run.info.duration_s)));
            }
            // The run is kept, and its figures stand without prices.
            Err(error) => rows.push(("prices", format!("not known: {}", output::message(&error)))),
        }
    }
    rows.push(("all", format!("every table of this run: {}", Command::Report.of(path.display()))));
    let mut document = Document::new(whole.title.clone(), format!("• {answer}"));
    document.facts = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    document.sections = vec![footprint::screen(run).context("nothing was seen")?];
    Ok(document)
}

/// By which profile, and what its forks cost.
fn priced(path: &Path, facts: &Facts) -> Result<(String, Costs, Forecast)> {
    let Priced { profile, by } = Priced::find(&ProfileArgs { profile: None })?;
    let costs = Footprint::read(path, &Wanted::default(), &profile, facts)?.costs;
    let now = *costs.now().context("it has no price")?;
    Ok((by, costs, now))
}

/// The one thing to do next.
fn to_do(
    now: &Forecast,
    costs: &Costs,
    path: &Path,
    forks: u64,
    duration_s: Option<f64>,
) -> String {
    let each_ns = now.stop_ns.value + now.writes_ns.value;
    let most_ns = duration_s.unwrap_or(0.0) * 1e9 * SMALL_SHARE;
    if each_ns < SHORT_NS && each_ns * forks as f64 <= most_ns {
        return "nothing: the stop is short, and the copies are cheap".to_owned();
    }
    let next = Command::PredictRun.of(path.display());
    match costs.remedy() {
        Some((one, then)) => format!(
            "{next}: {} would make that {} and {}",
            one.what,
            time(then.stop_ns.value),
            time(then.writes_ns.value)
        ),
        None => format!("nothing: no setting would save a tenth of that ({next})"),
    }
}
