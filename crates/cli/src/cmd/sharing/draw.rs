// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The live view: what the family uses, and a row a worker with a curve of its own memory.

use cowlab_observe::sharing::{Figures, Worker};
use cowlab_report::terminal::clean;
use cowlab_schema::fmt::{age, bytes};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Sparkline, Wrap};

use super::text::sentences;
use crate::workers::{COLUMNS, Column};

/// From this width on every column has room.
const WIDE: u16 = 140;

/// Draws a look that was made so long ago.
pub fn draw(frame: &mut Frame<'_>, figures: &Figures, age_s: f64) {
    let width = usize::from(frame.area().width.max(1));
    let said: Vec<String> = sentences(figures);
    // Words that go to the next line leave room: some lines more than their characters need.
    let rows = said
        .iter()
        .map(|text| text.chars().count().div_ceil(width) + usize::from(text.len() > width));
    let said_rows = (rows.sum::<usize>() as u16).min(frame.area().height / 2);
    let [title, top, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(said_rows),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let name = format!("cowlab sharing  {} ({})", clean(&figures.name), figures.pid);
    frame.render_widget(Line::styled(name, Modifier::BOLD), title);
    let said: Vec<Line<'_>> = said.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(said).wrap(Wrap { trim: true }), top);
    let mut looked = format!("q quit  looked at {} ago", age(age_s));
    if let Some((least, most)) = workers(frame, body, figures).filter(|(least, most)| least < most)
    {
        looked += &format!("  curves: own, {} to {}", bytes(least), bytes(most));
    }
    frame.render_widget(Line::styled(looked, Modifier::DIM), foot);
}

/// Draws the rows; from where to where their curves go.
fn workers(frame: &mut Frame<'_>, area: Rect, figures: &Figures) -> Option<(u64, u64)> {
    let is_wide = area.width >= WIDE;
    let shown: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| (is_wide || column.rank == 0) && (column.is_shown)(figures))
        .collect();
    let row = |cell: &dyn Fn(&Column) -> String| -> String {
        let cells = shown.iter().map(|of| format!("{:>1$} ", cell(of), usize::from(of.width)));
        cells.collect()
    };
    // The parent stays first; of too many, those with least of their own are left out.
    let mut rows: Vec<&Worker> = figures.workers.iter().collect();
    let room = usize::from(area.height.saturating_sub(2));
    if rows.len() > room {
        rows[1..].sort_by_key(|one| std::cmp::Reverse(one.own_bytes));
    }
    let curves = rows.iter().take(room).flat_map(|one| one.own_history.iter());
    let (least, most) =
        curves.fold((u64::MAX, 0), |(least, most), own| (least.min(*own), most.max(*own)));
    let head = row(&|column| column.head.to_owned());
    let mut lines = area.rows();
    if let Some(line) = lines.next() {
        frame.render_widget(Line::styled(head, Modifier::DIM), line);
    }
    let left = rows.len().saturating_sub(room);
    for (one, line) in rows.into_iter().take(room).zip(&mut lines) {
        let text = row(&|column| (column.cell)(one).unwrap_or_else(|| "–".to_owned()));
        let used = (text.chars().count() as u16).min(line.width);
        let [words, curve] =
            Layout::horizontal([Constraint::Length(used), Constraint::Min(0)]).areas(line);
        frame.render_widget(Line::from(text), words);
        let skip = one.own_history.len().saturating_sub(usize::from(curve.width));
        let points = one.own_history.iter().skip(skip).map(|own| own - least);
        let curve_of = Sparkline::default().max(most.saturating_sub(least).max(1));
        let colour = Style::new().fg(Color::Yellow);
        frame.render_widget(curve_of.data(points.collect::<Vec<_>>()).style(colour), curve);
    }
    if let (1.., Some(line)) = (left, lines.next()) {
        frame.render_widget(Line::styled(format!("and {left} more"), Modifier::DIM), line);
    }
    Some((least, most))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::text::tests::example;
    use super::*;

    fn drawn(width: u16, height: u16, figures: &Figures) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, figures, 2.0)).unwrap();
        let buffer = terminal.backend().buffer();
        let lines = buffer.content().chunks(usize::from(width));
        lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    #[test]
    fn a_row_has_its_figures_and_its_curve_at_80_and_200_columns() {
        let narrow = drawn(80, 24, &example());
        for expected in [
            "gunicorn (4700)",
            "use 312 MiB together",
            "parent 4700",
            "   worker 4711        3 h   120 MiB  80.0 MiB  1.20 MiB   1 h 40 min ▆▇▇",
            "looked at 2 s ago  curves: own, 0 B to 79.0 MiB",
        ] {
            assert!(narrow.contains(expected), "{expected}:\n{narrow}");
        }
        assert!(!narrow.contains("copied"), "{narrow}");
        let wide = drawn(200, 50, &example());
        for expected in ["copied", "resident", "▇▇▇▇█"] {
            assert!(wide.contains(expected), "{expected}:\n{wide}");
        }
    }

    #[test]
    fn workers_that_have_no_room_are_counted_and_nothing_breaks() {
        let mut figures = example();
        figures.workers = vec![figures.workers[1].clone(); 100];
        let text = drawn(80, 24, &figures);
        assert!(text.contains("more\n") || text.contains(" more "), "{text}");
        for (width, height) in [(1, 1), (3, 2), (40, 3), (10, 60), (500, 5)] {
            drawn(width, height, &figures);
            drawn(width, height, &Figures::default());
        }
    }
}
