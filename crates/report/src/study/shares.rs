// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Smith & Maguire's derived figures beside the published ones: rates, ratio, base cost, equation.

use cowlab_analysis::study::Study;
use cowlab_analysis::study::sweep::{FORKS, Terms, terms_of};

use crate::Rows;
use crate::cells;
use crate::document::{Block, Cell, Table};
use crate::fmt::{self, time};
use crate::papers::SMITH;

/// The fractions whose lines were published.
pub(super) const PUBLISHED: [f64; 3] = [0.1, 0.5, 0.9];

pub(super) const TABLE: &str = "sweep-published";

/// The two published machines, by the prefix of their rows' ids, with their pages.
const MACHINES: [(&str, u64); 2] = [("3b2", 2048), ("hp", 4096)];

/// A figure of both published machines and of this one, in one unit.
struct Compared {
    what: String,
    unit: &'static str,
    published: [Option<f64>; 2],
    here: Option<cowlab_model::Estimate>,
    /// Less is faster: times; otherwise more is.
    is_time: bool,
}

pub(super) fn blocks(study: &Study) -> Vec<Block> {
    let mut blocks = vec![Block::Table(table(study))];
    blocks.extend(equation(study).map(Block::Text));
    blocks
}

/// The best page-fault service rate (at 0.9, as published) over the memory-copy rate.
pub(super) fn service_to_copy(study: &Study) -> Option<f64> {
    let service = study.sweep.line(0.9)?.service_bytes_per_s()?;
    Some(service.value / study.profile.cost("memcpy_bytes_per_s")?)
}

fn table(study: &Study) -> Table {
    // How many times as fast as one of the published machines; an interval that reaches 0 leaves
    // the factor without any bound.
    let factor = |machine: usize| {
        move |row: &Compared| {
            let (published, here) = (row.published[machine]?, row.here?);
            let [above, below] =
                if row.is_time { [published, here.value] } else { [here.value, published] };
            let factor = above / below;
            (here.low > 0.0 && factor.is_finite()).then_some(factor)
        }
    };
    let published = |machine: usize| {
        move |row: &Compared| cells::number(row.published[machine], row.unit, "not published")
    };
    let missing = "no figure on one side, or its interval contains 0";
    let caption = "Published in 1988 and measured here: lines for 1000 forks at a write fraction, \
                   page-fault service rates (number · frac / slope), and the equation's terms";
    Rows::of(TABLE, caption, &rows(study))
        .text("Figure", |row| row.what.clone())
        .figure("3B2/310", published(0))
        .figure("HP9000/350", published(1))
        .figure("this machine", |row| match row.here {
            Some(e) if e.low == e.high => Cell::number(e.value, row.unit),
            here => cells::estimate(here, row.unit, "was not measured in this run"),
        })
        .figure("times the 3B2's speed", |row| cells::number(factor(0)(row), "", missing))
        .figure("times the HP's speed", |row| cells::number(factor(1)(row), "", missing))
        .text("Unit of the raw figures", |row| row.unit)
        .table()
}

fn rows(study: &Study) -> Vec<Compared> {
    let sweep = &study.sweep;
    let profile = &study.profile;
    let published = |row: &str, quantity: &str, factor: f64| {
        MACHINES.map(|(machine, _)| {
            Some(SMITH.recomputed(&format!("{machine}.{row}"), quantity)? * factor)
        })
    };
    let exact = |value: f64| cowlab_model::Estimate { value, low: value, high: value, count: 1 };
    let mut rows = Vec::new();
    let mut add = |what: String, unit, published, here, is_time| {
        rows.push(Compared { what, unit, published, here, is_time });
    };
    for fraction in PUBLISHED {
        let (row, at) = (format!("frac-{fraction}"), fmt::tick(fraction, ""));
        let line = sweep.line(fraction);
        let slope = line.map(|l| l.relative.slope);
        let what = format!("slope at {at}, a byte");
        add(what, "ns_per_byte", published(&row, "slope_s_per_byte", 1e9), slope, true);
    }
    for fraction in PUBLISHED {
        let (row, at) = (format!("frac-{fraction}"), fmt::tick(fraction, ""));
        let intercept = sweep.line(fraction).map(|l| l.relative.intercept);
        let what = format!("intercept at {at}");
        add(what, "ns", published(&row, "intercept_s", 1e9), intercept, true);
    }
    for fraction in PUBLISHED {
        let (row, at) = (format!("frac-{fraction}"), fmt::tick(fraction, ""));
        let rate = sweep.line(fraction).and_then(|l| l.service_bytes_per_s());
        let bytes = published(&row, "service_rate_bytes_per_s", 1.0);
        let what = format!("service rate at {at}, bytes");
        add(what, "per_s", bytes, rate, false);
        let pages = rate.map(|e| e.scaled(1.0 / profile.page_size_bytes as f64));
        let what = format!("service rate at {at}, own pages");
        add(what, "per_s", published(&row, "service_rate_pages_per_s", 1.0), pages, false);
    }
    let copy = profile.costs.get("memcpy_bytes_per_s").map(|cost| cost.estimate);
    let copied = published("memcpy", "memcpy_bytes_per_s", 1.0);
    add("memory-copy rate, bytes".into(), "per_s", copied, copy, false);
    let ratio = published("ratio", "service_to_copy_ratio", 1.0);
    let here = service_to_copy(study).map(exact);
    add("service over copy rate".into(), "", ratio, here, false);
    let fork = published("fork", "fork_ms", 1e6);
    let base = sweep.base_cost_ns().map(exact);
    add("a fork without heap, by intercepts".into(), "ns", fork, base, true);
    let measured = sweep.point(0, 0.0).map(|p| p.real_ns.scaled(1.0 / FORKS));
    add("a fork without heap, measured".into(), "ns", [None; 2], measured, true);
    let terms = sweep.terms(profile.page_size_bytes);
    let old = MACHINES.map(|(machine, page)| published_terms(machine, page));
    let copies = old.map(|t| t.map(|t| t.copied_page.value));
    let what = "equation: a written page";
    add(what.into(), "ns", copies, terms.map(|t| t.copied_page), true);
    let entries = old.map(|t| t.map(|t| t.entry.value));
    let what = "equation: a page-table entry";
    add(what.into(), "ns", entries, terms.map(|t| t.entry), true);
    rows
}

/// The equation's terms from the published slopes.
fn published_terms(machine: &str, page: u64) -> Option<Terms> {
    let value = |fraction: f64, quantity: &str| {
        SMITH.value(&format!("{machine}.frac-{fraction}"), quantity).map(|s| s * 1e9)
    };
    let slopes: Option<Vec<(f64, f64)>> =
        PUBLISHED.iter().map(|f| Some((*f, value(*f, "slope_s_per_byte")?))).collect();
    let process = value(0.5, "intercept_s")? / FORKS;
    terms_of(&slopes?, page, process)
}

/// Smith & Maguire's equation with this machine's terms, from the lines and from the calibration.
fn equation(study: &Study) -> Option<String> {
    let profile = &study.profile;
    let terms = study.sweep.terms(profile.page_size_bytes)?;
    let mut out = format!(
        "Smith & Maguire's equation, t(fork) = t(copy one page) · frac · pages + t(page-table \
         entry) · pages + t(new process), reads on this machine: {} · frac · pages + {} · pages + \
         {}. The first two terms are fitted to the slopes of all fractions.",
        time(terms.copied_page.value),
        time(terms.entry.value),
        time(terms.process),
    );
    let sum = |names: &[&str]| -> Option<f64> { names.iter().map(|n| profile.cost(n)).sum() };
    let parts = (
        sum(&["cow_fault_ns", "copy_free_ns_per_page"]),
        sum(&["pte_ns_per_page", "pte_teardown_ns_per_page"]),
        sum(&["new_process_ns"]),
    );
    if let (Some(copy), Some(entry), Some(process)) = parts {
        out.push_str(&format!(
            " The calibration, which measures each part by itself, has {}, {} and {}.",
            time(copy),
            time(entry),
            time(process)
        ));
    }
    Some(out)
}
