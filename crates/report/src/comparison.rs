// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two runs side by side.

use cowlab_analysis::Verdict;
use cowlab_analysis::comparison::{Compared, Comparison};

use crate::{Block, Cell, Document, Rows, Section, Table, cells, fmt};

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
    if !shown.is_empty() {
        blocks.push(Block::Table(table(&shown)));
    }
    document.sections.push(Section::new("comparison", "Result", blocks));
    document
}

/// `12.0 MiB copied a worker of x in A, 8.0 MiB in B: 4.0 MiB less (33%).`
pub(crate) fn copied(per: &str, [before, after]: [f64; 2], names: [&str; 2]) -> String {
    let (saved, bytes) = (before - after, |bytes: f64| fmt::bytes(bytes.abs().round() as u64));
    format!(
        "{} copied{per} in {}, {} in {}: {} {} ({}).",
        bytes(before),
        names[0],
        bytes(after),
        names[1],
        bytes(saved),
        if saved >= 0.0 { "less" } else { "more" },
        fmt::percent(saved.abs() / before.max(1.0))
    )
}

fn table(shown: &[&Compared]) -> Table {
    Rows::of("compared", "Figures", shown)
        .text("bench", |of| &of.key.bench)
        .text("parameters", |of| {
            let params = of.key.params.iter().map(|(key, value)| format!("{key}={value}"));
            params.collect::<Vec<_>>().join(" ")
        })
        .text("metric", |of| &of.key.metric)
        .figure("first", |of| Cell::number(of.first, &of.key.unit))
        .figure("second", |of| Cell::number(of.second, &of.key.unit))
        .figure("second ÷ first", |of| cells::ratio(of.difference.ratio))
        .text("verdict", |of| match of.difference.verdict {
            Verdict::Different => "different",
            Verdict::NoneSeen => "no difference seen",
            Verdict::TooFew => "too few repetitions",
        })
        .table()
}
