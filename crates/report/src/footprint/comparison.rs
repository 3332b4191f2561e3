// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two footprints: what each fork copied and made new, by mapping.

use std::collections::BTreeMap;

use cowlab_analysis::samples::Samples;
use cowlab_schema::footprint::{self as names, Mapping};
use cowlab_store::Run;

use super::rows;
use crate::comparison;
use crate::{Block, Cell, Column, Document, Rows, Section};

/// A program with its span and the side that writes; the mapping; copied or made new.
type Line = (String, Mapping, &'static str);

const LISTED: usize = 40;

/// Bytes of one span, by line; the number of spans of each program.
fn lines(run: &Run) -> BTreeMap<Line, f64> {
    let page_bytes = run.info.environments.first().map_or(4096.0, |of| of.page_size_bytes as f64);
    let samples = Samples::of(&run.samples, names::BENCH).without(names::REGION);
    let all = rows(&samples.with(names::MAPPING, Mapping::All));
    let spans: BTreeMap<String, f64> = all
        .iter()
        .filter_map(|row| Some((row.name(), row.samples.first(names::SPANS)?.max(1.0))))
        .collect();
    let mut lines = BTreeMap::new();
    for row in rows(&samples) {
        let Some(mapping) = names::MAPPING.of(&row.params) else { continue };
        let count = spans.get(&row.name()).copied().unwrap_or(1.0);
        for (what, metric) in [("copied", names::COW_PAGES), ("made new", names::NEW_PAGES)] {
            if let Some(pages) = row.samples.first(metric) {
                lines.insert((row.name(), mapping, what), pages * page_bytes / count);
            }
        }
    }
    lines
}

pub fn comparison(runs: [&Run; 2], run_names: [&str; 2]) -> Document {
    let [first, second] = runs.map(lines);
    let mut keys: Vec<&Line> = first.keys().chain(second.keys()).collect();
    keys.sort();
    keys.dedup();
    let of = |line: &Line| [first.get(line).copied(), second.get(line).copied()];
    let change = |line: &Line| of(line)[1].unwrap_or(0.0) - of(line)[0].unwrap_or(0.0);
    // The children that copied most: workers, where the parent forked some.
    let is_worker =
        |line: &&&Line| line.0.ends_with(", child") && (line.1, line.2) == (Mapping::All, "copied");
    let copied = |line: &Line| of(line)[0].unwrap_or(0.0);
    let workers = keys.iter().filter(is_worker).max_by(|a, b| copied(a).total_cmp(&copied(b)));
    let answer = workers.map_or_else(
        || format!("{} beside {}", run_names[0], run_names[1]),
        |line| {
            let each = of(line).map(|bytes| bytes.unwrap_or(0.0));
            comparison::copied(&format!(" a fork by {}", line.0), each, run_names)
        },
    );
    let mut listed: Vec<&Line> = keys.into_iter().filter(|line| change(line) != 0.0).collect();
    listed.sort_by(|a, b| change(b).abs().total_cmp(&change(a).abs()));
    listed.truncate(LISTED);
    let cell = |bytes: Option<f64>| match bytes {
        Some(bytes) => Cell::number(bytes, "bytes"),
        None => Cell::Missing("not in this run".to_owned()),
    };
    let table = Rows::of("changes", "By mapping, the largest change first, of one fork", &listed)
        .text("program", |line| line.0.as_str())
        .text("mapping", |line| line.1.name())
        .text("what", |line| line.2)
        .unit("first", "bytes", |line| cell(of(line)[0]))
        .unit("second", "bytes", |line| cell(of(line)[1]))
        .column(Column::unit("change", "bytes"), |line| Cell::number(change(line), "bytes"))
        .table();
    let mut document = Document::new("Comparison of two footprints", answer);
    let blocks = vec![Block::Table(table)];
    document.sections.push(Section::new("comparison", "By mapping", blocks));
    document
}
