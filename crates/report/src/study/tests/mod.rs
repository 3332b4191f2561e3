// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The analysis of runs that are whole, empty, or lack a bench.

mod synthetic;

use cowlab_analysis::check::check;
use cowlab_analysis::study::Study;
use cowlab_model::profile::MachineProfile;
use cowlab_schema::running;
use cowlab_store::{Accelerator, Missing, Params, Run, Sample};
use synthetic::{END_NS, ENTRY_NS, FORK_NS, FREE_NS, PAGE, TEARDOWN_NS, WRITE_NS};

use super::{document, summary};
use crate::document::{Block, Cell, Document};
use crate::{csv, html, terminal};

fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() < tolerance, "{value} is not near {expected}");
}

/// The document of a run in every form; nothing may panic, and every link must lead somewhere.
fn rendered(run: &Run, profile: &MachineProfile) -> (Document, String) {
    let checked = check(&run.samples, profile).unwrap_or(None);
    let study = Study::with(run, profile.clone(), checked);
    let document = document(&study);
    let page = html::render(&document);
    csv::tables(&document);
    serde_json::to_string(&summary(&study)).unwrap();
    let mut ids: Vec<&str> = document.sections.iter().map(|s| s.id.as_str()).collect();
    ids.extend(document.tables().map(|table| table.id.as_str()));
    ids.extend(document.plots().map(|plot| plot.id.as_str()));
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are unique");
    for block in document.sections.iter().flat_map(|section| &section.blocks) {
        if let Block::Finding(finding) = block {
            let target = finding.samples.as_deref().unwrap().trim_start_matches('#');
            assert!(ids.contains(&target), "no {target} for: {}", finding.headline);
            assert!(!finding.headline.contains("NaN") && !finding.headline.contains('–'));
        }
        if let Block::Table(table) = block {
            for row in &table.rows {
                assert_eq!(row.len(), table.columns.len(), "{}", table.id);
                for cell in row {
                    if let Cell::Number { text, .. } | Cell::Estimate { text, .. } = cell {
                        assert!(!text.contains("NaN"), "{}: {text}", table.id);
                    }
                }
            }
        }
    }
    assert!(page.contains("</html>"));
    let text = terminal::render(&document, Some(200), false);
    (document, text)
}

#[test]
fn a_machine_that_obeys_the_equation_gives_its_own_terms_back() {
    let run = synthetic::full();
    let profile = synthetic::profile(&run);
    let sweep = Study::with(&run, profile, None).sweep;
    assert_eq!(sweep.lines.len(), 7);
    for line in &sweep.lines {
        let per_page = (ENTRY_NS + TEARDOWN_NS) + line.fraction * (WRITE_NS + FREE_NS);
        let slope = per_page / PAGE as f64 * 1000.0;
        for fitted in [&line.relative, &line.ordinary] {
            assert_near(fitted.slope.value, slope, 1e-6);
            assert_near(fitted.intercept.value, (FORK_NS + END_NS) * 1000.0, 1e-3);
            assert!(fitted.worst().unwrap().relative_residual().abs() < 1e-6);
        }
        match line.service_bytes_per_s() {
            Some(rate) => assert_near(rate.value, 1e12 * line.fraction / slope, 1e-6),
            None => assert_eq!(line.fraction, 0.0),
        }
    }
    let terms = sweep.terms(PAGE).unwrap();
    assert_near(terms.copied_page.value, WRITE_NS + FREE_NS, 1e-6);
    assert_near(terms.entry.value, ENTRY_NS + TEARDOWN_NS, 1e-6);
    assert_near(terms.process, FORK_NS + END_NS, 1e-3);
}

#[test]
fn a_full_run_has_every_finding_and_its_figures() {
    let run = synthetic::full();
    let profile = synthetic::profile(&run);
    let (document, text) = rendered(&run, &profile);
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        // 30 µs + 40 ns for each of 2,621,440 pages
        "A fork of a 10 GiB process stops it for 105 ms.",
        // 5120 huge pages of 500 ns
        "With huge pages the stop of 10 GiB would be 2.59 ms; the first write to each 2 MiB then \
         costs 8.00 µs.",
        "costs 2.00 µs; 10.0 µs while another thread of the process runs.",
        "spends 25.0% entering and leaving the kernel, 20.0% copying the page, and 55.0% on the rest.",
        "64 MiB in a random order costs 10.0% more than in order.",
        "vfork 80.0 µs whatever the size",
        "never touched costs fork nothing.",
        "Memory that was not used lately costs 2.50 µs a page at its first touch, against 250 ns.",
        "Each page written was one fault",
        "6,140 pages were checked with 1 to 8 children at once",
    ] {
        assert!(unwrapped.contains(expected), "{expected}\n{unwrapped}");
    }
    assert!(document.facts.contains(&("Command".into(), "cowlab study".into())));

    let checked = check(&run.samples, &profile).unwrap().unwrap();
    assert!(checked.median_error < 1e-6 && checked.p95_error < 1e-6, "{checked:?}");
    assert_eq!(checked.coverage, 1.0);
    let derived = summary(&Study::with(&run, profile, Some(checked)));
    assert_eq!(derived["lines"].as_array().unwrap().len(), 7);
    assert_eq!(derived["check"]["coverage_ratio"], 1.0);
    let ratio = derived["service_to_copy_ratio"].as_f64().unwrap();
    // (4096 · 0.9 bytes in 0.9 · 2100 + 100 ns) over 10.24 GB/s
    assert_near(ratio, 4096.0 * 0.9 / 1990.0 / 10.24, 1e-3);
}

#[test]
fn the_programs_that_ran_beside_are_marked_and_the_longest_stop_is_told() {
    let mut run = synthetic::full();
    for (pid, name, small, huge) in [(7, "web", 262_144.0, 0.0), (9, "store", 0.0, 512.0)] {
        let mut params = Params::new();
        running::NAME.put(&mut params, name);
        running::PID.put(&mut params, pid);
        run.samples.push(Sample::of(running::SMALL_PAGES, params.clone(), small));
        run.samples.push(Sample::of(running::HUGE_PAGES, params, huge));
    }
    let profile = synthetic::profile(&run);
    let (document, text) = rendered(&run, &profile);
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "Of the programs that run here and fork, web (1 GiB) would be stopped longest: for 10.5 ms.";
    assert!(unwrapped.contains(told), "{unwrapped}");
    let chart = document.plots().next().unwrap();
    assert_eq!(chart.id, "stop-by-size");
    let series = |name: &str| chart.series.iter().find(|of| of.name == name).unwrap();
    assert_eq!(series("programs that run here").labels, ["web", "store"]);
    assert_eq!(series("programs that run here").x, [1073741824.0; 2]);
    // 30 µs + 40 ns for each of 256 pages
    assert_near(series("4 KiB").y[0], 40_240.0, 1e-2);
    let given = run.without_names();
    assert!(!format!("{:?}", given.samples).contains("store"));
}

#[test]
fn an_empty_run_says_what_is_missing() {
    let mut run = synthetic::empty();
    synthetic::calibration(&mut run);
    let mut profile = synthetic::profile(&run);
    run.samples.clear();
    run.info.missing.push(Missing { metric: "thp".into(), reason: "THP is switched off".into() });
    profile.curves.truncate(1);
    let (_, text) = rendered(&run, &profile);
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("not available: THP is switched off."), "{unwrapped}");
    assert!(unwrapped.contains("The sweep: not available: needs"), "{unwrapped}");
    assert!(unwrapped.contains("stops it for 105 ms"), "the child's curve serves as well");

    profile.curves.clear();
    run.info.environments.clear();
    rendered(&run, &profile);
}

#[test]
fn a_run_without_one_of_the_benches_has_a_note_instead() {
    let whole = synthetic::full();
    let profile = synthetic::profile(&whole);
    for (bench, note) in [
        ("fork-sweep", "Figures"),
        ("fork-table", "The table: not available"),
        ("cow-faults", "The workloads: not available"),
        ("predict-check", "The check: not available"),
        ("cow-check", "The isolation check: not available"),
        ("calibrate", ""),
        ("calibrate-cycle", ""),
    ] {
        let mut run = whole.clone();
        run.samples.retain(|sample| sample.bench != bench);
        let (_, text) = rendered(&run, &profile);
        let expected = if bench == "fork-sweep" { "The sweep: not available" } else { note };
        assert!(text.contains(expected), "{bench}");
    }
    let mut costless = profile.clone();
    costless.costs.clear();
    rendered(&whole, &costless);
}

#[test]
fn emulated_times_are_labelled_everywhere() {
    let mut run = synthetic::full();
    let profile = synthetic::profile(&run);
    run.info.environments[0].accelerator = Accelerator::Tcg;
    let (document, _) = rendered(&run, &profile);
    assert!(document.title.contains("TCG"));
    assert!(document.tables().all(|table| table.caption.contains("TCG")));
    assert!(document.plots().all(|plot| plot.title.contains("TCG")));
}
