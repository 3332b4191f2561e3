// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The children of the shown process, a row each.

use cowlab_observe::watch::{ChildRow, Process};
use cowlab_report::fmt::count;
use cowlab_schema::live::{Figure, Shown};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Modifier;
use ratatui::widgets::{Block, Borders, Row, Table};

use super::view::View;

pub fn children(frame: &mut Frame<'_>, area: Rect, view: &View, process: &Process) {
    let title = format!("Children alive ({})", count(process.children_alive));
    let block = Block::new().borders(Borders::TOP).title(title);
    let children = view.children(process);
    // All of them, known or not: a table that changes with each fork cannot be read.
    let columns = ChildRow::FIGURES.iter().copied().flatten();
    let columns: Vec<_> = columns.filter_map(|of| Some((of, of.column?))).collect();
    let rows = children.into_iter().map(|child| {
        let cell = |(figure, column): &(&Figure<ChildRow>, Shown)| {
            let unknown = || if child.apart { "–" } else { "?" }.to_owned();
            figure.value(child).map_or_else(unknown, |value| column.value(value))
        };
        let figures = columns.iter().map(cell);
        Row::new([child.pid.to_string()].into_iter().chain(figures).chain([child.name.clone()]))
    });
    let heads = columns.iter().map(|(_, column)| column.text);
    let head = Row::new(["pid"].into_iter().chain(heads).chain(["name"])).style(Modifier::DIM);
    let widths = columns.iter().map(|_| Constraint::Length(9));
    let widths = [Constraint::Length(8)].into_iter().chain(widths).chain([Constraint::Min(4)]);
    frame.render_widget(Table::new(rows, widths).header(head).block(block), area);
}
