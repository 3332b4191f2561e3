// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Document 002, every figure that it published, beside the same here at its depth of one page.

use cowlab_analysis::compared::{change, ratio};
use cowlab_analysis::picked::Picked;
use cowlab_model::Estimate;
use cowlab_model::stats::estimate;
use cowlab_schema::{Metric, Pattern, Quantile, cow_faults};

use super::cases::{Measured, NEXT, OFF, Workload, per_page};
use crate::cells::{self, MISSING};
use crate::document::{Cell, Column, Table};
use crate::fmt;
use crate::papers::COW_STUDY;

/// Anchor of the table.
pub(super) const TABLE: &str = "pre-copy-published";

/// Rows as they are added.
struct Published<'a, 'b> {
    measured: &'b Measured<'a>,
    table: Table,
}

/// What this kernel measured for one row.
enum Here {
    Figure(Option<Estimate>),
    /// Why there can be none.
    Never(&'static str),
}

pub(super) fn table(measured: &Measured) -> Table {
    let columns = vec![
        Column::text("Figure"),
        Column::number("Document 002"),
        Column::number("here (95% interval)"),
        Column::text("Where and how"),
    ];
    let caption = "Document 002's figures beside the same here, with its own depth of one page: \
                   changes are `next` against `off`, round by round in one boot";
    let mut rows = Published { measured, table: Table::new(TABLE, caption, columns) };
    rows.latency();
    rows.copies();
    rows.shares();
    rows.workloads();
    rows.single();
    rows.tails();
    rows.economics();
    rows.table
}

impl Published<'_, '_> {
    fn add(&mut self, what: &str, unit: &str, there: Option<f64>, here: Here, how: &str) {
        let here = match here {
            Here::Figure(figure) => estimate_cell(figure, unit),
            Here::Never(reason) => Cell::Missing(reason.to_owned()),
        };
        let there = match there {
            Some(value) => Cell::Number { value, text: written(value, unit) },
            None => Cell::Missing("not published".into()),
        };
        self.table.push(vec![Cell::text(what), there, here, Cell::text(how)]);
    }

    /// Section VI.A.1: the whole fault, from user space.
    fn latency(&mut self) {
        let case = self.measured.case(SINGLE, OFF);
        for (what, row, quantile, how) in [
            (
                "single write, mean (here: median)",
                "fault.mean",
                Quantile::P50,
                "VI.A.1; user space, `off`",
            ),
            ("single write, least", "fault.min", Quantile::Min, "VI.A.1"),
            ("single write, most", "fault.max", Quantile::Max, "VI.A.1"),
        ] {
            let here = case.with(cow_faults::QUANTILE, quantile).estimate(cow_faults::FAULT_NS);
            self.add(what, "ns", COW_STUDY.value(row, "fault_ns"), Here::Figure(here), how);
        }
    }

    /// Table I: the copy alone, by the kernel's clock.
    fn copies(&mut self) {
        let case = self.measured.case(SEQUENTIAL[0], OFF);
        let copy = |quantile: Quantile| {
            Here::Figure(case.with(cow_faults::QUANTILE, quantile).estimate(cow_faults::COPY_NS))
        };
        let published = |row: &str, quantity: &str| COW_STUDY.value(row, quantity);
        let low = published("copy.mean", "copy_low_ns");
        self.add(
            "copy of a page, mean: from",
            "ns",
            low,
            copy(Quantile::Mean),
            "VI.A.2; a range in print",
        );
        let high = published("copy.mean", "copy_high_ns");
        self.add("copy of a page, mean: to", "ns", high, copy(Quantile::Mean), "VI.A.2");
        let total = published("proc", "copy_total_ns").zip(published("proc", "cow_faults"));
        let example = total.map(|(total, faults)| total / faults);
        let how = "III.A.3; total_ns over faults of its example of /proc/cow_stats";
        self.add("copy of a page, mean of the example", "ns", example, copy(Quantile::Mean), how);
        let never = Here::Never("the kernel's histogram keeps no least value");
        self.add("copy, least", "ns", published("copy.min", "copy_ns"), never, "table I");
        for (what, row, quantile) in [
            ("copy, P50", "copy.0.5", Quantile::P50),
            ("copy, P90", "copy.0.9", Quantile::P90),
            ("copy, P95", "copy.0.95", Quantile::P95),
            ("copy, P99", "copy.0.99", Quantile::P99),
            ("copy, most", "copy.max", Quantile::Max),
        ] {
            let how = "table I; sequential, 16 MiB, `off`";
            self.add(what, "ns", published(row, "copy_ns"), copy(quantile), how);
        }
    }

    /// Sections VI.A.4 and VI.A.5.
    fn shares(&mut self) {
        let case = self.measured.case(SEQUENTIAL[0], OFF);
        let page = per_page(&case, cow_faults::ELAPSED_NS);
        let copy = case.with(cow_faults::QUANTILE, Quantile::Mean).estimate(cow_faults::COPY_NS);
        let share = copy.zip(page).map(|(copy, page)| quotient(copy, page));
        let published = |quantity| COW_STUDY.value("breakdown", quantity);
        let how = "VI.A.4; here of a sequential write's time as the program sees it";
        let there = published("copy_share_ratio");
        self.add("the copy's share of a fault", "share", there, Here::Figure(share), how);
        let rest = share.map(|e| Estimate {
            value: 1.0 - e.value,
            low: 1.0 - e.high,
            high: 1.0 - e.low,
            count: e.count,
        });
        let how = "VI.A.4; most of it is per-page work in the kernel, not the trap";
        let there = published("rest_share_ratio");
        self.add("the rest's share of a fault", "share", there, Here::Figure(rest), how);
        for ((sequential, random), row) in SEQUENTIAL.into_iter().zip(RANDOM).zip([16, 64]) {
            let above = change(
                &self.measured.case(sequential, OFF),
                &self.measured.case(random, OFF),
                cow_faults::ELAPSED_NS,
            );
            let what = format!("random above sequential, {row} MB");
            let print = if row == 16 { "low" } else { "high" };
            let quantity = format!("random_over_sequential_{print}_ratio");
            let there = COW_STUDY.value("random-over-sequential", &quantity);
            let how = "VI.A.5; printed as 8 to 10%, its own run times give 4.9 and 6.3%";
            self.add(&what, "change", there, Here::Figure(above), how);
        }
        for (name, [small, large]) in [(Pattern::Sequential, SEQUENTIAL), (Pattern::Random, RANDOM)]
        {
            let print = |megabytes: u64| {
                let row = format!("{name}.{megabytes}.none");
                Some(COW_STUDY.value(&row, "elapsed_ms")? / megabytes as f64)
            };
            let there = print(64).zip(print(16)).map(|(large, small)| large / small - 1.0);
            let (small, large) = (self.measured.case(small, OFF), self.measured.case(large, OFF));
            // The sizes differ, so the change of the whole is divided by theirs.
            let here = change(&small, &large, cow_faults::ELAPSED_NS);
            let here = here.map(|e| e.map(|value| (1.0 + value) / 4.0 - 1.0));
            let what = format!("a page's time from 16 to 64 MB, {name}");
            let how = "VI.A.5: \"only slightly\"; by its run times of VI.B";
            self.add(&what, "change", there, Here::Figure(here), how);
        }
    }

    /// Section VI.B.1 and VI.B.2.
    fn workloads(&mut self) {
        for (name, cases) in [(Pattern::Sequential, SEQUENTIAL), (Pattern::Random, RANDOM)] {
            for (workload, megabytes) in cases.into_iter().zip([16, 64]) {
                let off = self.measured.case(workload, OFF);
                let next = self.measured.case(workload, NEXT);
                let print = |policy: &str, quantity: &str| {
                    COW_STUDY.value(&format!("{name}.{megabytes}.{policy}"), quantity)
                };
                for (policy, row, case) in [(OFF, "none", &off), (NEXT, "precopy", &next)] {
                    let what = format!("{name}, {megabytes} MB, `{policy}`");
                    let there = print(row, "elapsed_ms").map(|ms| ms * 1e6);
                    let here = Here::Figure(case.estimate(cow_faults::ELAPSED_NS));
                    self.add(&what, "ns", there, here, "VI.B; all writes");
                }
                let what = format!("{name}, {megabytes} MB, run time with pre-copy");
                let there = print("precopy", "elapsed_change_ratio");
                let here = Here::Figure(change(&off, &next, cow_faults::ELAPSED_NS));
                self.add(&what, "change", there, here, "VI.B");
            }
            let row = format!("{name}.faults");
            for workload in cases {
                let off = self.measured.case(workload, OFF);
                let next = self.measured.case(workload, NEXT);
                let size = workload.bytes >> 20;
                let what = format!("{name}, {size} MB, faults with pre-copy");
                let there = COW_STUDY.value(&row, "minor_faults_change_ratio");
                let here = Here::Figure(change(&off, &next, cow_faults::COW_FAULTS));
                let how = "VI.B; counted: the same on any machine";
                self.add(&what, "change", there, here, how);
                let there = COW_STUDY.value(&row, "precopy_hit_ratio");
                let hit = ratio(&next, cow_faults::PRECOPY_SUCCESS, cow_faults::PRECOPY_ATTEMPTS);
                let what = format!("{name}, {size} MB, hit rate");
                let how = "VI.B, table II; here success over attempts of /proc/cow_stats";
                self.add(&what, "share", there, Here::Figure(hit), how);
                // The document's two figures are one by this: hit / (1 + hit).
                let used = ratio(&next, cow_faults::PRECOPY_WRITTEN, cow_faults::COW_FAULTS);
                let what = format!("{name}, {size} MB, pages used per remaining fault");
                let how = "what the document's hit rate must be for its fault counts to fit";
                self.add(&what, "share", there, Here::Figure(used), how);
                let written = ratio(&next, cow_faults::PRECOPY_WRITTEN, cow_faults::PRECOPY_PAGES);
                let what = format!("{name}, {size} MB, copied pages that were written later");
                let how = "what a hit rate hides";
                self.add(&what, "share", None, Here::Figure(written), how);
            }
        }
    }

    /// Section VI.B.3.
    fn single(&mut self) {
        let median =
            |policy| self.measured.case(SINGLE, policy).with(cow_faults::QUANTILE, Quantile::P50);
        let (off, next) = (median(OFF), median(NEXT));
        let there = COW_STUDY.value("single.precopy", "fault_ns");
        let here = Here::Figure(next.estimate(cow_faults::FAULT_NS));
        let how = "VI.B.3; mean in print, median here";
        self.add("single write with pre-copy", "ns", there, here, how);
        let there = COW_STUDY.value("single.precopy", "fault_change_ratio");
        let here = Here::Figure(change(&off, &next, cow_faults::FAULT_NS));
        let how = "VI.B.3; a neighbour is copied for nothing";
        self.add("single write, with pre-copy against without", "change", there, here, how);
    }

    /// Section VI.B.4: the copy of the faulting page alone.
    fn tails(&mut self) {
        let [workload, _] = SEQUENTIAL;
        for (name, row, quantile) in [
            ("P99", "copy.0.99.precopy", Quantile::P99),
            ("most", "copy.max.precopy", Quantile::Max),
        ] {
            let of =
                |policy| self.measured.case(workload, policy).with(cow_faults::QUANTILE, quantile);
            let (off, next) = (of(OFF), of(NEXT));
            let there = COW_STUDY.value(row, "copy_ns");
            let here = Here::Figure(next.estimate(cow_faults::COPY_NS));
            self.add(&format!("copy with pre-copy, {name}"), "ns", there, here, "VI.B.4");
            let there = COW_STUDY.value(row, "copy_change_ratio");
            let here = Here::Figure(change(&off, &next, cow_faults::COPY_NS));
            let how = "VI.B.4; pre-copy does not touch this copy";
            self.add(&format!("the same against without, {name}"), "change", there, here, how);
        }
    }

    /// Table II: with the document's formula and our costs.
    fn economics(&mut self) {
        let print = |quantity| COW_STUDY.value("table-2", quantity);
        let [small, large] = SEQUENTIAL.map(|workload| {
            (self.measured.case(workload, OFF), self.measured.case(workload, NEXT))
        });
        let (off, next) = if !large.0.is_empty() { large } else { small };
        let fault = per_page(&off, cow_faults::ELAPSED_NS);
        let how = "table II; here a sequential write with `off`";
        self.add("full fault", "ns", print("trap_ns"), Here::Figure(fault), how);
        let ahead = precopy_ns(&off, &next);
        let how = "table II; here what is left of the run with `next` after its faults, a page";
        self.add("copying one page ahead", "ns", print("precopy_ns"), Here::Figure(ahead), how);
        let saved = fault.zip(ahead).map(|(fault, ahead)| Estimate {
            value: fault.value - ahead.value,
            low: fault.low - ahead.high,
            high: fault.high - ahead.low,
            count: ahead.count,
        });
        self.add("saved by a hit", "ns", print("saved_ns"), Here::Figure(saved), "table II");
        let even = ahead.zip(fault).map(|(ahead, fault)| quotient(ahead, fault));
        let how = "table II; its own 550 / 6800 is 8.1%: pre-copy pays from there on";
        let there = print("break_even_hit_ratio");
        self.add("break-even hit rate", "share", there, Here::Figure(even), how);
    }
}

const SINGLE: Workload = Workload::of(Pattern::Single, 16);
const SEQUENTIAL: [Workload; 2] =
    [Workload::of(Pattern::Sequential, 16), Workload::of(Pattern::Sequential, 64)];
const RANDOM: [Workload; 2] =
    [Workload::of(Pattern::Random, 16), Workload::of(Pattern::Random, 64)];

/// The run with pre-copy is its faults, each as dear as without, and the pages copied ahead.
fn precopy_ns(off: &Picked, next: &Picked) -> Option<Estimate> {
    let by = |metric: Metric| next.by_round(metric);
    let (faults, ahead, elapsed) =
        (by(cow_faults::COW_FAULTS), by(cow_faults::PRECOPY_PAGES), by(cow_faults::ELAPSED_NS));
    let (off_elapsed, pages) =
        (off.by_round(cow_faults::ELAPSED_NS), off.by_round(cow_faults::PAGES_WRITTEN));
    let each: Vec<f64> = elapsed
        .into_iter()
        .filter_map(|(round, elapsed)| {
            let fault = off_elapsed.get(&round)? / pages.get(&round)?;
            let ahead = ahead.get(&round).filter(|pages| **pages > 0.0)?;
            Some((elapsed - fault * faults.get(&round)?) / ahead)
        })
        .collect();
    estimate(&each)
}

/// A quotient with the widest interval that its parts allow.
fn quotient(above: Estimate, below: Estimate) -> Estimate {
    Estimate {
        value: above.value / below.value,
        low: above.low / below.high,
        high: above.high / below.low,
        count: above.count.min(below.count),
    }
}

/// A time, a share, or a change with its sign.
fn written(value: f64, unit: &str) -> String {
    match unit {
        "change" => cells::signed(value),
        "share" => fmt::quantity(value, "fraction"),
        _ => fmt::quantity(value, unit),
    }
}

fn estimate_cell(figure: Option<Estimate>, unit: &str) -> Cell {
    let Some(e) = figure.filter(|e| e.value.is_finite()) else {
        return Cell::Missing(MISSING.to_owned());
    };
    if unit != "change" {
        return cells::estimate(Some(e), if unit == "share" { "fraction" } else { unit }, MISSING);
    }
    cells::change(Some(e), MISSING)
}
