// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `predict policies`: what policies would change, beside what they did.

use anyhow::{Result, anyhow};
use cowlab_analysis::predicted::{Foretold, foretell};
use cowlab_model::stats::median;
use cowlab_report::{Block, Cell, Column, Document, Section, Table, emulated};
use cowlab_schema::predict;
use cowlab_store::{Run, Sample};
use serde::Serialize;

use crate::args::PredictPoliciesArgs;
use crate::output;

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
    let kernels = all.iter().any(|one| one.workload.contains_key("variant"));
    let mut columns = vec![
        Column::text("α"),
        Column::number("memory"),
        Column::text("policy"),
        Column::number("gain, predicted"),
        Column::number("gain, measured"),
        Column::number("error"),
        Column::number("faults"),
        Column::number("copied ahead"),
        Column::number("never written"),
    ];
    if kernels {
        columns.insert(0, Column::text("kernel"));
    }
    let mut table = Table::new("policies", "Throughput against plain copy-on-write", columns);
    for one in all {
        let param = |key: &str| one.workload.get(key).map_or("", String::as_str);
        let percent = |value: Option<f64>| match value {
            Some(value) => Cell::text(format!("{value:+.1}%")),
            None => Cell::text(""),
        };
        let mut row = vec![
            Cell::text(param("zipf_alpha")),
            Cell::number(param("size_bytes").parse().unwrap_or(0.0), "bytes"),
            Cell::text(one.policy.to_string()),
            percent(Some(one.gain_percent)),
            percent(one.measured_gain_percent),
            percent(error_points(one)),
            Cell::count(one.course.faults),
            Cell::count(one.course.ahead_pages),
            Cell::count(one.course.wasted_pages),
        ];
        if kernels {
            row.insert(0, Cell::text(param("variant")));
        }
        table.push(row);
    }
    table
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
            let sample = Sample::new(predict::BENCH.name, params.clone(), metric, value?);
            Some(Sample { environment, ..sample })
        })
    };
    all.iter().flat_map(of).collect()
}
