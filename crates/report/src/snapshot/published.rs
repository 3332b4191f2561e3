// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Document 003, every figure that its text states, beside the same here and beside the best here.

use cowlab_analysis::compared::{change, counted_waste, estimated_waste, precopied};
use cowlab_analysis::configuration::Configuration;
use cowlab_analysis::picked::Picked;
use cowlab_model::Estimate;
use cowlab_schema::{Metric, Policy, Quantile, snapshot as names};

use super::workload::Workload;
use crate::configuration::Names as _;
use crate::document::{Cell, Column, Table};
use crate::fmt;
use crate::papers::CCOW;

/// Anchor of the table.
const TABLE: &str = "snapshot-published";

/// The document's own configuration, after its Figures 3 and 4.
const OWN: Policy = Policy::CoverageOf(80, 0, Policy::REGION_KB);

/// The document's CCoW-All.
const ALL: Policy = Policy::CoverageOf(0, 0, Policy::REGION_KB);

/// The thresholds of its Figure 4, in percent.
const THRESHOLDS: std::ops::RangeInclusive<u32> = 70..=95;

/// How a figure is written.
#[derive(Clone, Copy)]
enum Unit {
    /// With its sign.
    Change,
    Share,
    Rate,
}

/// A figure of one configuration.
type Figure = fn(&Workload, &Configuration) -> Option<Measured>;

/// One of several.
type Pick = fn(Vec<Measured>) -> Option<Measured>;

/// A figure, with its interval where rounds have one each.
enum Measured {
    Rounds(Estimate),
    Whole(f64),
}

struct Published<'w, 'a> {
    workloads: &'w [Workload<'a>],
    table: Table,
}

pub(super) fn table(workloads: &[Workload]) -> Table {
    let columns = vec![
        Column::text("Figure"),
        Column::number("Document 003"),
        Column::number("the same here (95% interval)"),
        Column::number("the fastest here"),
        Column::text("which is"),
        Column::text("Where and how"),
    ];
    let caption = "Document 003's figures (16 GB, Linux 5.7.7, Xeon Gold 5215) beside the same \
                   configuration here, and beside the one that wrote fastest of all that copy ahead \
                   at that α; changes are against plain copy-on-write, round by round";
    let mut rows = Published { workloads, table: Table::new(TABLE, caption, columns) };
    rows.throughput();
    rows.rates();
    rows.memory();
    rows.law();
    rows.table_1();
    rows.table
}

impl<'a> Published<'_, 'a> {
    fn workload(&self, alpha: f64) -> Option<&Workload<'a>> {
        let alpha = alpha.to_string();
        self.workloads.iter().find(|workload| workload.param(names::ZIPF_ALPHA) == alpha)
    }

    /// One row: what was printed, the figure of `policy` at `alpha`, and that of the fastest.
    fn add(
        &mut self,
        what: &str,
        unit: Unit,
        there: Option<f64>,
        (alpha, policy): (f64, Policy),
        figure: Figure,
        how: &str,
    ) {
        let workload = self.workload(alpha);
        let of = |one: Option<Configuration<'a>>| {
            workload.zip(one).and_then(|(workload, one)| figure(workload, &one))
        };
        let same = workload.and_then(|workload| with_policy(workload, policy));
        let best = workload.and_then(fastest);
        let missing = format!("`{policy}` was not measured at α {alpha}");
        let here = cell(of(same), unit, &missing);
        let name = workload.zip(best).map(|(workload, one)| workload.configurations.name(&one));
        self.push(what, unit, there, [here, cell(of(best), unit, FASTEST)], name, how);
    }

    fn push(
        &mut self,
        what: &str,
        unit: Unit,
        there: Option<f64>,
        [here, best]: [Cell; 2],
        name: Option<String>,
        how: &str,
    ) {
        let there = match there {
            Some(value) => Cell::Number { value, text: unit.written(value) },
            None => Cell::Missing("document 003 does not say".into()),
        };
        let name = name.map_or_else(|| Cell::Missing(FASTEST.into()), Cell::text);
        self.table.push(vec![Cell::text(what), there, here, best, name, Cell::text(how)]);
    }

    /// Figures 3 to 5.
    fn throughput(&mut self) {
        let figure: Figure = |workload, one| against_plain(workload, one, names::THROUGHPUT_PER_S);
        for (what, row, at, how) in [
            ("throughput, regions of 2 MB", "fig3.region-2MB", (1.0, OWN), "Figure 3, α 1"),
            ("throughput, CCoW-80", "fig5.1.ccow:80", (1.0, OWN), "Figures 4 and 5b, α 1"),
            ("throughput, CCoW-All", "fig5.0.9.ccow:0", (0.9, ALL), "Figure 5a, α 0.9"),
            ("throughput, CCoW-All", "fig5.1.1.ccow:0", (1.1, ALL), "Figure 5c: the worst"),
        ] {
            let there = CCOW.value(row, "throughput_change_ratio");
            self.add(what, Unit::Change, there, at, figure, how);
        }
    }

    /// Figure 6a.
    fn rates(&mut self) {
        let lowest: Figure = |w, one| rounds(&w.case(one), names::LOWEST_WINDOW_PER_S);
        let usual: Figure =
            |w, one| rounds(&w.case(one).with(names::QUANTILE, Quantile::P90), names::WINDOW_PER_S);
        let how = "Figure 6a, α 1.1; here the lowest window after a fork, median of the forks";
        for (what, row, policy) in [
            ("writes right after a fork, CoW", "fig6.1.1.off", Policy::Off),
            ("writes right after a fork, CCoW-80", "fig6.1.1.ccow:80", OWN),
        ] {
            let there = CCOW.value(row, "lowest_per_s");
            self.add(what, Unit::Rate, there, (1.1, policy), lowest, how);
        }
        let there = CCOW.value("fig6.1.1.off", "usual_per_s");
        let how = "Figure 6a, α 1.1; here what a tenth of the windows exceed";
        let what = "writes when a fork is got over, CoW";
        self.add(what, Unit::Rate, there, (1.1, Policy::Off), usual, how);
    }

    /// One row of several configurations: the figures that they have, of which `pick` is one, and
    /// the fastest's at α 1.
    fn add_of_thresholds(
        &mut self,
        what: &str,
        unit: Unit,
        there: Option<f64>,
        figure: Figure,
        pick: Pick,
        how: &str,
    ) {
        let all = self.workloads.iter().flat_map(|workload| {
            let own = workload.configurations.iter().filter(has_the_documents_threshold);
            own.filter_map(|one| figure(workload, &one))
        });
        let picked = pick(all.collect());
        let workload = self.workload(1.0);
        let best = workload.and_then(fastest);
        let its = workload.zip(best).and_then(|(workload, one)| figure(workload, &one));
        let name = workload.zip(best).map(|(workload, one)| workload.configurations.name(&one));
        let here = cell(picked, unit, "no threshold of 70 to 95% was measured");
        self.push(what, unit, there, [here, cell(its, unit, FASTEST)], name, how);
    }

    /// Figures 4 and 5.
    fn memory(&mut self) {
        let there = CCOW.value("fig4.memory", "memory_change_most_ratio");
        let how = "Figures 4 and 5; RSS in print, PSS here; the fastest: at α 1";
        let what = "memory, thresholds of 70 to 95%, at most";
        self.add_of_thresholds(what, Unit::Change, there, pss, largest, how);
    }

    /// What Zipf's law says of the blocks.
    fn law(&mut self) {
        let figure: Figure = |workload, one| {
            let case = workload.case(one);
            let preferred = case.median(names::PREFERRED_FIFTH_WRITES)?;
            Some(Measured::Whole(preferred / case.median(names::WRITES_MADE)?))
        };
        let there = CCOW.value("zipf.pareto", "operations_ratio");
        let how = "section 4.1, α 1; its own 16 Mi blocks give 90.7%";
        let what = "writes to the most frequent fifth of the blocks";
        self.add(what, Unit::Share, there, (1.0, Policy::Off), figure, how);
    }

    /// Table 1, which is of Redis in print.
    fn table_1(&mut self) {
        let print = |quantity| CCOW.value("table1.ccow:80", quantity);
        let precopied: Figure = |w, one| precopied(&w.case(one)).map(Measured::Whole);
        let estimated: Figure =
            |w, one| estimated_waste(&w.plain(one), &w.case(one)).map(Measured::Whole);
        let counted: Figure = |w, one| counted_waste(&w.case(one)).map(Measured::Whole);
        let how = "Table 1, CCoW-80; Redis in print, the microbenchmark at α 1 here";
        let at = (1.0, OWN);
        let there = print("precopied_ratio");
        self.add("copies made ahead", Unit::Share, there, at, precopied, how);
        let there = print("memory_change_ratio");
        self.add("memory", Unit::Change, there, at, pss, how);
        let there = print("unnecessary_ratio");
        let how_estimated = "Table 1: the growth of memory over the share made ahead";
        self.add("unnecessary, estimated", Unit::Share, there, at, estimated, how_estimated);
        let range = |quantity| CCOW.value("table1.range", quantity);
        let how_range = "Table 1, of all its thresholds; Redis in print, the microbenchmark here";
        for (what, quantity, pick) in [
            ("unnecessary, estimated, at least", "unnecessary_least_ratio", least as Pick),
            ("unnecessary, estimated, at most", "unnecessary_most_ratio", largest),
        ] {
            self.add_of_thresholds(what, Unit::Share, range(quantity), estimated, pick, how_range);
        }
        let how_counted = "what the dirty bits show: made ahead and never written";
        self.add("unnecessary, counted", Unit::Share, None, at, counted, how_counted);
    }
}

fn has_the_documents_threshold(one: &Configuration) -> bool {
    matches!(one.policy, Policy::CoverageOf(percent, 0, Policy::REGION_KB)
        if THRESHOLDS.contains(&percent))
}

fn largest(all: Vec<Measured>) -> Option<Measured> {
    all.into_iter().max_by(|a, b| a.value().total_cmp(&b.value()))
}

fn least(all: Vec<Measured>) -> Option<Measured> {
    all.into_iter().min_by(|a, b| a.value().total_cmp(&b.value()))
}

/// Why there is no fastest.
const FASTEST: &str = "nothing that copies ahead was measured at this α";

fn with_policy<'a>(workload: &Workload<'a>, policy: Policy) -> Option<Configuration<'a>> {
    // Where no policy was set the kernel's own is plain copy-on-write.
    let is =
        |one: &Configuration| one.policy == policy || (policy == Policy::Off && one.is_plain());
    let base = |one: &Configuration| !one.is_plain() || workload.configurations.is_base(one);
    workload.configurations.iter().find(|one| is(one) && base(one))
}

fn fastest<'a>(workload: &Workload<'a>) -> Option<Configuration<'a>> {
    let rate =
        |one: &Configuration| workload.case(one).median(names::THROUGHPUT_PER_S).unwrap_or(0.0);
    let ahead = workload.configurations.iter().filter(|one| !one.is_plain());
    ahead.max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

fn rounds(case: &Picked, metric: Metric) -> Option<Measured> {
    case.estimate(metric).map(Measured::Rounds)
}

fn against_plain(workload: &Workload, one: &Configuration, metric: Metric) -> Option<Measured> {
    change(&workload.plain(one), &workload.case(one), metric).map(Measured::Rounds)
}

fn pss(workload: &Workload, one: &Configuration) -> Option<Measured> {
    against_plain(workload, one, names::PSS_SUM_BYTES)
}

impl Measured {
    fn value(&self) -> f64 {
        match self {
            Measured::Rounds(e) => e.value,
            Measured::Whole(value) => *value,
        }
    }
}

impl Unit {
    fn written(self, value: f64) -> String {
        match self {
            Unit::Change => format!("{:+.1}%", value * 100.0),
            Unit::Share => fmt::quantity(value, "fraction"),
            Unit::Rate => fmt::quantity(value, "per_s"),
        }
    }
}

fn cell(figure: Option<Measured>, unit: Unit, missing: &str) -> Cell {
    match figure {
        None => Cell::Missing(missing.to_owned()),
        Some(Measured::Whole(value)) => Cell::Number { value, text: unit.written(value) },
        Some(Measured::Rounds(Estimate { value, low, high, .. })) => {
            let [own, from, to] = [value, low, high].map(|value| unit.written(value));
            let text = if low == high { own } else { format!("{own} ({from} to {to})") };
            Cell::Estimate { value, low, high, text }
        }
    }
}
