// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A document as text for a terminal.

mod grid;

use grid::{Grid, TIED};

use crate::document::{Block, Document, Finding, Section, Table};
use crate::inline;

/// Where no width is known: output that goes to a file.
const DEFAULT_WIDTH: u16 = 100;
const MIN_WIDTH: u16 = 20;

/// The whole document, `width` columns wide; `color` allows bold and dim text.
pub fn render(document: &Document, width: Option<u16>, color: bool) -> String {
    let writer = Writer { width: width.unwrap_or(DEFAULT_WIDTH).max(MIN_WIDTH), color };
    let mut parts = vec![writer.bold(&clean(&document.title))];
    if !document.subtitle.is_empty() {
        parts.push(writer.wrapped(&document.subtitle, "", ""));
    }
    if !document.facts.is_empty() {
        parts.push(writer.facts(&document.facts));
    }
    parts.extend(document.sections.iter().map(|section| writer.section(section)));
    parts.join("\n\n") + "\n"
}

struct Writer {
    width: u16,
    color: bool,
}

impl Writer {
    fn section(&self, section: &Section) -> String {
        let title = clean(&section.title);
        let rule = "─".repeat(char_width(&title).min(self.width.into()));
        let mut parts = Vec::new();
        if !title.is_empty() {
            parts.push(format!("{}\n{}", self.bold(&title), self.dim(&rule)));
        }
        parts.extend(section.blocks.iter().map(|block| match block {
            Block::Text(text) => self.wrapped(&inline::plain(text), "", ""),
            Block::Note(text) => self.dim(&self.wrapped(&inline::plain(text), "Note: ", "      ")),
            Block::Finding(finding) => self.finding(finding),
            Block::Table(table) => self.table(table),
            Block::Plot(plot) => self.plot(&plot.title, &plot.id),
            Block::Drawing(drawing) => self.plot(&drawing.caption, &drawing.id),
        }));
        parts.join("\n\n")
    }

    fn facts(&self, facts: &[(String, String)]) -> String {
        let indent = facts.iter().map(|(name, _)| char_width(&clean(name))).max().unwrap_or(0) + 2;
        let line = |(name, value): &(String, String)| {
            let name = clean(name);
            let gap = " ".repeat(indent - char_width(&name));
            self.wrapped(value, &format!("{name}{gap}"), &" ".repeat(indent))
        };
        facts.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn finding(&self, finding: &Finding) -> String {
        let mut out = self.bold(&self.wrapped(&finding.headline, "• ", "  "));
        if !finding.detail.is_empty() {
            out = format!("{out}\n{}", self.wrapped(&inline::plain(&finding.detail), "  ", "  "));
        }
        out
    }

    fn plot(&self, title: &str, id: &str) -> String {
        self.dim(&self.wrapped(&format!("{title}: see report.html#{id}"), "Plot: ", "      "))
    }

    fn table(&self, table: &Table) -> String {
        let reasons = table.missing_reasons();
        let grid = Grid::of(table, &reasons, self.width.into());
        let mut parts: Vec<String> = Vec::new();
        if !table.caption.is_empty() {
            parts.push(self.wrapped(&table.caption, "", ""));
        }
        parts.push(match grid.least_width() <= self.width.into() {
            true => grid.render(self.width),
            false => self.stacked(&grid),
        });
        parts.extend(reasons.iter().map(|reason| {
            let line =
                format!("{} not available: {}", gap(&reasons, reason), inline::plain(reason));
            self.dim(&self.wrapped(&line, "", "  "))
        }));
        parts.join("\n")
    }

    /// A table that is too wide even with its words one below the other: a paragraph a row.
    fn stacked(&self, grid: &Grid) -> String {
        let of = |row: &Vec<String>| {
            let mut cells = grid.heads.iter().zip(row).map(|(head, cell)| (head, cell.trim()));
            let first = cells.next().map_or("", |(_, cell)| cell);
            let others = cells.filter(|(_, cell)| !cell.is_empty());
            let others: Vec<String> =
                others.map(|(head, cell)| format!("{head}: {cell}")).collect();
            format!("{}\n{}", self.bold(first), self.wrapped(&others.join("; "), "  ", "  "))
        };
        grid.rows.iter().map(of).collect::<Vec<_>>().join("\n").replace(TIED, " ")
    }

    /// Breaks `text` at spaces; `first` stands before the first line, `next` before the others.
    fn wrapped(&self, text: &str, first: &str, next: &str) -> String {
        let mut out = first.to_owned();
        let mut column = char_width(first);
        let mut fresh = true;
        for word in clean(text).split_whitespace() {
            let length = char_width(word);
            if !fresh && column + 1 + length > self.width.into() {
                out.push('\n');
                out.push_str(next);
                column = char_width(next);
                fresh = true;
            }
            if !fresh {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += length;
            fresh = false;
        }
        out
    }

    fn bold(&self, text: &str) -> String {
        self.styled(text, "1")
    }

    fn dim(&self, text: &str) -> String {
        self.styled(text, "2")
    }

    fn styled(&self, text: &str, code: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `–`, or `–2` where a table has several reasons.
fn gap(reasons: &[&str], reason: &str) -> String {
    match reasons.iter().position(|known| *known == reason) {
        Some(index) if reasons.len() > 1 => format!("–{}", index + 1),
        _ => "–".into(),
    }
}

/// No control characters, so that a string from a measured program cannot drive the terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Width in characters: close enough for prose, and tables measure for themselves.
fn char_width(text: &str) -> usize {
    text.chars().count()
}
