// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Document 001's tables for Linux: what a fork's sections take, what is called how often, and what
//! a change makes of both.

use cowlab_analysis::picked::Picked;
use cowlab_model::Estimate;
use cowlab_model::stats::ratio_of_groups;
use cowlab_store::Sample;

use crate::document::{Block, Cell, Finding, Section, Table};
use crate::fmt;
use crate::rows::Rows;

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

/// The figures of one metric, by boot.
fn groups(samples: &Picked, kernel: &str, size: u64, metric: &str, section: &str) -> Vec<Vec<f64>> {
    let own = samples.with("kernel", kernel).with("size_bytes", size).of_metric(metric);
    let own = match section {
        "" => own.without("section"),
        section => own.with("section", section),
    };
    let mut boots = own.words("boot");
    boots.sort_unstable();
    boots.into_iter().map(|boot| own.with("boot", boot).values(metric)).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

fn size_name(size: u64) -> String {
    match size {
        0 => "the smallest process".to_owned(),
        bytes => format!("a process of {}", fmt::quantity(bytes as f64, "bytes")),
    }
}

/// Microseconds, or thousands of instructions: what the tables are in.
fn scaled(unit: &str) -> (&'static str, f64) {
    if unit == "ns" { ("µs", 1e3) } else { ("1000 instructions", 1e3) }
}

/// Table I of one size, of what `unit` counts: `ns` or `instructions`.
fn table_one(samples: &Picked, size: u64, unit: &str) -> Option<Table> {
    let flat = |metric: &str, section: &str| {
        groups(samples, BASE, size, &format!("{metric}_{unit}"), section).concat()
    };
    let totals = flat("kernel", "");
    let total = mean(&totals)?;
    let (name, scale) = scaled(unit);
    let mut rows: Vec<(&str, Vec<f64>, bool)> =
        SECTIONS.map(|(section, name)| (name, flat("section", section), true)).into();
    rows.push(("Total fork", totals, true));
    rows.push(("Probes, subtracted above", flat("probes", ""), false));
    rows.push(("fork(2) as the program sees it, probes and all", flat("fork", ""), false));
    rows.push(("The same with nobody recording", flat("fork_unrecorded", ""), false));
    let id = format!("table-1-{size}-{unit}");
    let caption = format!("Table I. Averaged results for {}", size_name(size));
    let table = Rows::of(id, caption, &rows)
        .text("Section", |(name, ..)| *name)
        .figure(&format!("Mean ({name})"), |(_, values, _)| {
            decimals(mean(values).map(|mean| mean / scale), 2)
        })
        .figure(&format!("Variance ({name}²)"), |(_, values, _)| {
            decimals(variance(values).map(|variance| variance / scale / scale), 2)
        })
        .figure("Total (%)", |(_, values, is_part)| match mean(values).filter(|_| *is_part) {
            Some(mean) => decimals(Some(mean / total * 100.0), 0),
            None => Cell::text(""),
        });
    Some(table.table())
}

/// What is called most in a fork, of one size.
fn counts(samples: &Picked, size: u64, unit: &str) -> Option<Table> {
    let own_metric = format!("own_{unit}");
    let own = samples.with("kernel", BASE).with("size_bytes", size);
    let last = |of: &Picked, metric: &str| of.values(metric).last().copied().unwrap_or_default();
    let figures = |function| {
        let of = own.with("function", function);
        (function, last(&of, "calls_per_fork"), last(&of, &own_metric))
    };
    let mut rows: Vec<(&str, f64, f64)> = own.words("function").into_iter().map(figures).collect();
    rows.retain(|(_, calls, _)| *calls > 0.0);
    rows.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(b.0)));
    rows.truncate(MOST_FUNCTIONS);
    let (name, scale) = scaled(unit);
    let caption = format!(
        "Calls of {}, the most expensive first; own time is without recorded functions below",
        size_name(size)
    );
    let table = Rows::of(format!("counts-{size}-{unit}"), caption, &rows)
        .text("Function", |(function, ..)| format!("`{function}`"))
        .figure("Calls a fork", |(_, calls, _)| decimals(Some(*calls), 1))
        .figure(&format!("Own time a fork ({name})"), |(.., own)| decimals(Some(own / scale), 2));
    (!rows.is_empty()).then(|| table.table())
}

/// Table II of one change and size: each section before and after.
fn table_two(samples: &Picked, change: &str, size: u64, unit: &str) -> Option<Table> {
    let of = |kernel: &str, metric: &str, section: &str| {
        groups(samples, kernel, size, &format!("{metric}_{unit}"), section)
    };
    let changed = mean(&of(change, "kernel", "").concat())?;
    let (unit_name, scale) = scaled(unit);
    let sections = SECTIONS.into_iter().map(|(section, name)| ("section", section, name));
    let rows: Vec<_> = sections
        .chain([("kernel", "", "Total fork")])
        .map(|(metric, section, name)| {
            (name, of(BASE, metric, section), of(change, metric, section))
        })
        .collect();
    let middle = |values: &[Vec<f64>]| decimals(mean(&values.concat()).map(|mean| mean / scale), 2);
    let id = format!("table-2-{change}-{size}-{unit}");
    let caption = format!("Table II. {change}: {}", size_name(size));
    let table = Rows::of(id, caption, &rows)
        .text("Section", |(name, ..)| *name)
        .figure(&format!("Before ({unit_name})"), |(_, before, _)| middle(before))
        .figure(&format!("After ({unit_name})"), |(.., after)| middle(after))
        .figure("After: total (%)", |(.., after)| {
            decimals(Some(mean(&after.concat()).map_or(0.0, |mean| mean / changed * 100.0)), 0)
        })
        .figure("Change (%), 95% interval", |(_, before, after)| {
            match ratio_of_groups(before, after).map(percent) {
                Some(Estimate { value, low, high, .. }) => {
                    let text = format!("{value:+.1} ({low:+.1} to {high:+.1})");
                    Cell::Estimate { value, low, high, text }
                }
                None => Cell::Missing("not measured in both".to_owned()),
            }
        });
    Some(table.table())
}

/// A ratio as a change in percent.
fn percent(ratio: Estimate) -> Estimate {
    ratio.map(|ratio| (ratio - 1.0) * 100.0)
}

/// A figure with so many decimals.
fn decimals(figure: Option<f64>, digits: usize) -> Cell {
    match figure {
        Some(value) => Cell::Number { value, text: format!("{value:.digits$}") },
        None => Cell::Missing("not measured".to_owned()),
    }
}

/// What became of a change, in one sentence.
fn verdict(samples: &Picked, change: &str, sizes: &[u64], unit: &str) -> Finding {
    let metric = format!("kernel_{unit}");
    let mut parts = Vec::new();
    let (mut wins, mut loses) = (false, false);
    for size in sizes {
        let of = |kernel: &str| groups(samples, kernel, *size, &metric, "");
        let Some(ratio) = ratio_of_groups(&of(BASE), &of(change)) else { continue };
        wins |= ratio.high < 1.0;
        loses |= ratio.low > 1.0;
        let Estimate { value, low, high, .. } = percent(ratio);
        let name = size_name(*size);
        parts.push(format!("{name}: {value:+.1}% ({low:+.1} to {high:+.1})"));
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
    let samples = &Picked::all(samples);
    let sizes = samples.numbers("size_bytes");
    let mut changes = samples.words("kernel");
    changes.retain(|kernel| *kernel != BASE);
    changes.sort_unstable();
    let mut all = Vec::new();
    for (unit, title) in [("ns", "time under emulation"), ("instructions", "instructions")] {
        let each = |of: fn(&Picked, u64, &str) -> Option<Table>| -> Vec<Block> {
            sizes.iter().filter_map(|size| of(samples, *size, unit)).map(Block::Table).collect()
        };
        let (first, calls) = (each(table_one), each(counts));
        if first.is_empty() {
            continue;
        }
        all.push(Section::new(format!("table-1-{unit}"), format!("Table I: {title}"), first));
        all.push(Section::new(format!("counts-{unit}"), format!("What is called: {title}"), calls));
        for change in &changes {
            let mut blocks = vec![Block::Finding(verdict(samples, change, &sizes, unit))];
            let tables = sizes.iter().filter_map(|size| table_two(samples, change, *size, unit));
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
        let table = table_one(&Picked::all(&run(1.0)), 0, "ns").unwrap();
        let Cell::Number { value: mean, .. } = table.rows[1][1] else { panic!() };
        assert!((mean - 1.001).abs() < 1e-9);
        let Cell::Number { value: share, .. } = table.rows[1][3] else { panic!() };
        assert!((share - 50.0).abs() < 1e-9);
        assert!(matches!(table.rows[0][1], Cell::Missing(_)), "absent is absent");
    }

    #[test]
    fn a_change_wins_loses_or_makes_no_difference() {
        let headline =
            |factor| verdict(&Picked::all(&run(factor)), "0001-better", &[0], "ns").headline;
        assert!(headline(0.9).contains("wins"));
        assert!(headline(1.1).contains("loses"));
        assert!(headline(1.0).contains("no difference"));
    }
}
