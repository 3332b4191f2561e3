// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profile's tables.

use cowlab_analysis::picked::Picked;

use super::Row;
use crate::document::{Cell, Table};
use crate::rows::Rows;

/// Rows shown of a run with many programs.
const MOST_ROWS: usize = 60;
/// Rows whose mappings are shown one by one.
const MOST_PROGRAMS: usize = 6;

/// A column of a metric, in pages or as the unit says.
fn figure(unit: &'static str, metric: &'static str) -> impl Fn(&Row) -> Cell {
    move |row| match row.value(metric) {
        Some(value) if matches!(unit, "pages" | "faults") => Cell::count(value as u64),
        Some(value) => Cell::number(value, unit),
        None if metric == "write_fraction" && row.value("pages_mapped") > Some(0.0) => {
            Cell::Missing("pages that were its own before are written unseen".to_owned())
        }
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
    let method = rows.first().map_or("", |row| row.param("method"));
    let caption = format!("Write fractions, by method {method}");
    Rows::of("footprint-fractions", caption, &rows[..rows.len().min(MOST_ROWS)])
        .text("program", Row::name)
        .figure("times", figure("pages", "spans"))
        .unit("mapped", "pages", figure("pages", "pages_mapped"))
        .unit("written", "pages", figure("pages", "pages_written"))
        .unit("fraction", "fraction", figure("fraction", "write_fraction"))
        .unit("copied", "pages", figure("pages", "cow_pages"))
        .unit("of shared", "fraction", figure("fraction", "cow_fraction"))
        .unit("of 512-byte pages", "fraction", figure("fraction", "block_write_fraction"))
        .unit("of bytes", "fraction", figure("fraction", "byte_write_fraction"))
        .table()
}

/// The largest rows by kind of mapping.
pub(super) fn mappings(rows: &[Row], samples: &Picked) -> Table {
    let mut kinds = Vec::new();
    for row in rows.iter().take(MOST_PROGRAMS) {
        for kind in ["heap", "stack", "anonymous", "data", "named"] {
            let mut params = row.params.clone();
            params.insert("mapping".to_owned(), kind.to_owned());
            let own = samples.with("mapping", kind).by_params(&[]);
            let own = own.into_iter().find(|(of, _)| *of == params);
            kinds.extend(own.map(|(params, samples)| Row { params, samples }));
        }
    }
    Rows::of("footprint-mappings", "By mapping", &kinds)
        .text("program", Row::name)
        .text("mapping", |row| row.param("mapping").to_owned())
        .unit("mapped", "pages", figure("pages", "pages_mapped"))
        .unit("written", "pages", figure("pages", "pages_written"))
        .unit("fraction", "fraction", figure("fraction", "write_fraction"))
        .unit("copied", "pages", figure("pages", "cow_pages"))
        .unit("of files or shared", "pages", figure("pages", "file_pages"))
        .table()
}

/// What a remote fork would send.
pub(super) fn remote(rows: &[Row]) -> Table {
    let told = rows.iter().filter(|row| row.param("writer") != "either").take(MOST_ROWS);
    let told: Vec<&Row> = told.collect();
    let bytes = |metric| {
        let figure = figure("bytes", metric);
        move |row: &&Row| figure(row)
    };
    let caption =
        "What a remote fork would send: everything, or what changed since the first moment";
    Rows::of("footprint-remote", caption, &told)
        .text("program", |row| row.name())
        .unit("whole", "bytes", bytes("remote_whole_bytes"))
        .unit("changed pages", "bytes", bytes("remote_pages_bytes"))
        .unit("changed bytes", "bytes", bytes("remote_changed_bytes"))
        .table()
}

/// Policies in hindsight; `None` where the order of writes was not seen.
pub(super) fn policies(samples: &Picked) -> Option<Table> {
    let policies = samples.words("policy").into_iter();
    let each = policies.flat_map(|policy| samples.with("policy", policy).by_params(&[]));
    let each: Vec<Row> = each.map(|(params, samples)| Row { params, samples }).collect();
    let caption = "What copying ahead would have done with these writes in their order";
    let table = Rows::of("footprint-policies", caption, &each)
        .text("policy", |row| row.param("policy").to_owned())
        .text("writer", |row| row.param("writer").to_owned())
        .unit("first writes", "pages", figure("pages", "first_writes"))
        .unit("faults left", "faults", figure("faults", "faults_left"))
        .unit("copied ahead", "pages", figure("pages", "precopied_pages"))
        .unit("then written", "fraction", figure("fraction", "hit_fraction"));
    (!each.is_empty()).then(|| table.table())
}

/// What the looking cost.
pub(super) fn cost(samples: &Picked) -> Table {
    let median = |metric: &str| samples.estimate(metric).map(|e| e.value);
    let first = |metric: &str| samples.values(metric).first().copied();
    let longest = samples.values("reading_ns").into_iter().reduce(f64::max);
    let figures = [
        ("one reading of the page tables, median", "ns", median("reading_ns")),
        ("the longest", "ns", longest),
        ("one copy of the memory, median", "ns", median("copy_ns")),
        ("stops", "stops", first("stops")),
        ("time for which somebody was stopped, together", "ns", first("stopped_ns")),
        ("the longest stop of a process that went on", "ns", first("longest_stop_ns")),
        ("the longest hold of one before its end or exec", "ns", first("longest_end_ns")),
        ("forks that were seen", "forks", first("forks")),
        (
            "children that shared their parent's memory (vfork, posix_spawn)",
            "spawns",
            first("spawns"),
        ),
        ("ends that were not seen", "spans", first("unseen")),
    ];
    let known = figures.into_iter().filter_map(|(what, unit, figure)| Some((what, unit, figure?)));
    Rows::of("footprint-cost", "What the looking cost", &known.collect::<Vec<_>>())
        .text("what", |(what, ..)| *what)
        .figure("figure", |(_, unit, figure)| Cell::number(*figure, unit))
        .table()
}
