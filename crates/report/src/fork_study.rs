// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Document 001's tables for Linux: what a fork's sections take, what is called how often, and what
//! a change makes of both.

use std::collections::BTreeMap;

use cowlab_model::Estimate;
use cowlab_model::stats::ratio_of_groups;
use cowlab_store::Sample;

use crate::document::{Block, Cell, Column, Finding, Section, Table};
use crate::fmt;

/// The kernel that nothing was changed in, in samples' param `kernel`.
pub const BASE: &str = "traced";

/// Sections as the table names them, by their name in samples.
const SECTIONS: [(&str, &str); 6] = [
    ("identity", "Process id and table entry"),
    ("task", "Task and stack duplication"),
    ("files", "Files and signals"),
    ("areas", "Address space: areas"),
    ("page-tables", "Address space: page tables"),
    ("rest", "The rest"),
];

/// Functions shown in the table of counts.
const MOST_FUNCTIONS: usize = 30;

fn param<'a>(sample: &'a Sample, name: &str) -> &'a str {
    sample.params.get(name).map_or("", String::as_str)
}

/// The figures of one metric, by boot.
fn groups(
    samples: &[Sample],
    kernel: &str,
    size: &str,
    metric: &str,
    section: &str,
) -> Vec<Vec<f64>> {
    let mut boots = BTreeMap::<&str, Vec<f64>>::new();
    for sample in samples {
        if sample.metric == metric
            && param(sample, "kernel") == kernel
            && param(sample, "size_bytes") == size
            && param(sample, "section") == section
        {
            boots.entry(param(sample, "boot")).or_default().push(sample.value);
        }
    }
    boots.into_values().collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// The values of a param, whole numbers in their order.
fn sizes(samples: &[Sample]) -> Vec<String> {
    let mut sizes: Vec<u64> =
        samples.iter().filter_map(|sample| param(sample, "size_bytes").parse().ok()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.iter().map(u64::to_string).collect()
}

fn size_name(size: &str) -> String {
    match size.parse() {
        Ok(0.0) => "the smallest process".to_owned(),
        Ok(bytes) => format!("a process of {}", fmt::quantity(bytes, "bytes")),
        Err(_) => size.to_owned(),
    }
}

/// Microseconds, or thousands of instructions: what the tables are in.
fn scaled(unit: &str) -> (&'static str, f64) {
    if unit == "ns" { ("µs", 1e3) } else { ("1000 instructions", 1e3) }
}

/// Table I of one size, of what `unit` counts: `ns` or `instructions`.
fn table_one(samples: &[Sample], size: &str, unit: &str) -> Option<Table> {
    let flat = |metric: &str, section: &str| {
        groups(samples, BASE, size, &format!("{metric}_{unit}"), section).concat()
    };
    let totals = flat("kernel", "");
    let total = mean(&totals)?;
    let (name, scale) = scaled(unit);
    let columns = vec![
        Column::text("Section"),
        Column::number(format!("Mean ({name})")),
        Column::number(format!("Variance ({name}²)")),
        Column::number("Total (%)"),
    ];
    let id = format!("table-1-{size}-{unit}");
    let caption = format!("Table I. Averaged results for {}", size_name(size));
    let mut table = Table::new(id, caption, columns);
    let figure = |value: Option<f64>| match value {
        Some(value) => Cell::Number { value, text: format!("{value:.2}") },
        None => Cell::Missing("not measured".to_owned()),
    };
    let row = |name: &str, values: &[f64], share: Option<f64>| {
        vec![
            Cell::text(name),
            figure(mean(values).map(|mean| mean / scale)),
            figure(variance(values).map(|variance| variance / scale / scale)),
            share.map_or_else(
                || Cell::text(""),
                |share| Cell::Number { value: share, text: format!("{share:.0}") },
            ),
        ]
    };
    for (section, name) in SECTIONS {
        let values = flat("section", section);
        table.push(row(name, &values, mean(&values).map(|mean| mean / total * 100.0)));
    }
    table.push(row("Total fork", &totals, Some(100.0)));
    table.push(row("Probes, subtracted above", &flat("probes", ""), None));
    table.push(row("fork(2) as the program sees it, probes and all", &flat("fork", ""), None));
    table.push(row("The same with nobody recording", &flat("fork_unrecorded", ""), None));
    Some(table)
}

/// What is called most in a fork, of one size.
fn counts(samples: &[Sample], size: &str, unit: &str) -> Option<Table> {
    let own_metric = format!("own_{unit}");
    let mut functions = BTreeMap::<&str, (f64, f64)>::new();
    for sample in samples {
        if param(sample, "kernel") != BASE || param(sample, "size_bytes") != size {
            continue;
        }
        let entry = functions.entry(param(sample, "function"));
        if sample.metric == "calls_per_fork" {
            entry.or_default().0 = sample.value;
        } else if sample.metric == own_metric {
            entry.or_default().1 = sample.value;
        }
    }
    let (name, scale) = scaled(unit);
    let columns = vec![
        Column::text("Function"),
        Column::number("Calls a fork"),
        Column::number(format!("Own time a fork ({name})")),
    ];
    let caption = format!(
        "Calls of {}, the most expensive first; own time is without recorded functions below",
        size_name(size)
    );
    let mut table = Table::new(format!("counts-{size}-{unit}"), caption, columns);
    let mut rows: Vec<_> = functions.into_iter().filter(|(_, (calls, _))| *calls > 0.0).collect();
    rows.sort_by(|(_, a), (_, b)| b.1.total_cmp(&a.1));
    for (function, (calls, own)) in rows.into_iter().take(MOST_FUNCTIONS) {
        table.push(vec![
            Cell::text(format!("`{function}`")),
            Cell::Number { value: calls, text: format!("{calls:.1}") },
            Cell::Number { value: own / scale, text: format!("{:.2}", own / scale) },
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Table II of one change and size: each section before and after.
fn table_two(samples: &[Sample], change: &str, size: &str, unit: &str) -> Option<Table> {
    let of = |kernel: &str, metric: &str, section: &str| {
        groups(samples, kernel, size, &format!("{metric}_{unit}"), section)
    };
    let changed = mean(&of(change, "kernel", "").concat())?;
    let (name, scale) = scaled(unit);
    let columns = vec![
        Column::text("Section"),
        Column::number(format!("Before ({name})")),
        Column::number(format!("After ({name})")),
        Column::number("After: total (%)"),
        Column::number("Change (%), 95% interval"),
    ];
    let id = format!("table-2-{change}-{size}-{unit}");
    let caption = format!("Table II. {change}: {}", size_name(size));
    let mut table = Table::new(id, caption, columns);
    let rows = SECTIONS.iter().map(|(section, name)| ("section", *section, *name)).chain([(
        "kernel",
        "",
        "Total fork",
    )]);
    for (metric, section, name) in rows {
        let (before, after) = (of(BASE, metric, section), of(change, metric, section));
        let figure = |values: &[Vec<f64>]| match mean(&values.concat()) {
            Some(mean) => {
                Cell::Number { value: mean / scale, text: format!("{:.2}", mean / scale) }
            }
            None => Cell::Missing("not measured".to_owned()),
        };
        let share = mean(&after.concat()).map_or(0.0, |mean| mean / changed * 100.0);
        let difference = match ratio_of_groups(&before, &after) {
            Some(Estimate { value, low, high, .. }) => {
                let percent = |ratio: f64| (ratio - 1.0) * 100.0;
                let (value, low, high) = (percent(value), percent(low), percent(high));
                let text = format!("{value:+.1} ({low:+.1} to {high:+.1})");
                Cell::Estimate { value, low, high, text }
            }
            None => Cell::Missing("not measured in both".to_owned()),
        };
        table.push(vec![
            Cell::text(name),
            figure(&before),
            figure(&after),
            Cell::Number { value: share, text: format!("{share:.0}") },
            difference,
        ]);
    }
    Some(table)
}

/// What became of a change, in one sentence.
fn verdict(samples: &[Sample], change: &str, sizes: &[String], unit: &str) -> Finding {
    let metric = format!("kernel_{unit}");
    let mut parts = Vec::new();
    let (mut wins, mut loses) = (false, false);
    for size in sizes {
        let of = |kernel: &str| groups(samples, kernel, size, &metric, "");
        let Some(ratio) = ratio_of_groups(&of(BASE), &of(change)) else { continue };
        wins |= ratio.high < 1.0;
        loses |= ratio.low > 1.0;
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        parts.push(format!(
            "{}: {:+.1}% ({:+.1} to {:+.1})",
            size_name(size),
            percent(ratio.value),
            percent(ratio.low),
            percent(ratio.high)
        ));
    }
    let what = match (wins, loses) {
        (true, false) => "wins",
        (true, true) => "wins and loses",
        (false, true) => "loses",
        (false, false) => "makes no difference that was seen",
    };
    let counted = if unit == "ns" { "time" } else { "instructions" };
    Finding {
        headline: format!("{change} {what} ({counted})"),
        detail: parts.join("; "),
        samples: None,
    }
}

/// The study's sections: Table I, the counts, and Table II of each change.
pub fn sections(samples: &[Sample]) -> Vec<Section> {
    let sizes = sizes(samples);
    let mut changes: Vec<String> = samples
        .iter()
        .map(|sample| param(sample, "kernel").to_owned())
        .filter(|kernel| !kernel.is_empty() && kernel != BASE)
        .collect();
    changes.sort();
    changes.dedup();
    let mut all = Vec::new();
    for (unit, title) in [("ns", "time under emulation"), ("instructions", "instructions")] {
        let each = |of: fn(&[Sample], &str, &str) -> Option<Table>| -> Vec<Block> {
            sizes.iter().filter_map(|size| of(samples, size, unit)).map(Block::Table).collect()
        };
        let (first, calls) = (each(table_one), each(counts));
        if first.is_empty() {
            continue;
        }
        all.push(Section::new(format!("table-1-{unit}"), format!("Table I: {title}"), first));
        all.push(Section::new(format!("counts-{unit}"), format!("What is called: {title}"), calls));
        for change in &changes {
            let mut blocks = vec![Block::Finding(verdict(samples, change, &sizes, unit))];
            let tables = sizes.iter().filter_map(|size| table_two(samples, change, size, unit));
            blocks.extend(tables.map(Block::Table));
            if blocks.len() > 1 {
                let id = format!("table-2-{change}-{unit}");
                all.push(Section::new(id, format!("Table II: {change}, {title}"), blocks));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(kernel: &str, boot: &str, metric: &str, section: &str, value: f64) -> Sample {
        let mut params: cowlab_store::Params =
            [("kernel", kernel), ("boot", boot), ("size_bytes", "0")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
        if !section.is_empty() {
            params.insert("section".to_owned(), section.to_owned());
        }
        Sample::new("fork-sections", params, metric, value)
    }

    fn run(changed: f64) -> Vec<Sample> {
        let mut all = Vec::new();
        for (kernel, factor) in [(BASE, 1.0), ("0001-better", changed)] {
            for boot in ["0", "1", "2"] {
                for noise in [0.0, 2.0] {
                    let value = 1000.0 * factor + noise;
                    all.push(sample(kernel, boot, "kernel_ns", "", 2.0 * value));
                    all.push(sample(kernel, boot, "section_ns", "task", value));
                    all.push(sample(kernel, boot, "section_ns", "rest", value));
                }
            }
        }
        all
    }

    #[test]
    fn shares_are_of_the_total_and_variance_of_the_forks() {
        let table = table_one(&run(1.0), "0", "ns").unwrap();
        let Cell::Number { value: mean, .. } = table.rows[1][1] else { panic!() };
        assert!((mean - 1.001).abs() < 1e-9);
        let Cell::Number { value: share, .. } = table.rows[1][3] else { panic!() };
        assert!((share - 50.0).abs() < 1e-9);
        assert!(matches!(table.rows[0][1], Cell::Missing(_)), "absent is absent");
    }

    #[test]
    fn a_change_wins_loses_or_makes_no_difference() {
        let headline =
            |factor| verdict(&run(factor), "0001-better", &["0".to_owned()], "ns").headline;
        assert!(headline(0.9).contains("wins"));
        assert!(headline(1.1).contains("loses"));
        assert!(headline(1.0).contains("no difference"));
    }
}
