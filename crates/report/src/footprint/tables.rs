// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profile's tables.

use super::Row;
use crate::document::{Cell, Column, Table};
use cowlab_analysis::picked::Picked;

/// Rows shown of a run with many programs.
const MOST_ROWS: usize = 60;
/// Rows whose mappings are shown one by one.
const MOST_PROGRAMS: usize = 6;

fn number(row: &Row, metric: &str, unit: &str) -> Cell {
    match row.value(metric) {
        Some(value) if unit == "pages" => Cell::count(value as u64),
        Some(value) => Cell::number(value, unit),
        None => Cell::Missing(missing(metric).to_owned()),
    }
}

fn missing(metric: &str) -> &'static str {
    match metric {
        "byte_write_fraction" | "block_write_fraction" | "remote_changed_bytes" => {
            "only --method snapshot compares bytes"
        }
        _ => "nothing of it was there",
    }
}

/// Write fractions, a row for each program and span.
pub(super) fn fractions(rows: &[Row]) -> Table {
    let columns = vec![
        Column::text("program"),
        Column::number("times"),
        Column::unit("mapped", "pages"),
        Column::unit("written", "pages"),
        Column::unit("fraction", "fraction"),
        Column::unit("copied", "pages"),
        Column::unit("of shared", "fraction"),
        Column::unit("of 512-byte pages", "fraction"),
        Column::unit("of bytes", "fraction"),
    ];
    let methods: Vec<&str> = rows.iter().map(|row| row.param("method")).collect();
    let method = methods.first().copied().unwrap_or("");
    let caption = format!("Write fractions, by method {method}");
    let mut table = Table::new("footprint-fractions", caption, columns);
    for row in rows.iter().take(MOST_ROWS) {
        table.push(vec![
            Cell::text(row.name()),
            number(row, "spans", "pages"),
            number(row, "pages_mapped", "pages"),
            number(row, "pages_written", "pages"),
            number(row, "write_fraction", "fraction"),
            number(row, "cow_pages", "pages"),
            number(row, "cow_fraction", "fraction"),
            number(row, "block_write_fraction", "fraction"),
            number(row, "byte_write_fraction", "fraction"),
        ]);
    }
    table
}

/// The largest rows by kind of mapping.
pub(super) fn mappings(rows: &[Row], samples: &Picked) -> Table {
    let columns = vec![
        Column::text("program"),
        Column::text("mapping"),
        Column::unit("mapped", "pages"),
        Column::unit("written", "pages"),
        Column::unit("fraction", "fraction"),
        Column::unit("copied", "pages"),
        Column::unit("of files or shared", "pages"),
    ];
    let mut table = Table::new("footprint-mappings", "By mapping", columns);
    for row in rows.iter().take(MOST_PROGRAMS) {
        for kind in ["heap", "stack", "anonymous", "data", "named"] {
            let mut params = row.params.clone();
            params.insert("mapping".to_owned(), kind.to_owned());
            let own = samples.with("mapping", kind).by_params("");
            let own = own.into_iter().find(|(of, _)| *of == params);
            let Some((params, samples)) = own else { continue };
            let of_kind = Row { params, samples };
            table.push(vec![
                Cell::text(row.name()),
                Cell::text(kind),
                number(&of_kind, "pages_mapped", "pages"),
                number(&of_kind, "pages_written", "pages"),
                number(&of_kind, "write_fraction", "fraction"),
                number(&of_kind, "cow_pages", "pages"),
                number(&of_kind, "file_pages", "pages"),
            ]);
        }
    }
    table
}

/// What a remote fork would send.
pub(super) fn remote(rows: &[Row]) -> Table {
    let columns = vec![
        Column::text("program"),
        Column::unit("whole", "bytes"),
        Column::unit("changed pages", "bytes"),
        Column::unit("changed bytes", "bytes"),
    ];
    let caption =
        "What a remote fork would send: everything, or what changed since the first moment";
    let mut table = Table::new("footprint-remote", caption, columns);
    for row in rows.iter().filter(|row| row.param("writer") != "either").take(MOST_ROWS) {
        table.push(vec![
            Cell::text(row.name()),
            number(row, "remote_whole_bytes", "bytes"),
            number(row, "remote_pages_bytes", "bytes"),
            number(row, "remote_changed_bytes", "bytes"),
        ]);
    }
    table
}

/// Policies in hindsight; `None` where the order of writes was not seen.
pub(super) fn policies(samples: &Picked) -> Option<Table> {
    let columns = vec![
        Column::text("policy"),
        Column::text("writer"),
        Column::unit("first writes", "pages"),
        Column::unit("faults left", "faults"),
        Column::unit("copied ahead", "pages"),
        Column::unit("then written", "fraction"),
    ];
    let caption = "What copying ahead would have done with these writes in their order";
    let mut table = Table::new("footprint-policies", caption, columns);
    for policy in samples.words("policy") {
        for (params, samples) in samples.with("policy", policy).by_params("") {
            let row = Row { params, samples };
            table.push(vec![
                Cell::text(policy),
                Cell::text(row.param("writer")),
                number(&row, "first_writes", "pages"),
                number(&row, "faults_left", "pages"),
                number(&row, "precopied_pages", "pages"),
                number(&row, "hit_fraction", "fraction"),
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What the looking cost.
pub(super) fn cost(samples: &Picked) -> Table {
    let columns = vec![Column::text("what"), Column::number("figure")];
    let mut table = Table::new("footprint-cost", "What the looking cost", columns);
    let mut add = |what: &str, cell: Cell| table.push(vec![Cell::text(what), cell]);
    if let Some(reading) = samples.estimate("reading_ns") {
        let most = samples.values("reading_ns").into_iter().fold(0.0, f64::max);
        add("one reading of the page tables, median", Cell::number(reading.value, "ns"));
        add("the longest", Cell::number(most, "ns"));
    }
    if let Some(copy) = samples.estimate("copy_ns") {
        add("one copy of the memory, median", Cell::number(copy.value, "ns"));
    }
    for (metric, what, unit) in [
        ("stops", "stops", "stops"),
        ("stopped_ns", "time for which somebody was stopped, together", "ns"),
        ("longest_stop_ns", "the longest stop of a process that went on", "ns"),
        ("longest_end_ns", "the longest hold of one before its end or exec", "ns"),
        ("forks", "forks that were seen", "forks"),
        ("spawns", "children that shared their parent's memory (vfork, posix_spawn)", "spawns"),
        ("unseen", "ends that were not seen", "spans"),
    ] {
        if let Some(value) = samples.values(metric).first() {
            add(what, Cell::number(*value, unit));
        }
    }
    table
}
