// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two runs side by side.

use cowlab_analysis::Verdict;
use cowlab_analysis::comparison::{Compared, Comparison};

use crate::{Block, Cell, Column, Document, Section, Table};

/// The figures that differ, or `all` of them.
pub fn document(summary: &Comparison, all: bool) -> Document {
    let mut document =
        Document::new("Comparison", format!("{} against {}", summary.first, summary.second));
    let mut blocks = vec![Block::Text(format!(
        "{} figures compared: {} different, {} without a difference that could be seen, {} with too \
         few repetitions to tell. {} figures are in one run only. A figure is called different when \
         the 95% interval of its ratio lies more than {}% from 1, which is what two runs of the \
         same thing show anyway.",
        summary.compared,
        summary.different,
        summary.compared - summary.different - summary.too_few_repetitions,
        summary.too_few_repetitions,
        summary.only_in_one,
        summary.drift_percent,
    ))];
    for difference in &summary.environments_differ {
        blocks.push(Block::Note(format!("the environments differ: {difference}")));
    }
    let columns = vec![
        Column::text("bench"),
        Column::text("parameters"),
        Column::text("metric"),
        Column::number("first"),
        Column::number("second"),
        Column::number("second ÷ first"),
        Column::text("verdict"),
    ];
    let mut table = Table::new("compared", "Figures", columns);
    let mut shown: Vec<&Compared> = summary
        .figures
        .iter()
        .filter(|figure| all || figure.difference.verdict == Verdict::Different)
        .collect();
    // What has no ratio comes first: it is there in one run only, mostly.
    let size = |f: &Compared| {
        let ratio = f.difference.ratio.value;
        if ratio.is_finite() { ratio.ln().abs() } else { f64::INFINITY }
    };
    shown.sort_by(|a, b| size(b).total_cmp(&size(a)));
    for figure in shown {
        let params: Vec<String> =
            figure.key.params.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let ratio = figure.difference.ratio;
        table.push(vec![
            Cell::text(&figure.key.bench),
            Cell::text(params.join(" ")),
            Cell::text(&figure.key.metric),
            Cell::number(figure.first, &figure.key.unit),
            Cell::number(figure.second, &figure.key.unit),
            if ratio.low.is_finite() {
                Cell::estimate(ratio.value, ratio.low, ratio.high, "")
            } else if ratio.value.is_finite() {
                Cell::number(ratio.value, "")
            } else {
                Cell::Missing("a figure of 0 or less has no ratio".into())
            },
            Cell::text(match figure.difference.verdict {
                Verdict::Different => "different",
                Verdict::NoneSeen => "no difference seen",
                Verdict::TooFew => "too few repetitions",
            }),
        ]);
    }
    if !table.rows.is_empty() {
        blocks.push(Block::Table(table));
    }
    document.sections.push(Section::new("comparison", "Result", blocks));
    document
}
