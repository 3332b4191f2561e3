// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `compare RUN RUN`: which figures differ, by how much, and which could not have been told apart.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use cowlab_model::difference::{Difference, Verdict, compare};
use cowlab_report::figures::{Key, grouped};
use cowlab_report::{Block, Cell, Column, Document, Section, Table};
use cowlab_store::{Accelerator, Run, Sample};
use serde::Serialize;

use crate::args::{Common, CompareArgs};
use crate::output::{self, JsonDocument};
use crate::usage::WrongUsage;

#[derive(Serialize)]
struct Compared {
    #[serde(flatten)]
    key: Key,
    first: f64,
    second: f64,
    #[serde(flatten)]
    difference: Difference,
}

#[derive(Serialize)]
struct Summary {
    first: String,
    second: String,
    drift_percent: f64,
    compared: usize,
    different: usize,
    too_few_repetitions: usize,
    only_in_one: usize,
    environments_differ: Vec<String>,
    figures: Vec<Compared>,
}

/// Run the verb.
pub fn run(common: &Common, args: &CompareArgs) -> Result<()> {
    if !(0.0..100.0).contains(&args.drift_percent) {
        bail!(WrongUsage("--drift-percent must be in 0..100".to_owned()));
    }
    let (first, second) = (Run::read(&args.first)?, Run::read(&args.second)?);
    let summary = summarise(&first, &second, args);
    if summary.compared == 0 {
        bail!(
            "{} and {} have no figure in common{}",
            args.first.display(),
            args.second.display(),
            args.bench.as_ref().map_or(String::new(), |bench| format!(" in {bench}"))
        );
    }
    if common.json {
        return output::json(&JsonDocument {
            format: cowlab_store::FORMAT,
            run: None,
            samples: &[],
            summary,
            missing: &[],
        });
    }
    output::text(&document(&summary, args.all))
}

fn summarise(first: &Run, second: &Run, args: &CompareArgs) -> Summary {
    let keep = |key: &Key| args.bench.as_ref().is_none_or(|bench| *bench == key.bench);
    let (a, mut b) = (grouped(&first.samples), grouped(&second.samples));
    let paired = interleaved(first, second);
    let mut figures = Vec::new();
    let mut only_in_one = 0;
    for (key, ours) in a {
        if !keep(&key) {
            continue;
        }
        let Some(theirs) = b.remove(&key) else {
            only_in_one += 1;
            continue;
        };
        let (mut ours, mut theirs) = (rounds(&ours), rounds(&theirs));
        if paired {
            ours.retain(|rep, _| theirs.contains_key(rep));
            theirs.retain(|rep, _| ours.contains_key(rep));
        }
        let x: Vec<f64> = ours.into_values().collect();
        let y: Vec<f64> = theirs.into_values().collect();
        let Some(difference) = compare(&x, &y, paired, args.drift_percent / 100.0) else {
            // Of rounds that the two have not in common.
            only_in_one += 1;
            continue;
        };
        let median = |values: &[f64]| cowlab_model::stats::median(values).unwrap_or(f64::NAN);
        figures.push(Compared { key, first: median(&x), second: median(&y), difference });
    }
    only_in_one += b.keys().filter(|key| keep(key)).count();
    let with = |verdict| figures.iter().filter(|f| f.difference.verdict == verdict).count();
    Summary {
        first: name(&args.first),
        second: name(&args.second),
        drift_percent: args.drift_percent,
        compared: figures.len(),
        different: with(Verdict::Different),
        too_few_repetitions: with(Verdict::TooFew),
        only_in_one,
        environments_differ: environments_differ(first, second),
        figures,
    }
}

/// One figure a round: the median of those that one process gave, which have its moment in common.
fn rounds(samples: &[&Sample]) -> BTreeMap<u32, f64> {
    let mut by_rep: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in samples {
        by_rep.entry(sample.rep).or_default().push(sample.value);
    }
    let median = |values: Vec<f64>| cowlab_model::stats::median(&values);
    by_rep.into_iter().filter_map(|(rep, values)| Some((rep, median(values)?))).collect()
}

fn name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
}

/// Whether rounds of the two runs were made in turn, A B A B: only then does a pair share its
/// moment, so that pairing removes the machine's drift.
fn interleaved(first: &Run, second: &Run) -> bool {
    let starts = |run: &Run| {
        let mut starts: Vec<(u32, i64)> = Vec::new();
        for sample in &run.samples {
            match starts.iter_mut().find(|(rep, _)| *rep == sample.rep) {
                Some((_, start)) => *start = (*start).min(sample.start_unix_ns),
                None => starts.push((sample.rep, sample.start_unix_ns)),
            }
        }
        starts.sort_unstable();
        starts
    };
    let (a, b) = (starts(first), starts(second));
    let same_rounds = a.len() > 1 && a.iter().map(|s| s.0).eq(b.iter().map(|s| s.0));
    same_rounds
        && a.windows(2).zip(b.windows(2)).all(|(a, b)| a[0].1.max(b[0].1) < a[1].1.min(b[1].1))
}

/// What of the machines is not the same: a difference may come from it.
fn environments_differ(first: &Run, second: &Run) -> Vec<String> {
    let (Some(a), Some(b)) = (first.info.environments.first(), second.info.environments.first())
    else {
        return Vec::new();
    };
    let mut differences = Vec::new();
    let mut check = |what: &str, a: String, b: String| {
        if a != b {
            differences.push(format!("{what}: {a} against {b}"));
        }
    };
    check("host", a.host.clone(), b.host.clone());
    check("kernel", a.kernel.clone(), b.kernel.clone());
    check("CPUs", a.cpus.to_string(), b.cpus.to_string());
    check("CPU", format!("{:?}", a.cpu_model), format!("{:?}", b.cpu_model));
    check("THP", format!("{:?}", a.thp), format!("{:?}", b.thp));
    check("mTHP", format!("{:?}", a.mthp), format!("{:?}", b.mthp));
    let accelerator = |a: Accelerator| format!("{a:?}").to_lowercase();
    check("accelerator", accelerator(a.accelerator), accelerator(b.accelerator));
    differences
}

fn document(summary: &Summary, all: bool) -> Document {
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
