// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Barkley & Schimmel's tables (CASPER, 1988) for Linux: what a fork's sections take, what is
//! called how often, and what a change makes of both.

use cowlab_analysis::samples::Samples;
use cowlab_model::Estimate;
use cowlab_model::stats::{mean, ratio_of_groups, variance};
use cowlab_schema::{Metric, fork_sections as names};
use cowlab_store::Sample;

use crate::Rows;
use crate::cells;
use crate::document::{Block, Cell, Finding, Section, Table};
use crate::fmt;

/// The kernel that nothing was changed in, in samples' param `kernel`.
pub const BASE: &str = "traced";

const SECTIONS: [(names::Section, &str); 6] = [
    (names::Section::Identity, "Process id and table entry"),
    (names::Section::Task, "Task and stack duplication"),
    (names::Section::Files, "Files and signals"),
    (names::Section::Areas, "Address space: areas"),
    (names::Section::PageTables, "Address space: page tables"),
    (names::Section::Rest, "The rest"),
];

/// Functions shown in the table of counts.
const MOST_FUNCTIONS: usize = 30;

struct Clock {
    unit: &'static str,
    title: &'static str,
    counted: &'static str,
    /// A thousand of the unit, which the tables are in.
    thousand: &'static str,
    /// A time's metric in its unit.
    of: fn(Metric) -> Metric,
}

const CLOCKS: [Clock; 2] = [
    Clock {
        unit: "ns",
        title: "time under emulation",
        counted: "time",
        thousand: "µs",
        of: |metric| metric,
    },
    Clock {
        unit: "instructions",
        title: "instructions",
        counted: "instructions",
        thousand: "1000 instructions",
        of: |metric| metric.instructions().expect("the bench counts what it times"),
    },
];

fn by_boot(samples: &Samples, metric: Metric) -> Vec<Vec<f64>> {
    let mut boots = samples.of_metric(metric).by(names::BOOT);
    boots.sort_by_key(|(boot, _)| *boot);
    boots.into_iter().map(|(_, own)| own.values(metric)).collect()
}

fn of<'a>(samples: &Samples<'a>, kernel: &str, size: u64) -> Samples<'a> {
    samples.with(names::KERNEL, kernel).with(names::SIZE_BYTES, size)
}

fn size_name(size: u64) -> String {
    match size {
        0 => "the smallest process".to_owned(),
        bytes => format!("a process of {}", fmt::quantity(bytes as f64, "bytes")),
    }
}

fn table_one(samples: &Samples, size: u64, clock: &Clock) -> Option<Table> {
    let own = of(samples, BASE, size);
    let totals = own.values((clock.of)(names::KERNEL_NS));
    let total = mean(&totals)?;
    let mut rows: Vec<(&str, Vec<f64>, bool)> = SECTIONS
        .map(|(section, name)| {
            (name, own.with(names::SECTION, section).values((clock.of)(names::SECTION_NS)), true)
        })
        .into();
    rows.push(("Total fork", totals, true));
    rows.push(("Probes, subtracted above", own.values((clock.of)(names::PROBES_NS)), false));
    let seen = "fork(2) as the program sees it, probes and all";
    rows.push((seen, own.values((clock.of)(names::FORK_NS)), false));
    rows.push((
        "The same with nobody recording",
        own.values((clock.of)(names::FORK_UNRECORDED_NS)),
        false,
    ));
    let name = clock.thousand;
    let id = format!("table-1-{size}-{}", clock.unit);
    let caption = format!("Table I. Averaged results for {}", size_name(size));
    let table = Rows::of(id, caption, &rows)
        .text("Section", |(name, ..)| *name)
        .figure(&format!("Mean ({name})"), |(_, values, _)| {
            decimals(mean(values).map(|mean| mean / 1e3), 2)
        })
        .figure(&format!("Variance ({name}²)"), |(_, values, _)| {
            decimals(variance(values).map(|variance| variance / 1e3 / 1e3), 2)
        })
        .figure("Total (%)", |(_, values, is_part)| match mean(values).filter(|_| *is_part) {
            Some(mean) => decimals(Some(mean / total * 100.0), 0),
            None => Cell::text(""),
        });
    Some(table.table())
}

/// What is called most in a fork, of one size.
fn counts(samples: &Samples, size: u64, clock: &Clock) -> Option<Table> {
    let last = |of: &Samples, metric| of.values(metric).last().copied().unwrap_or_default();
    let figures = |(name, of): (_, Samples)| {
        (name, last(&of, names::CALLS_PER_FORK), last(&of, (clock.of)(names::OWN_NS)))
    };
    let own = of(samples, BASE, size).by(names::FUNCTION);
    let mut rows: Vec<(&str, f64, f64)> = own.into_iter().map(figures).collect();
    rows.retain(|(_, calls, _)| *calls > 0.0);
    rows.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(b.0)));
    rows.truncate(MOST_FUNCTIONS);
    let name = clock.thousand;
    let caption = format!(
        "Calls of {}, the most expensive first; own time is without recorded functions below",
        size_name(size)
    );
    let table = Rows::of(format!("counts-{size}-{}", clock.unit), caption, &rows)
        .text("Function", |(function, ..)| format!("`{function}`"))
        .figure("Calls a fork", |(_, calls, _)| decimals(Some(*calls), 1))
        .figure(&format!("Own time a fork ({name})"), |(.., own)| decimals(Some(own / 1e3), 2));
    (!rows.is_empty()).then(|| table.table())
}

/// Table II of one change and size: each section before and after.
fn table_two(samples: &Samples, change: &str, size: u64, clock: &Clock) -> Option<Table> {
    let both = [BASE, change].map(|kernel| of(samples, kernel, size));
    let changed = mean(&both[1].values((clock.of)(names::KERNEL_NS)))?;
    let unit_name = clock.thousand;
    let mut rows: Vec<_> = SECTIONS
        .into_iter()
        .map(|(section, name)| {
            let of = |own: &Samples| {
                by_boot(&own.with(names::SECTION, section), (clock.of)(names::SECTION_NS))
            };
            (name, of(&both[0]), of(&both[1]))
        })
        .collect();
    let total = |own: &Samples| by_boot(own, (clock.of)(names::KERNEL_NS));
    rows.push(("Total fork", total(&both[0]), total(&both[1])));
    let middle = |values: &[Vec<f64>]| decimals(mean(&values.concat()).map(|mean| mean / 1e3), 2);
    let id = format!("table-2-{change}-{size}-{}", clock.unit);
    let caption = format!("Table II. {change}: {}", size_name(size));
    let table = Rows::of(id, caption, &rows)
        .text("Section", |(name, ..)| *name)
        .figure(&format!("Before ({unit_name})"), |(_, before, _)| middle(before))
        .figure(&format!("After ({unit_name})"), |(.., after)| middle(after))
        .figure("After: total (%)", |(.., after)| {
            decimals(Some(mean(&after.concat()).map_or(0.0, |mean| mean / changed * 100.0)), 0)
        })
        .figure("Change (%), 95% interval", |(_, before, after)| {
            let cell = |Estimate { value, low, high, .. }| {
                let text = format!("{value:+.1} ({low:+.1} to {high:+.1})");
                Cell::Estimate { value, low, high, text }
            };
            let change = ratio_of_groups(before, after).map(percent);
            cells::or(change.map(cell), "not measured in both")
        });
    Some(table.table())
}

fn percent(ratio: Estimate) -> Estimate {
    ratio.map(|ratio| (ratio - 1.0) * 100.0)
}

fn decimals(figure: Option<f64>, digits: usize) -> Cell {
    let cell = |value| Cell::Number { value, text: format!("{value:.digits$}") };
    cells::or(figure.map(cell), "not measured")
}

/// What became of a change, in one sentence.
fn verdict(samples: &Samples, change: &str, sizes: &[u64], clock: &Clock) -> Finding {
    let mut parts = Vec::new();
    let (mut wins, mut loses) = (false, false);
    for size in sizes {
        let of = |kernel| by_boot(&of(samples, kernel, *size), (clock.of)(names::KERNEL_NS));
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
    Finding {
        headline: format!("{change} {what} ({})", clock.counted),
        detail: parts.join("; "),
        samples: None,
    }
}

/// The study's sections: Table I, the counts, and Table II of each change.
pub fn sections(samples: &[Sample]) -> Vec<Section> {
    let samples = &Samples::all(samples);
    let sizes = samples.numbers(names::SIZE_BYTES);
    let mut changes = samples.words(names::KERNEL);
    changes.retain(|kernel| *kernel != BASE);
    changes.sort_unstable();
    let mut all = Vec::new();
    for clock in &CLOCKS {
        let Clock { unit, title, .. } = clock;
        let each = |of: fn(&Samples, u64, &Clock) -> Option<Table>| -> Vec<Block> {
            sizes.iter().filter_map(|size| of(samples, *size, clock)).map(Block::Table).collect()
        };
        let (first, calls) = (each(table_one), each(counts));
        if first.is_empty() {
            continue;
        }
        all.push(Section::new(format!("table-1-{unit}"), format!("Table I: {title}"), first));
        all.push(Section::new(format!("counts-{unit}"), format!("What is called: {title}"), calls));
        for change in &changes {
            let mut blocks = vec![Block::Finding(verdict(samples, change, &sizes, clock))];
            let tables = sizes.iter().filter_map(|size| table_two(samples, change, *size, clock));
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
    use crate::testing::number;

    fn run(changed: f64) -> Vec<Sample> {
        let mut all = Vec::new();
        for (kernel, factor) in [(BASE, 1.0), ("0001-better", changed)] {
            for boot in 0..3 {
                for noise in [0.0, 2.0] {
                    let value = 1000.0 * factor + noise;
                    let mut params = cowlab_store::Params::new();
                    names::KERNEL.put(&mut params, kernel);
                    names::BOOT.put(&mut params, boot);
                    names::SIZE_BYTES.put(&mut params, 0);
                    all.push(Sample::of(names::KERNEL_NS, params.clone(), 2.0 * value));
                    for section in [names::Section::Task, names::Section::Rest] {
                        names::SECTION.put(&mut params, section);
                        all.push(Sample::of(names::SECTION_NS, params.clone(), value));
                    }
                }
            }
        }
        all
    }

    #[test]
    fn shares_are_of_the_total_and_variance_of_the_forks() {
        let table = table_one(&Samples::all(&run(1.0)), 0, &CLOCKS[0]).unwrap();
        assert!((number(&table.rows[1][1]) - 1.001).abs() < 1e-9);
        assert!((number(&table.rows[1][3]) - 50.0).abs() < 1e-9);
        assert!(matches!(table.rows[0][1], Cell::Missing(_)), "absent is absent");
    }

    #[test]
    fn every_clock_has_its_metrics() {
        for clock in &CLOCKS {
            let times = names::BENCH.metrics.iter().filter(|of| of.instructions().is_some());
            assert!(times.map(|time| (clock.of)(*time)).all(|of| of.unit == clock.unit));
        }
    }

    #[test]
    fn a_change_wins_loses_or_makes_no_difference() {
        let headline =
            |factor| verdict(&Samples::all(&run(factor)), "0001-better", &[0], &CLOCKS[0]).headline;
        assert!(headline(0.9).contains("wins"));
        assert!(headline(1.1).contains("loses"));
        assert!(headline(1.0).contains("no difference"));
    }
}
