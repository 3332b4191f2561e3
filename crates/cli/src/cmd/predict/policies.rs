// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `predict policies`: what policies would change, beside what they did.

use anyhow::{Result, anyhow, bail};
use cowlab_analysis::predicted::{Foretold, foretell};
use cowlab_model::stats::median;
use cowlab_report::{Block, Cell, Document, Rows, Section, Table, emulated};
use cowlab_schema::{Command, Key, Policy, VARIANT, Value, predict, snapshot};
use cowlab_store::{Run, Sample};
use serde::Serialize;

use crate::args::PredictPoliciesArgs;
use crate::output;
use crate::usage::WrongUsage;

#[derive(Serialize)]
struct PoliciesSummary {
    /// Predictions that were measured as well.
    checked: usize,
    /// Median difference between predicted and measured gain, in percentage points.
    #[serde(skip_serializing_if = "Option::is_none")]
    median_error_points: Option<f64>,
    /// How what the predictions rest on was emulated; absent where hardware has measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    emulated: Option<String>,
}

/// Run the verb.
pub fn run(json: bool, args: &PredictPoliciesArgs) -> Result<()> {
    if args.policy.contains(&Policy::Defer) {
        bail!(WrongUsage(format!(
            "--policy defer copies nothing ahead of the writes: `{}` says what it does to a fork",
            Command::Predict
        )));
    }
    let snapshot = &args.snapshot;
    let sweep = args.sweep.as_ref().unwrap_or(snapshot);
    let store = Run::read(snapshot)?;
    let costs = Run::read(sweep)?;
    let foretold = foretell(&store.samples, &costs.samples, &args.policy)
        .map_err(|reason| anyhow!("{} with {}: {reason}", snapshot.display(), sweep.display()))?;
    let errors: Vec<f64> = foretold.iter().filter_map(error_points).map(f64::abs).collect();
    // A prediction is no better than either of the runs.
    let environments =
        [store.info.environments.as_slice(), costs.info.environments.as_slice()].concat();
    let label = emulated::label_of(&environments);
    let summary = PoliciesSummary {
        checked: errors.len(),
        median_error_points: median(&errors),
        emulated: (!label.is_empty()).then(|| label.trim_end_matches(": ").to_owned()),
    };
    if json {
        return output::json_of(summary, &samples(&foretold), &[]);
    }
    let own = store.info.environments.iter();
    let places: Vec<String> = own.map(|e| format!("{}, Linux {}", e.host, e.kernel)).collect();
    let mut document = Document::new("Prediction of policies", places.join("; "));
    let mut blocks = vec![Block::Table(table(&foretold))];
    blocks.extend(summary.median_error_points.map(|points| {
        Block::Note(format!(
            "{} predictions were measured as well: median error {points:.1} percentage points",
            summary.checked
        ))
    }));
    document.sections.push(Section::new("policies", "What copying ahead would change", blocks));
    emulated::label_document(&mut document, label);
    output::text(&document)
}

fn error_points(one: &Foretold) -> Option<f64> {
    Some(one.gain_percent - one.measured_gain_percent?)
}

fn table(all: &[Foretold]) -> Table {
    fn param<T: Value>(one: &Foretold, key: Key<T>) -> &str {
        one.workload.get(key.name()).map_or("", String::as_str)
    }
    let percent = |value: Option<f64>| {
        Cell::text(value.map_or_else(String::new, |value| format!("{value:+.1}%")))
    };
    let mut rows = Rows::of("policies", "Throughput against plain copy-on-write", all);
    if all.iter().any(|one| one.workload.contains_key(VARIANT.name())) {
        rows = rows.text("kernel", |one| param(one, VARIANT));
    }
    rows.text("α", |one| param(one, snapshot::ZIPF_ALPHA))
        .figure("memory", |one| {
            let bytes = snapshot::SIZE_BYTES.of(&one.workload).unwrap_or(0);
            Cell::number(bytes as f64, "bytes")
        })
        .text("policy", |one| one.policy.to_string())
        .figure("gain, predicted", |one| percent(Some(one.gain_percent)))
        .figure("gain, measured", |one| percent(one.measured_gain_percent))
        .figure("error", |one| percent(error_points(one)))
        .count("faults", |one| one.course.faults)
        .count("copied ahead", |one| one.course.ahead_pages)
        .count("never written", |one| one.course.wasted_pages)
        .table()
}

fn samples(all: &[Foretold]) -> Vec<Sample> {
    let of = |one: &Foretold| {
        let mut params = one.workload.clone();
        predict::POLICY.put(&mut params, one.policy);
        let figures = [
            (predict::GAIN_PERCENT, Some(one.gain_percent)),
            (predict::MEASURED_GAIN_PERCENT, one.measured_gain_percent),
            (predict::ELAPSED_NS, Some(one.course.elapsed_ns)),
            (predict::COW_FAULTS, Some(one.course.faults as f64)),
            (predict::PRECOPY_PAGES, Some(one.course.ahead_pages as f64)),
            (predict::PRECOPY_WASTED_PAGES, Some(one.course.wasted_pages as f64)),
        ];
        let environment = one.environment;
        figures.into_iter().filter_map(move |(metric, value)| {
            let sample = Sample::of(metric, params.clone(), value?);
            Some(Sample { environment, ..sample })
        })
    };
    all.iter().flat_map(of).collect()
}
