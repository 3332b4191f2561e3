// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The profile's tables.

use cowlab_analysis::samples::Samples;
use cowlab_schema::footprint::{self as names, Mapping, READING_NS};
use cowlab_schema::{Metric, Writer};

use super::Row;
use crate::Rows;
use crate::cells;
use crate::document::{Cell, Table};

/// Rows shown of a run with many programs.
const MOST_ROWS: usize = 60;
const ON_SCREEN: usize = 9;
/// Rows whose mappings are shown one by one.
const MOST_PROGRAMS: usize = 6;

fn cell(row: &Row, metric: Metric) -> Cell {
    let compared =
        [names::BYTE_WRITE_FRACTION, names::BLOCK_WRITE_FRACTION, names::REMOTE_CHANGED_BYTES];
    let missing = match metric {
        names::WRITE_FRACTION if row.samples.first(names::PAGES_MAPPED) > Some(0.0) => {
            "pages that were its own before are written unseen"
        }
        metric if compared.contains(&metric) => "only --method snapshot compares bytes",
        _ => "nothing of it was there",
    };
    cells::counted(row.samples.first(metric), metric.unit, missing)
}

trait Shows {
    /// A column of a metric, in its own unit.
    fn shows(self, name: &str, metric: Metric) -> Self;
}

impl Shows for Rows<'_, Row<'_>> {
    fn shows(self, name: &str, metric: Metric) -> Self {
        self.unit(name, metric.unit, |row| cell(row, metric))
    }
}

/// Write fractions, a row for each program and span.
pub(super) fn fractions(rows: &[Row]) -> Table {
    let method = rows.first().map_or("", |row| row.param(names::METHOD));
    let caption = format!("Write fractions, by method {method}");
    Rows::of("footprint-fractions", caption, &rows[..rows.len().min(MOST_ROWS)])
        .text("program", Row::name)
        .figure("times", |row| cell(row, names::SPANS))
        .shows("mapped", names::PAGES_MAPPED)
        .shows("written", names::PAGES_WRITTEN)
        .shows("fraction", names::WRITE_FRACTION)
        .shows("copied", names::COW_PAGES)
        .shows("of shared", names::COW_FRACTION)
        .shows("of 512-byte pages", names::BLOCK_WRITE_FRACTION)
        .shows("of bytes", names::BYTE_WRITE_FRACTION)
        .table()
}

/// The largest rows on one screen: of forks what they share and copy, else what was written.
pub(super) fn largest(rows: &[Row]) -> Table {
    let shown = &rows[..rows.len().min(ON_SCREEN)];
    let caption = match rows.len() - shown.len() {
        0 => "All times together".to_owned(),
        more => format!("All times together; {more} smaller rows are in the report"),
    };
    let table = Rows::of("footprint-largest", caption, shown)
        .text("program", Row::name)
        .figure("times", |row| cell(row, names::SPANS));
    let table = match rows.iter().any(Row::is_fork) {
        true => table
            .shows("shared", names::START_PAGES)
            .shows("copied", names::COW_PAGES)
            .shows("of shared", names::COW_FRACTION),
        false => table
            .shows("mapped", names::PAGES_MAPPED)
            .shows("written", names::PAGES_WRITTEN)
            .shows("fraction", names::WRITE_FRACTION),
    };
    table.table()
}

/// The largest rows by kind of mapping.
pub(super) fn mappings(rows: &[Row], samples: &Samples) -> Table {
    let mut kinds = Vec::new();
    for row in rows.iter().take(MOST_PROGRAMS) {
        let is_shown = |kind: &&Mapping| !matches!(kind, Mapping::Special | Mapping::All);
        for kind in Mapping::ALL.iter().filter(is_shown) {
            let mut params = row.params.clone();
            names::MAPPING.put(&mut params, *kind);
            let own = samples.with(names::MAPPING, *kind).by_params(&[]).remove(&params);
            kinds.extend(own.map(|samples| Row { params, samples }));
        }
    }
    Rows::of("footprint-mappings", "By mapping", &kinds)
        .text("program", Row::name)
        .text("mapping", |row| row.param(names::MAPPING).to_owned())
        .shows("mapped", names::PAGES_MAPPED)
        .shows("written", names::PAGES_WRITTEN)
        .shows("fraction", names::WRITE_FRACTION)
        .shows("copied", names::COW_PAGES)
        .shows("of files or shared", names::FILE_PAGES)
        .table()
}

/// What a remote fork would send.
pub(super) fn remote(rows: &[Row]) -> Table {
    let told =
        rows.iter().filter(|row| row.param(names::WRITER) != Writer::Either.name()).take(MOST_ROWS);
    let told: Vec<&Row> = told.collect();
    let caption =
        "What a remote fork would send: everything, or what changed since the first moment";
    Rows::of("footprint-remote", caption, &told)
        .text("program", |row| row.name())
        .unit("whole", "bytes", |row| cell(row, names::REMOTE_WHOLE_BYTES))
        .unit("changed pages", "bytes", |row| cell(row, names::REMOTE_PAGES_BYTES))
        .unit("changed bytes", "bytes", |row| cell(row, names::REMOTE_CHANGED_BYTES))
        .table()
}

/// Policies in hindsight; `None` where the order of writes was not seen.
pub(super) fn policies(samples: &Samples) -> Option<Table> {
    let each: Vec<Row> =
        samples.by(names::POLICY).iter().flat_map(|(_, samples)| super::rows(samples)).collect();
    let caption = "What copying ahead would have done with these writes in their order";
    let table = Rows::of("footprint-policies", caption, &each)
        .text("policy", |row| row.param(names::POLICY).to_owned())
        .text("writer", |row| row.param(names::WRITER).to_owned())
        .shows("first writes", names::FIRST_WRITES)
        .shows("faults left", names::FAULTS_LEFT)
        .shows("copied ahead", names::PRECOPIED_PAGES)
        .shows("then written", names::HIT_FRACTION);
    (!each.is_empty()).then(|| table.table())
}

pub(super) fn cost(samples: &Samples) -> Table {
    let figures = [
        ("one reading of the page tables, median", READING_NS, samples.median(READING_NS)),
        ("the longest", READING_NS, samples.largest(READING_NS)),
        ("one copy of the memory, median", names::COPY_NS, samples.median(names::COPY_NS)),
    ];
    let counted = [
        ("stops", names::STOPS),
        ("time for which somebody was stopped, together", names::STOPPED_NS),
        ("the longest stop of a process that went on", names::LONGEST_STOP_NS),
        ("the longest hold of one before its end or exec", names::LONGEST_END_NS),
        ("forks that were seen", names::FORKS),
        ("children that shared their parent's memory (vfork, posix_spawn)", names::SPAWNS),
        ("ends that were not seen", names::UNSEEN),
    ];
    let counted = counted.map(|(what, metric)| (what, metric, samples.first(metric)));
    let known = figures.into_iter().chain(counted);
    let known = known.filter_map(|(what, metric, figure)| Some((what, metric.unit, figure?)));
    Rows::of("footprint-cost", "What the looking cost", &known.collect::<Vec<_>>())
        .text("what", |(what, ..)| *what)
        .figure("figure", |(_, unit, figure)| Cell::number(*figure, unit))
        .table()
}
