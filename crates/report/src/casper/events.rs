// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events by type, and the values of a field.

use std::collections::BTreeMap;

use cowlab_casper::profile::{Profile, TypeCount};

use super::words::{code, share};
use super::{Group, View};
use crate::{Block, Cell, Column, Table, fmt};

/// A group's events of one type.
pub(super) struct Row {
    pub process: Option<(u32, u32)>,
    pub tid: Option<u32>,
    pub event_type: u16,
    pub name: Option<String>,
    pub count: u64,
    pub bytes: u64,
    pub first: u64,
    pub last: u64,
}

/// Events in the groups of a view, the most frequent first within each.
pub(super) fn rows(profile: &Profile, group: Group) -> Vec<Row> {
    let mut groups: BTreeMap<_, Row> = BTreeMap::new();
    for of in &profile.types {
        let TypeCount { owner, event_type, name, .. } = of;
        let process = (group != Group::All).then_some((owner.process, owner.pid));
        let tid = (group == Group::Thread).then_some(owner.tid);
        let key = (process, tid, *event_type, name.clone());
        let row = groups.entry(key).or_insert_with(|| Row {
            process,
            tid,
            event_type: *event_type,
            name: name.clone(),
            count: 0,
            bytes: 0,
            first: u64::MAX,
            last: 0,
        });
        row.count += of.count;
        row.bytes += of.bytes;
        row.first = row.first.min(of.first);
        row.last = row.last.max(of.last);
    }
    let mut rows: Vec<Row> = groups.into_values().collect();
    rows.sort_by_key(|row| (row.process, row.tid, std::cmp::Reverse(row.count)));
    rows
}

pub(super) fn blocks(profile: &Profile, view: &View) -> Vec<Block> {
    let rows = rows(profile, view.group);
    if rows.is_empty() {
        return vec![Block::Text("The trace has no events.".to_owned())];
    }
    let mut columns = Vec::new();
    if view.group != Group::All {
        columns.extend([Column::text("Process"), Column::text("Program")]);
    }
    if view.group == Group::Thread {
        columns.push(Column::text("Thread"));
    }
    columns.extend([
        Column::text("Type"),
        Column::number("Events"),
        Column::unit("Bytes", "bytes"),
        Column::unit("First at", "ns"),
        Column::unit("Last at", "ns"),
        Column::unit("Rate", "per_s"),
    ]);
    let mut table =
        Table::new("event-types", "Events by type, from the recording's begin", columns);
    let at = |ticks| Cell::number(profile.clock.seconds(ticks) * 1e9, "ns");
    for row in rows.iter().take(view.rows()) {
        let mut cells = Vec::new();
        if let Some((process, pid)) = row.process {
            let known = profile.metadata.processes().get(&process);
            cells.push(Cell::text(format!("{pid} (#{process})")));
            cells.push(Cell::text(code(known.map_or("", |process| &process.program))));
            if let Some(tid) = row.tid {
                let name = profile.metadata.thread(process, tid).unwrap_or_default();
                cells.push(Cell::text(format!("{tid} {}", code(name))));
            }
        }
        let name = row.name.clone().unwrap_or_else(|| format!("type {}", row.event_type));
        let seconds = profile.clock.span_ns((row.last.saturating_sub(row.first)) as f64) / 1e9;
        let rate = (seconds > 0.0).then(|| (row.count - 1) as f64 / seconds);
        cells.extend([
            Cell::text(code(&name)),
            Cell::count(row.count),
            Cell::number(row.bytes as f64, "bytes"),
            at(row.first),
            at(row.last),
            rate.map_or_else(
                || Cell::Missing("all events at one moment".to_owned()),
                |rate| Cell::number(rate, "per_s"),
            ),
        ]);
        table.push(cells);
    }
    let mut blocks = vec![Block::Table(table)];
    if rows.len() > view.rows() {
        let all = fmt::count(rows.len() as u64);
        blocks.push(Block::Note(format!("{} of {all} rows are shown: see --limit.", view.limit)));
    }
    blocks
}

/// The values of a field.
pub(super) fn field(profile: &Profile, view: &View) -> Vec<Block> {
    let Some(field) = &profile.field else { return Vec::new() };
    let name = code(&format!("{}.{}", field.event, field.field));
    let all: u64 = field.values.iter().map(|value| value.count).sum::<u64>() + field.others;
    let unit = if field.unit.is_empty() { String::new() } else { format!(" ({})", field.unit) };
    let caption = format!("{name}{unit}: values of {} events", fmt::count(all));
    let columns =
        vec![Column::text("Value"), Column::number("Events"), Column::unit("Share", "fraction")];
    let mut table = Table::new("field-values", caption, columns);
    for value in field.values.iter().take(view.rows()) {
        table.push(vec![
            Cell::text(code(&value.text)),
            Cell::count(value.count),
            share(value.count as f64, all as f64),
        ]);
    }
    let mut blocks = vec![Block::Table(table)];
    let numbers = &field.numbers;
    if let (Some(mean), Some(p50), Some(p99)) =
        (numbers.mean(), numbers.quantile(0.5), numbers.quantile(0.99))
    {
        let exact = |value: u64| fmt::count(value);
        blocks.push(Block::Text(format!(
            "Min {}, P50 {}, P99 {}, max {}, mean {}.",
            exact(numbers.min),
            exact(p50),
            exact(p99),
            exact(numbers.max),
            fmt::number(mean)
        )));
    }
    let rest = field.values.len().saturating_sub(view.rows());
    if rest > 0 {
        let (rest, values) = (fmt::count(rest as u64), fmt::count(field.values.len() as u64));
        blocks.push(Block::Note(format!("{rest} of {values} values are not shown: see --limit.")));
    }
    if field.others > 0 {
        let others = fmt::count(field.others);
        blocks.push(Block::Note(format!("{others} events have other values, too many to keep.")));
    }
    if field.without > 0 {
        let without = fmt::count(field.without);
        blocks.push(Block::Note(format!("{without} events end before the field.")));
    }
    blocks
}
