// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The next-page study's kernel in the report: the derived figures, the labels, and the whole
//! section against a saved file.

#[path = "../../document/tests/support/golden.rs"]
mod golden;
#[path = "support/next_page.rs"]
mod synthetic;

use cowlab_report::next_page;
use cowlab_report::{Block, Cell, Document, Table, html, terminal};
use cowlab_store::{Accelerator, Run};

fn document(run: &Run) -> Document {
    let mut document = Document::new("Guests", "");
    document.sections.push(next_page::section(run).unwrap());
    document
}

fn table<'a>(document: &'a Document, id: &str) -> &'a Table {
    document.tables().find(|table| table.id == id).unwrap_or_else(|| panic!("no table {id}"))
}

/// The figures of the row that begins with `first`.
fn row(table: &Table, first: &str) -> Vec<f64> {
    let row = table.rows.iter().find(|row| row[0].display() == first);
    let row = row.unwrap_or_else(|| panic!("no row {first:?} in {}", table.id));
    row.iter()
        .filter_map(|cell| match cell {
            Cell::Number { value, .. } | Cell::Estimate { value, .. } => Some(*value),
            _ => None,
        })
        .collect()
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-3 * expected.abs().max(1e-3), "{value}, not {expected}");
}

#[test]
fn published_and_measured_stand_side_by_side() {
    let run = synthetic::run();
    let document = document(&run);
    let table = table(&document, "pre-copy-published");
    // Half the faults at 5 µs, half the pages ahead at 2 µs: 3.5 of 5 µs are left.
    for (what, there, here) in [
        ("sequential, 16 MB, run time with pre-copy", -0.17, -0.3),
        ("sequential, 64 MB, run time with pre-copy", -0.178, -0.3),
        ("sequential, 64 MB, faults with pre-copy", -0.497, -0.5),
        ("random, 64 MB, faults with pre-copy", -0.363, -(-1f64).exp()),
        ("random, 64 MB, hit rate", 0.57, (-1f64).exp()),
        ("random above sequential, 64 MB", 0.1, 0.1),
        ("single write, with pre-copy against without", 0.17, 0.4),
        ("the same against without, P99", -0.14, 0.0),
        ("copying one page ahead", 550.0, synthetic::AHEAD_NS),
        ("break-even hit rate", 0.085, synthetic::AHEAD_NS / synthetic::FAULT_NS),
        ("the copy's share of a fault", 0.05, 0.2),
    ] {
        let figures = row(table, what);
        near(figures[0], there);
        near(figures[1], here);
    }
    let every = ["copy, least", "copy, P90", "copy, most", "full fault", "saved by a hit"];
    assert!(every.iter().all(|what| table.rows.iter().any(|row| row[0].display() == *what)));
}

#[test]
fn findings_follow_from_the_samples() {
    let run = synthetic::run();
    let text = terminal::render(&document(&run), Some(200), false);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "saves 36.8% of the faults of random writes",
        "within half a point",
        "the counts agree exactly",
        "Sequential, 64 MiB: copying 512 pages ahead changes the time by -59.9%",
        "A single write costs 5.00 µs with `off` and 1.03 ms where up to 512 pages may be copied ahead",
        "executes at most 1% more instructions: +0.40% at worst",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn what_disagrees_is_said() {
    let mut run = synthetic::run();
    let of = |sample: &cowlab_store::Sample, policy: &str| sample.params["policy"] == policy;
    for sample in &mut run.samples {
        if sample.metric == "cow_faults" && of(sample, "next") {
            sample.value += 200.0;
        }
        if sample.metric == "elapsed_instructions" && sample.params["variant"] == "patched" {
            sample.value *= 1.02;
        }
    }
    let text = terminal::render(&document(&run), Some(200), false);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in ["NOT within", "differ from the pages written by up to 200", "MORE than 1%"] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn every_table_and_plot_says_how_it_was_executed() {
    let document = document(&synthetic::run());
    let labelled = |text: &str| text.contains("TCG");
    assert!(document.tables().all(|table| labelled(&table.caption)));
    assert!(document.plots().count() >= 3 && document.plots().all(|plot| labelled(&plot.title)));
    let mut native = synthetic::run();
    native.info.environments[0].accelerator = Accelerator::Native;
    native.samples.retain(|sample| sample.environment == 0);
    let native = self::document(&native);
    assert!(native.tables().all(|table| !labelled(&table.caption)));
}

#[test]
fn a_run_without_policies_has_no_section() {
    let mut run = synthetic::run();
    run.samples.retain(|sample| sample.environment == 0);
    for sample in &mut run.samples {
        sample.params.insert("policy".into(), "stock".into());
    }
    assert!(next_page::section(&run).is_none() && next_page::document(&run).is_none());
}

#[test]
fn any_part_may_be_missing() {
    let whole = synthetic::run();
    let mut names: Vec<(String, String)> =
        whole.samples.iter().map(|s| (s.metric.clone(), s.params["variant"].clone())).collect();
    names.sort();
    names.dedup();
    for (metric, _) in &names {
        let mut run = whole.clone();
        run.samples.retain(|sample| sample.metric != *metric);
        let document = document(&run);
        html::render(&document);
        let findings = document.sections[0].blocks.iter().filter_map(|block| match block {
            Block::Finding(finding) => Some(&finding.headline),
            _ => None,
        });
        assert!(findings.into_iter().all(|line| !line.contains("NaN")), "without {metric}");
    }
}

#[test]
fn the_section_is_as_saved() {
    let document = document(&synthetic::run());
    golden::check("kernel.txt", &terminal::render(&document, Some(120), false));
}
