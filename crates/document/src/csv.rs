// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each table as CSV (RFC 4180): raw values at full precision, empty where nothing was measured.

use std::collections::HashSet;

use crate::document::{Cell, Column, Document, Table};
use crate::inline;

/// File name and contents of every table of `document`.
pub fn tables(document: &Document) -> Vec<(String, String)> {
    let mut taken = HashSet::new();
    document
        .tables()
        .map(|table| (unique(&mut taken, file_stem(&table.id)) + ".csv", table_csv(table)))
        .collect()
}

/// One table as CSV. A column with estimates becomes three: value, low, high.
pub fn table_csv(table: &Table) -> String {
    let wide: Vec<bool> = (0..table.columns.len())
        .map(|index| {
            table.rows.iter().any(|row| matches!(row.get(index), Some(Cell::Estimate { .. })))
        })
        .collect();

    let mut taken = HashSet::new();
    let mut head = Vec::new();
    for (column, &wide) in table.columns.iter().zip(&wide) {
        let parts: &[&str] = if wide { &["", "low", "high"] } else { &[""] };
        head.extend(parts.iter().map(|part| unique(&mut taken, field_name(column, part))));
    }
    let mut out = line(head);
    for row in &table.rows {
        let fields = wide.iter().enumerate().flat_map(|(index, &wide)| {
            let mut fields = row.get(index).map_or_else(Vec::new, cell_fields);
            fields.resize(if wide { 3 } else { 1 }, String::new());
            fields
        });
        out.push_str(&line(fields));
    }
    out
}

/// The download's file name without its ending: ASCII letters, digits, `-` and `_` only.
pub(crate) fn file_stem(id: &str) -> String {
    let stem: String =
        id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    let stem = stem.trim_matches('-');
    if stem.is_empty() { "table".into() } else { stem.into() }
}

fn cell_fields(cell: &Cell) -> Vec<String> {
    match cell {
        Cell::Text(text) => vec![inline::plain(text)],
        Cell::Number { value, .. } => vec![raw(*value)],
        Cell::Estimate { value, low, high, .. } => vec![raw(*value), raw(*low), raw(*high)],
        Cell::Missing(_) => vec![String::new()],
    }
}

/// The shortest digits that read back as the same number; empty unless finite.
fn raw(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

/// `Fork time`, `low`, `ns` → `fork_time_low_ns`.
fn field_name(column: &Column, part: &str) -> String {
    let unit = column.unit.as_deref().unwrap_or("").replace('%', "percent").replace("/s", "per_s");
    let words = format!("{} {part} {unit}", column.name).to_lowercase();
    let words: Vec<&str> =
        words.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    if words.is_empty() { "column".into() } else { words.join("_") }
}

fn unique(taken: &mut HashSet<String>, name: String) -> String {
    let numbered = (2..).map(|n| format!("{name}_{n}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
    let free = free.expect("an endless iterator");
    taken.insert(free.clone());
    free
}

fn line(fields: impl IntoIterator<Item = String>) -> String {
    fields.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n"
}

fn quoted(field: String) -> String {
    if field.contains(['"', ',', '\r', '\n']) || field.trim() != field {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_values_and_three_columns_for_an_estimate() {
        let columns = vec![Column::text("Policy, name"), Column::unit("Fork time", "ns")];
        let mut table = Table::new("fork", "", columns);
        table.push(vec![Cell::text("say \"x\""), Cell::estimate(1.0 / 3.0, 0.25, 1e-7, "ns")]);
        table.push(vec![Cell::text("none"), Cell::Missing("needs root".into())]);
        let expected = "policy_name,fork_time_ns,fork_time_low_ns,fork_time_high_ns\r\n\
                        \"say \"\"x\"\"\",0.3333333333333333,0.25,0.0000001\r\n\
                        none,,,\r\n";
        assert_eq!(table_csv(&table), expected);
    }

    #[test]
    fn names_are_safe_and_unique() {
        assert_eq!(file_stem("../../etc/passwd"), "etc-passwd");
        assert_eq!(file_stem(""), "table");
        let mut table =
            Table::new("t", "", vec![Column::text("a"), Column::text("A"), Column::text("%")]);
        table.push(vec![Cell::text("1"), Cell::text("2"), Cell::text("=3")]);
        assert_eq!(table_csv(&table), "a,a_2,column\r\n1,2,=3\r\n");
    }
}
