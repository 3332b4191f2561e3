// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a report says, apart from how it looks: plain structs that every renderer reads.

use serde::Serialize;
use serde_json::{Value, json};

pub use crate::plot::{Axis, Kind, Plot, Series};

use crate::fmt;
use crate::inline::plain;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Document {
    /// The first heading.
    pub title: String,
    pub subtitle: String,
    /// Facts about the run (host, kernel, command line), as name and value.
    pub facts: Vec<(String, String)>,
    /// The body, in reading order.
    pub sections: Vec<Section>,
}

/// A heading and what stands under it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Section {
    pub id: String,
    pub title: String,
    /// The content, in reading order.
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// A paragraph of plain words; `` `code` `` and `[text](#anchor)` are understood.
    Text(String),
    /// One plain finding, shown as a card.
    Finding(Finding),
    Table(Table),
    Plot(Plot),
    /// A drawing that answers to the mouse by itself.
    Drawing(Drawing),
    /// How to read what stands near it, a caveat, or "not available: needs …"; markup as in `Text`.
    Note(String),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Drawing {
    pub id: String,
    pub caption: String,
    /// The picture (SVG). It is ours: nothing in it comes from anywhere unescaped.
    #[serde(skip)]
    pub svg: String,
}

/// A result in one sentence, with what supports it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Finding {
    /// The finding itself, a sentence with its figure.
    pub headline: String,
    /// Conditions, interval, consequence; markup as in [`Block::Text`].
    pub detail: String,
    /// Where its samples are: the id of a table or plot, `#anchor`, or a relative link.
    pub samples: Option<String>,
}

/// A table of text and figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// Anchor, unique in the document, and the CSV's file name.
    pub id: String,
    pub caption: String,
    pub columns: Vec<Column>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Column {
    pub name: String,
    /// Unit of the raw values, as in metric names: `ns`, `bytes`, `ns_per_page`, `per_s`, …
    pub unit: Option<String>,
    /// Whether cells hold figures, which are set flush right.
    pub numeric: bool,
}

/// One entry of a table. `text` is what people read, the numbers are what CSV holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Words; markup as in [`Block::Text`].
    Text(String),
    Number {
        value: f64,
        text: String,
    },
    Estimate {
        value: f64,
        low: f64,
        high: f64,
        /// As people read it: `2.13 µs (2.05 to 2.21)`.
        text: String,
    },
    /// Not measured, and why. Never shown as 0.
    Missing(String),
}

impl Document {
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>) -> Self {
        Document { title: title.into(), subtitle: subtitle.into(), ..Self::default() }
    }

    /// The same with the findings of its first section that has any, each with the first sentence of
    /// its detail, and nothing else; whole where there are none.
    pub fn findings(&self) -> Document {
        let finding = |block: &Block| match block {
            Block::Finding(finding) => {
                let detail = finding.detail.split_inclusive(". ").next().unwrap_or_default();
                Some(Block::Finding(Finding {
                    detail: detail.trim_end().into(),
                    ..finding.clone()
                }))
            }
            _ => None,
        };
        let of = |section: &Section| section.blocks.iter().filter_map(finding).collect::<Vec<_>>();
        let found = self.sections.iter().find(|section| !of(section).is_empty());
        let Some(section) = found else { return self.clone() };
        let sections = vec![Section { blocks: of(section), ..section.clone() }];
        Document { sections, facts: Vec::new(), ..self.clone() }
    }

    /// All tables, in reading order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
    }

    /// All plots, in reading order.
    pub fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Plot(plot) => Some(plot),
            _ => None,
        })
    }
}

impl Block {
    /// A finding whose samples are in the table or plot with the id `samples`.
    pub fn finding(headline: impl Into<String>, detail: impl Into<String>, samples: &str) -> Block {
        let samples = Some(format!("#{samples}"));
        Block::Finding(Finding { headline: headline.into(), detail: detail.into(), samples })
    }
}

impl Finding {
    /// The document of `--json` has it so.
    pub(crate) fn json(&self) -> Value {
        json!({
            "finding": self.headline,
            "detail": plain(&self.detail),
            "samples": self.samples,
        })
    }
}

impl Section {
    /// Its findings, for `--json`.
    pub fn findings(&self) -> Vec<Value> {
        let finding = |block: &Block| match block {
            Block::Finding(finding) => Some(finding.json()),
            _ => None,
        };
        self.blocks.iter().filter_map(finding).collect()
    }

    pub fn new(id: impl Into<String>, title: impl Into<String>, blocks: Vec<Block>) -> Self {
        Section { id: id.into(), title: title.into(), blocks }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(id: impl Into<String>, caption: impl Into<String>, columns: Vec<Column>) -> Self {
        Table { id: id.into(), caption: caption.into(), columns, rows: Vec::new() }
    }

    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(
            row.len(),
            self.columns.len(),
            "table {}: a cell for each column",
            self.id
        );
        self.rows.push(row);
    }

    /// Why cells are missing: each reason once, in order of first appearance.
    pub fn missing_reasons(&self) -> Vec<&str> {
        let mut reasons = Vec::new();
        for cell in self.rows.iter().flatten() {
            if let Cell::Missing(reason) = cell
                && !reasons.contains(&reason.as_str())
            {
                reasons.push(reason);
            }
        }
        reasons
    }
}

impl Column {
    pub fn text(name: impl Into<String>) -> Self {
        Column { name: name.into(), unit: None, numeric: false }
    }

    /// A column of figures without a unit.
    pub fn number(name: impl Into<String>) -> Self {
        Column { name: name.into(), unit: None, numeric: true }
    }

    /// A column of figures in `unit`.
    pub fn unit(name: impl Into<String>, unit: impl Into<String>) -> Self {
        Column { name: name.into(), unit: Some(unit.into()), numeric: true }
    }

    /// The name and, where the cells do not carry it themselves, the unit: `Copied (pages)`.
    pub fn heading(&self) -> String {
        match self.unit.as_deref().map(fmt::unit_label) {
            Some(label) if !label.is_empty() => format!("{} ({label})", self.name),
            _ => self.name.clone(),
        }
    }
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Cell::Text(text.into())
    }

    /// A figure in `unit` (`""` for none), written with 3 significant digits.
    pub fn number(value: f64, unit: &str) -> Self {
        if value.is_finite() {
            Cell::Number { value, text: fmt::quantity(value, unit) }
        } else {
            Cell::Missing("not a finite number".into())
        }
    }

    /// An exact count, written with all its digits.
    pub fn count(value: u64) -> Self {
        Cell::Number { value: value as f64, text: fmt::count(value) }
    }

    /// A figure in `unit` with its interval.
    pub fn estimate(value: f64, low: f64, high: f64, unit: &str) -> Self {
        if value.is_finite() {
            Cell::Estimate { value, low, high, text: fmt::estimate(value, low, high, unit) }
        } else {
            Cell::Missing("not a finite number".into())
        }
    }

    pub fn display(&self) -> &str {
        match self {
            Cell::Text(text) | Cell::Number { text, .. } | Cell::Estimate { text, .. } => text,
            Cell::Missing(_) => "–",
        }
    }
}
