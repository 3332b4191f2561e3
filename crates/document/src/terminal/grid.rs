// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table for a terminal: no rules between rows, figures aligned on their units, names whole.

use comfy_table::{
    Cell as Shown, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Drawn,
    TableStyle, Width,
};

use super::{char_width, clean, gap};
use crate::document::{Cell, Table};
use crate::inline;

/// A space at which no line is broken, and that is not cut off; a space where it is shown.
pub const TIED: char = '\u{e000}';
const BETWEEN: u16 = 2;

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// The words of a table, ready to be laid out.
pub struct Grid {
    pub heads: Vec<String>,
    pub rows: Vec<Vec<String>>,
    numeric: Vec<bool>,
}

impl Grid {
    /// `width`: of the terminal, which decides whether intervals stand beside their figures.
    pub fn of(table: &Table, reasons: &[&str], width: usize) -> Grid {
        let text = |cell: &Cell| match cell {
            Cell::Missing(reason) => gap(reasons, reason),
            cell => clean(&inline::plain(cell.display())),
        };
        let mut grid = Grid {
            heads: table.columns.iter().map(|column| clean(&column.heading())).collect(),
            rows: table.rows.iter().map(|row| row.iter().map(text).collect()).collect(),
            numeric: table.columns.iter().map(|column| column.numeric).collect(),
        };
        let numeric = || (0..table.columns.len()).filter(|index| table.columns[*index].numeric);
        let split: Vec<Vec<[String; 3]>> = numeric()
            .map(|index| grid.rows.iter().map(|row| split(&row[index])).collect())
            .collect();
        for (index, parts) in numeric().zip(&split) {
            grid.set(index, aligned(parts, false));
        }
        for (index, parts) in numeric().zip(&split) {
            let beside = aligned(parts, true);
            let room = beside.iter().map(|cell| char_width(cell)).max().unwrap_or(0);
            // What the other columns cannot do without is theirs.
            if room + grid.least_width() - grid.least_of(index) <= width {
                grid.set(index, beside);
            }
        }
        grid.keep_names(width);
        grid
    }

    fn set(&mut self, index: usize, cells: Vec<String>) {
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row[index] = cell;
        }
    }

    /// What a row is of stands in one line, where that leaves the others enough.
    fn keep_names(&mut self, width: usize) {
        let names = self.rows.iter().filter_map(|row| row.first());
        let short = |name: &&String| char_width(name) <= width * 2 / 5;
        let room = names.clone().filter(short).map(|name| char_width(name)).max().unwrap_or(0);
        if self.least_width() + room.saturating_sub(self.least_of(0)) <= width {
            let whole = |name: &String| if short(&name) { tied(name) } else { name.clone() };
            let names = names.map(whole).collect();
            self.set(0, names);
        }
    }

    /// Without this much room words would be broken.
    pub fn least_width(&self) -> usize {
        let columns: usize = (0..self.heads.len()).map(|index| self.least_of(index)).sum();
        columns + self.heads.len().saturating_sub(1) * usize::from(BETWEEN)
    }

    fn least_of(&self, index: usize) -> usize {
        let cells = self.rows.iter().map(|row| &row[index]).chain([&self.heads[index]]);
        cells.flat_map(|cell| cell.split(' ')).map(char_width).max().unwrap_or(0)
    }

    /// At most `width` columns of text wide.
    pub fn render(&self, width: u16) -> String {
        let mut drawn = Drawn::new();
        drawn.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
        // The last column's padding is not shown.
        drawn.set_width(width + BETWEEN);
        let align = |(index, text): (usize, &String)| {
            let right = self.numeric.get(index).is_some_and(|numeric| *numeric);
            let side = if right { CellAlignment::Right } else { CellAlignment::Left };
            Shown::new(text).set_alignment(side)
        };
        drawn.set_header(self.heads.iter().enumerate().map(align));
        for row in &self.rows {
            drawn.add_row(row.iter().enumerate().map(align));
        }
        for (index, column) in drawn.column_iter_mut().enumerate() {
            let least = u16::try_from(self.least_of(index)).unwrap_or(u16::MAX / 2);
            column.set_padding((0, BETWEEN));
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least + BETWEEN)));
        }
        // So is that of the rule, which would be seen.
        let over = usize::from(BETWEEN) * '─'.len_utf8();
        let line = |line: &str| match line.starts_with('─') {
            true => line[..line.len().saturating_sub(over)].to_owned(),
            false => line.trim_end().to_owned(),
        };
        let text = drawn.to_string().replace(TIED, " ");
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Figures of a column, so that flush right their units stand below each other; intervals too where
/// they stand `beside` them, and else where the only blank is that may be a line's end.
fn aligned(parts: &[[String; 3]], beside: bool) -> Vec<String> {
    let widest = |part: usize| parts.iter().map(|of| char_width(&of[part])).max().unwrap_or(0);
    let (unit_width, interval_width) = (widest(1), widest(2));
    let padded =
        |text: &str, width| format!("{text}{}", tied(&" ".repeat(width - char_width(text))));
    let join = |[number, unit, interval]: &[String; 3]| {
        let figure = format!("{number}{}", padded(unit, unit_width));
        match interval.is_empty() {
            _ if figure.chars().all(|c| c == TIED) => String::new(),
            _ if beside && interval_width > 0 => {
                format!("{figure}{TIED}{}", padded(interval, interval_width))
            }
            false => format!("{figure} {interval}"),
            true => figure,
        }
    };
    parts.iter().map(join).collect()
}

/// `2.13`, ` µs`, and `(2.05 to 2.21)` of `2.13 µs (2.05 to 2.21)`.
fn split(cell: &str) -> [String; 3] {
    let (figure, interval) = match cell.split_once(" (") {
        Some((figure, interval)) => (figure, format!("({interval}")),
        None => (cell, String::new()),
    };
    let is_unit = |c: char| !c.is_ascii_digit() && !",.+-–<>".contains(c);
    let unit = match figure.rfind(|c: char| c.is_ascii_digit()) {
        Some(last) if figure[last + 1..].chars().all(is_unit) => last + 1,
        _ => figure.len(),
    };
    [tied(&figure[..unit]), tied(&figure[unit..]), tied(&interval)]
}

fn tied(text: &str) -> String {
    text.replace(' ', &TIED.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Column;

    fn table() -> Table {
        let columns = vec![
            Column::text("name"),
            Column::number("time"),
            Column::number("with a long heading"),
        ];
        let mut table = Table::new("t", "", columns);
        for (value, low) in [(2130.0, 2050.0), (11.8e6, 11.1e6)] {
            table.push(vec![
                Cell::text("LZ4_hashPosition, fork-to-exit"),
                Cell::estimate(value, low, value, "ns"),
                Cell::number(value, "bytes"),
            ]);
        }
        table
    }

    #[test]
    fn units_and_intervals_stand_below_each_other() {
        let text = Grid::of(&table(), &[], 100).render(100);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let at = |line: usize, what: &str| {
            lines[line].find(what).map(|at| lines[line][..at].chars().count())
        };
        assert_eq!(at(2, " µs (2.05"), at(3, " ms (11.1"), "{text}");
        assert_eq!(at(2, " KiB"), at(3, " MiB"), "{text}");
    }

    #[test]
    fn names_are_whole_at_every_width() {
        for width in 44..=100 {
            let grid = Grid::of(&table(), &[], width.into());
            assert!(grid.least_width() <= usize::from(width), "{width}");
            let text = grid.render(width);
            for word in ["LZ4_hashPosition", "fork-to-exit", "2.13 µs", "(11.1 to 11.8)", "heading"]
            {
                assert!(text.contains(word), "{width} {word}: {text}");
            }
            assert!(text.lines().all(|line| char_width(line) <= width.into()), "{width}: {text}");
        }
    }
}
