// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The whole balance of tending: each way of keeping a forking process in huge pages beside leaving
//! it alone.

mod others;
mod tables;
#[cfg(test)]
mod tests;

use cowlab_analysis::samples::Samples;
use cowlab_schema::tend::{self as names, Part, Policy, Program};
use cowlab_schema::{Metric, Quantile, VARIANT};
use cowlab_store::Run;

use crate::document::{Axis, Block, Cell, Document, Plot, Section, Series};
use crate::{cells, fmt};

const TITLE: &str = "Keeping a forking process cheap to fork";

/// What everything is compared with.
const UNTENDED: Policy = Policy::Untended;

/// Why what is not tended has no figure.
const NOBODY: &str = "nobody tends it";

/// One server's size and load, under all policies.
struct Case<'a> {
    size_bytes: u64,
    load: f64,
    interval_s: f64,
    /// The kernel, where several were booted.
    variant: Option<&'a str>,
    samples: Samples<'a>,
}

impl<'a> Case<'a> {
    fn all(redis: &Samples<'a>) -> Vec<Case<'a>> {
        let mut cases = Vec::new();
        for (variant, redis) in by_variant(redis) {
            for size_bytes in redis.each(names::SIZE_BYTES) {
                for load in redis.each(names::LOAD) {
                    for interval_s in redis.each(names::INTERVAL_S) {
                        let samples = redis
                            .with(names::SIZE_BYTES, size_bytes)
                            .with(names::LOAD, load)
                            .with(names::INTERVAL_S, interval_s);
                        if !samples.is_empty() {
                            cases.push(Case { size_bytes, load, interval_s, variant, samples });
                        }
                    }
                }
            }
        }
        cases
    }

    /// `1.50 GiB, 0.5 of the most updates, a snapshot each 60 s`.
    fn name(&self) -> String {
        let size = fmt::quantity(self.size_bytes as f64, "bytes");
        let kernel = self.variant.map_or(String::new(), |name| format!(", the {name} kernel"));
        let (load, interval_s) = (self.load, self.interval_s);
        format!("{size}, {load} of the most updates, a snapshot each {interval_s} s{kernel}")
    }
}

/// One policy, and what was measured under it.
struct Tended<'a> {
    policy: Policy,
    samples: Samples<'a>,
}

impl<'a> Tended<'a> {
    /// Those that were measured, as the program lists them.
    fn all(samples: &Samples<'a>) -> Vec<Tended<'a>> {
        let found = samples.numbers(names::POLICY);
        let of = |policy| Tended { policy, samples: samples.with(names::POLICY, policy) };
        found.into_iter().map(of).collect()
    }

    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn median(&self, metric: Metric) -> Option<f64> {
        self.samples.median(metric)
    }

    fn first_pass(&self) -> Cell {
        let missing = "was not measured, or nobody tends it";
        cells::number(self.median(names::FIRST_PASS_CPU_NS), "ns", missing)
    }
}

/// One kernel's samples after the other's; all of them where it was this machine's own.
fn by_variant<'a>(samples: &Samples<'a>) -> Vec<(Option<&'a str>, Samples<'a>)> {
    let variants = samples.by(VARIANT);
    match variants.is_empty() {
        true => vec![(None, samples.clone())],
        false => variants.into_iter().map(|(name, of)| (Some(name), of)).collect(),
    }
}

/// The section; `None` of a run without this benchmark.
pub fn section(run: &Run) -> Option<Section> {
    let samples = Samples::of(&run.samples, names::BENCH);
    if samples.is_empty() {
        return None;
    }
    let mut blocks = vec![Block::Text(
        "A fork copies one page-table entry for each page, and one for each huge page. Untended is \
         memory of base pages; tended is the same with `cowlab tend` beside it. `thp` asks for huge \
         pages and is left alone: writes split them again."
            .into(),
    )];
    for (number, case) in
        Case::all(&samples.with(names::PROGRAM, Program::Redis)).iter().enumerate()
    {
        blocks.push(Block::Text(format!("redis-server: {}.", case.name())));
        blocks.extend(tables::all(case, number).map(Block::Table));
        blocks.extend(stops(case, number).map(Block::Plot));
        blocks.extend(over_time(case, number).map(Block::Plot));
    }
    for (variant, samples) in by_variant(&samples) {
        let (prefork, postgres) = (
            others::prefork(&samples.with(names::PROGRAM, Program::Prefork)),
            others::postgres(&samples.with(names::PROGRAM, Program::Postgres)),
        );
        if let Some(name) = variant.filter(|_| prefork.is_some() || postgres.is_some()) {
            blocks.push(Block::Text(format!("The {name} kernel:")));
        }
        blocks.extend([prefork, postgres].into_iter().flatten().map(Block::Table));
    }
    Some(Section::new("tend", TITLE, blocks))
}

/// The report of a run that has nothing else.
pub fn document(run: &Run) -> Option<Document> {
    let section = section(run)?;
    let mut document = crate::emulated::beside_published(run, TITLE, vec![section]);
    document.subtitle = "Tended beside untended, over many forks.".into();
    Some(document)
}

/// The stop at each snapshot.
fn stops(case: &Case, number: usize) -> Option<Plot> {
    let plot = Plot::new(
        format!("tend-stops-{number}"),
        "The stop at each fork",
        Axis::linear("Snapshot", ""),
        Axis::log("Stop at fork", "ns"),
    )
    .caption("By Redis's own latest_fork_usec; medians of the rounds.");
    by_snapshot(case, plot, |samples| samples.clone(), names::FORK_NS)
}

/// What an update takes between the snapshots, over time.
fn over_time(case: &Case, number: usize) -> Option<Plot> {
    let plot = Plot::new(
        format!("tend-latency-{number}"),
        "Updates between the snapshots, over time",
        Axis::linear("Before snapshot", ""),
        Axis::log("An update, p99", "ns"),
    )
    .caption("Counted from when an update was intended; medians of the rounds.");
    by_snapshot(
        case,
        plot,
        |samples| samples.with(names::PART, Part::Outside).with(names::QUANTILE, Quantile::P99),
        names::LATENCY_NS,
    )
}

fn by_snapshot<'a>(
    case: &Case<'a>,
    mut plot: Plot,
    of: impl Fn(&Samples<'a>) -> Samples<'a>,
    metric: Metric,
) -> Option<Plot> {
    for Tended { policy, samples } in Tended::all(&case.samples) {
        let samples = of(&samples);
        let numbers = samples.numbers(names::SNAPSHOT);
        let at = |number: &u64| {
            let one = samples.with(names::SNAPSHOT, *number).estimate(metric)?;
            Some((*number as f64, one.value))
        };
        plot.draw(Series::line(policy.name(), numbers.iter().filter_map(at), policy == UNTENDED));
    }
    plot.drawn()
}
