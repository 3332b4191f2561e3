// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events by type, and the values of a field.

use std::collections::BTreeMap;

use cowlab_casper::profile::{Profile, TypeCount};

use super::words::{code, share};
use super::{Group, View};
use cowlab_document::{Block, Cell, Rows, fmt};

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
    let shown = &rows[..rows.len().min(view.rows())];
    let mut table = Rows::of("event-types", "Events by type, from the recording's begin", shown);
    if view.group != Group::All {
        let process = |row: &Row| row.process.unwrap_or_default();
        table = table
            .text("Process", |row| format!("{1} (#{0})", process(row).0, process(row).1))
            .text("Program", |row| {
                code(profile.metadata.program(process(row).0).unwrap_or_default())
            });
        if view.group == Group::Thread {
            table = table.text("Thread", |row| {
                let tid = row.tid.unwrap_or_default();
                let name = profile.metadata.thread(process(row).0, tid).unwrap_or_default();
                format!("{tid} {}", code(name))
            });
        }
    }
    let at = |ticks| Cell::number(profile.clock.seconds(ticks) * 1e9, "ns");
    let table = table
        .text("Type", |row| {
            code(&row.name.clone().unwrap_or_else(|| format!("type {}", row.event_type)))
        })
        .count("Events", |row| row.count)
        .unit("Bytes", "bytes", |row| Cell::number(row.bytes as f64, "bytes"))
        .unit("First at", "ns", |row| at(row.first))
        .unit("Last at", "ns", |row| at(row.last))
        .number("Rate", "per_s", "all events at one moment", |row| {
            let ticks = row.last.saturating_sub(row.first) as f64;
            let seconds = profile.clock.span_ns(ticks) / 1e9;
            (seconds > 0.0).then(|| (row.count - 1) as f64 / seconds)
        })
        .table();
    let mut blocks = vec![Block::Table(table)];
    if rows.len() > view.rows() {
        let all = fmt::count(rows.len() as u64);
        blocks.push(Block::Note(format!("{} of {all} rows are shown: see --limit.", view.limit)));
    }
    blocks
}

pub(super) fn field(profile: &Profile, view: &View) -> Vec<Block> {
    let Some(field) = &profile.field else { return Vec::new() };
    let name = code(&format!("{}.{}", field.event, field.field));
    let all: u64 = field.values.iter().map(|value| value.count).sum::<u64>() + field.others;
    let unit = if field.unit.is_empty() { String::new() } else { format!(" ({})", field.unit) };
    let caption = format!("{name}{unit}: values of {} events", fmt::count(all));
    let shown = &field.values[..field.values.len().min(view.rows())];
    let table = Rows::of("field-values", caption, shown)
        .text("Value", |value| code(&value.text))
        .count("Events", |value| value.count)
        .unit("Share", "fraction", |value| share(value.count as f64, all as f64))
        .table();
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
