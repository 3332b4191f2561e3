// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The children of the shown process, a row each.

use cowlab_observe::sharing::{Figures, Worker};
use cowlab_observe::watch::{ChildRow, Process};
use cowlab_report::fmt::{count, quantity};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Modifier;
use ratatui::widgets::{Block, Borders, Row, Table};

use super::lines::bytes;
use super::view::View;
use crate::workers::fitting;

/// From this width of a terminal on, half of which is the table's, it has the columns of `sharing`.
pub const SHARING_WIDTH: u16 = 160;

/// Draws them.
pub fn children(frame: &mut Frame<'_>, area: Rect, view: &View, process: &Process) {
    let title = format!("Children alive ({})", count(process.children_alive));
    let block = Block::new().borders(Borders::TOP).title(title);
    let rows = view.children(process);
    let figures = view.sharing.as_ref().filter(|of| of.pid.cast_unsigned() == process.pid);
    let table = figures.and_then(|figures| of_sharing(figures, &rows, area.width));
    frame.render_widget(table.unwrap_or_else(|| of_epochs(&rows)).block(block), area);
}

/// What is known of each epoch.
fn of_epochs(children: &[&ChildRow]) -> Table<'static> {
    let rows = children.iter().map(|child| {
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
    Table::new(rows, widths).header(head)
}

/// The columns of `sharing`; `None` where there is no room for them, or none of the children is a worker.
fn of_sharing(figures: &Figures, children: &[&ChildRow], room: u16) -> Option<Table<'static>> {
    let columns = fitting(figures, room)?;
    let worker = |child: &ChildRow| -> Option<&Worker> {
        figures.forked().find(|worker| worker.pid.cast_unsigned() == child.pid)
    };
    children.iter().find(|child| worker(child).is_some())?;
    let rows = children.iter().map(|child| {
        let cells: Vec<String> = match worker(child) {
            Some(worker) => {
                let cell = |cell: Option<String>| cell.unwrap_or_else(|| "–".to_owned());
                columns.iter().map(|of| cell((of.cell)(worker))).collect()
            }
            // Another program, or younger than the last look.
            None => {
                let why = unknown(child).unwrap_or("not yet");
                vec![format!("child {}", child.pid), age(child), why.to_owned()]
            }
        };
        let right = columns.iter().zip(cells);
        Row::new(right.map(|(of, cell)| format!("{cell:>0$}", usize::from(of.width))))
    });
    let head = columns.iter().map(|of| format!("{:>1$}", of.head, usize::from(of.width)));
    let widths = columns.iter().map(|of| Constraint::Length(of.width));
    let head = Row::new(head).style(Modifier::DIM);
    Some(Table::new(rows.collect::<Vec<_>>(), widths).header(head))
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
