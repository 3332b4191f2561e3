// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The derived results of a study for `--json`.

use cowlab_analysis::study::Study;
use cowlab_analysis::study::sweep as lines;
use cowlab_model::regression::Line;
use serde_json::{Value, json};

use super::{findings, shares};
use crate::document::Block;
use crate::plain;

/// The derived results: lines, rates, the check's figures, and the findings as text. What was not
/// measured is null.
pub fn summary(study: &Study) -> Value {
    let sweep = &study.sweep;
    let page = study.profile.page_size_bytes;
    let lines: Vec<Value> = sweep
        .lines
        .iter()
        .map(|line| {
            let service = line.service_bytes_per_s();
            json!({
                "write_fraction": line.fraction,
                "forks": lines::FORKS,
                "relative": fitted(&line.relative),
                "ordinary": fitted(&line.ordinary),
                "service_rate_bytes_per_s": service,
                "service_rate_pages_per_s": service.map(|e| e.scaled(1.0 / page as f64)),
            })
        })
        .collect();
    let terms = sweep.terms(page).map(|terms| {
        json!({
            "written_page_ns": terms.copied_page,
            "page_table_entry_ns": terms.entry,
            "new_process_ns": terms.process,
        })
    });
    let check = study.check.as_ref().map(|check| {
        json!({
            "points": check.points.len(),
            "median_error_ratio": check.median_error,
            "p95_error_ratio": check.p95_error,
            "worst_error_ratio": check.worst_error(),
            "coverage_ratio": check.coverage,
            "interval_half_width_ratio": check.interval_half_width,
        })
    });
    let findings = findings::section(study);
    json!({
        "lines": lines,
        "equation": terms,
        "service_to_copy_ratio": shares::service_to_copy(study),
        "fork_from_intercepts_ns": sweep.base_cost_ns(),
        "fork_without_heap_ns":
            sweep.point(0, 0.0).map(|p| p.real_ns.scaled(1.0 / lines::FORKS)),
        "check": check,
        "findings": findings.findings(),
        "not_available": findings.blocks.iter().filter_map(note).collect::<Vec<_>>(),
    })
}

fn fitted(line: &Line) -> Value {
    let worst = line.worst().map(|point| {
        json!({ "heap_bytes": point.x, "relative_residual_ratio": point.relative_residual() })
    });
    json!({
        "slope_ns_per_byte": line.slope,
        "intercept_ns": line.intercept,
        "r_squared": line.r_squared,
        "largest_residual": worst,
    })
}

fn note(block: &Block) -> Option<String> {
    let Block::Note(note) = block else { return None };
    Some(plain(note))
}
