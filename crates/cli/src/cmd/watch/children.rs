// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The children of the shown process, a row each.

use cowlab_observe::watch::{ChildRow, Process};
use cowlab_report::fmt::{count, quantity};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Modifier;
use ratatui::widgets::{Block, Borders, Row, Table};

use super::lines::bytes;
use super::view::View;

pub fn children(frame: &mut Frame<'_>, area: Rect, view: &View, process: &Process) {
    let title = format!("Children alive ({})", count(process.children_alive));
    let block = Block::new().borders(Borders::TOP).title(title);
    let rows = view.children(process).into_iter().map(|child| {
        let (copied, shared) = match unknown(child) {
            Some(why) => (why.to_owned(), String::new()),
            None => (bytes(child.copied_bytes), bytes(child.shared_bytes)),
        };
        Row::new([child.pid.to_string(), age(child), copied, shared, child.name.clone()])
    });
    let widths = [
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Min(4),
    ];
    let head = Row::new(["pid", "age", "copied", "shared", "name"]).style(Modifier::DIM);
    frame.render_widget(Table::new(rows, widths).header(head).block(block), area);
}

fn unknown(child: &ChildRow) -> Option<&'static str> {
    match child.apart {
        true => Some("apart"),
        false => child.copied_bytes.is_none().then_some("not yet"),
    }
}

fn age(child: &ChildRow) -> String {
    child.age_ns.map_or("?".to_owned(), |age| quantity(age as f64, "ns"))
}
