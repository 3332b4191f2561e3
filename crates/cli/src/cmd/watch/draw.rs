// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The view on a terminal of any width: wide ones have two columns, narrow ones fewer figures.

use cowlab_observe::watch::{Epoch, Own, Process, Reading, RegionRow, Stops};
use cowlab_report::fmt::{count, quantity};
use cowlab_schema::live::words;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Gauge, Paragraph, Sparkline, Wrap};

use super::children::children;
use super::heat;
use super::lines::{bytes, forks, looked_at};
use super::view::{Page, View};

/// From this width on there are two columns.
const WIDE: u16 = 100;

pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(title(view), head);
    frame.render_widget(Line::from(keys(view)).style(Modifier::DIM), foot);
    match (view.page, view.chosen()) {
        (Page::Help, _) => frame.render_widget(help(view), body),
        (_, None) => frame.render_widget(Paragraph::new("Waiting for a process."), body),
        (Page::Overview, Some(process)) => overview(frame, body, view, process),
    }
}

fn title(view: &View) -> Line<'static> {
    // In its place, so that 40 columns hold both it and the process.
    let mut spans = vec![match view.paused {
        true => Span::styled("PAUSED", Style::new().fg(Color::Yellow)),
        false => Span::styled("cowlab watch", Modifier::BOLD),
    }];
    if let Some(process) = view.chosen() {
        let state = if process.ended { ", ended" } else { "" };
        spans.push(format!("  {} ({}){state}", process.name, process.pid).into());
        if view.frame.processes.len() > 1 {
            spans.push(format!("  {} of {}", view.process + 1, view.frame.processes.len()).into());
        }
    }
    if let Some(lost @ 1..) = view.frame.own.lost_events {
        let text = format!("  {lost} events lost");
        spans.push(Span::styled(text, Style::new().fg(Color::Red)));
    }
    Line::from(spans)
}

fn keys(view: &View) -> String {
    match view.page {
        Page::Help => "q quit  esc back".to_owned(),
        Page::Overview => {
            format!("q quit  ? help  space pause  s sort: {}", view.sort.name())
        }
    }
}

fn help(view: &View) -> Paragraph<'static> {
    let mut lines: Vec<Line<'static>> = [
        "space, p   pause: what is shown stays, watching goes on",
        "↑ ↓        another process",
        "s          sort children and processes: newest, copied, faults",
        "?, h       these keys",
        "q, esc     back, quit",
        "",
        "Epoch: from a fork until its child ends or executes something.",
        "Heat map: 2 MiB regions by address; · nothing copied, █ all.",
    ]
    .into_iter()
    .map(Line::from)
    .collect();
    if !view.frame.sees.missing.is_empty() {
        lines.push(Line::from(""));
        lines.push(Line::styled("Not available here:", Modifier::BOLD));
        lines.extend(view.frame.sees.missing.iter().cloned().map(Line::from));
    }
    Paragraph::new(lines).wrap(Wrap { trim: false })
}

fn overview(frame: &mut Frame<'_>, area: Rect, view: &View, process: &Process) {
    let facts = facts(view, process);
    let (left, right) = match area.width >= WIDE {
        true => {
            let halves = Layout::horizontal([Constraint::Percentage(50); 2]);
            let [left, right] = halves.areas(area);
            (left, Some(right))
        }
        false => (area, None),
    };
    // Lines that are too long for a narrow terminal take a second one.
    let height = wrapped(&facts, left.width).min(left.height / 2 + 2);
    let [top, gauge, curve, rest] = Layout::vertical([
        Constraint::Length(height),
        Constraint::Length(1),
        Constraint::Length(3),
        Constraint::Min(0),
    ])
    .areas(left);
    let lines: Vec<Line<'_>> = facts.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), top);
    epoch_gauge(frame, gauge, process.epoch.as_ref());
    rates(frame, curve, view);
    match right {
        Some(right) => {
            children(frame, rest, view, process);
            // Where stops cannot be seen, their room is the map's.
            let stops = process.totals.stops.as_ref();
            let share = Constraint::Fill(u16::from(stops.is_some()));
            let [map, below] = Layout::vertical([Constraint::Fill(2), share]).areas(right);
            heat_map(frame, map, regions(process), &map_title(process));
            if let Some(stops) = stops {
                histogram(frame, below, stops);
            }
        }
        None => {
            let [map, list] = Layout::vertical([Constraint::Fill(1); 2]).areas(rest);
            heat_map(frame, map, regions(process), &map_title(process));
            children(frame, list, view, process);
        }
    }
}

fn wrapped(lines: &[String], width: u16) -> u16 {
    let width = usize::from(width.max(1));
    let rows = |line: &String| line.chars().count().div_ceil(width).max(1);
    lines.iter().map(rows).sum::<usize>() as u16
}

/// What is known in figures, the most wanted first.
fn facts(view: &View, process: &Process) -> Vec<String> {
    let mut lines: Vec<String> = forks(process).into_iter().collect();
    lines.extend(row(words(Process::FIGURES, process), "  "));
    if let Some(epoch) = &process.epoch {
        let age = epoch.age_ns.map_or("?".to_owned(), |age| quantity(age as f64, "ns"));
        let figures = match (epoch.copied_bytes, epoch.shared_bytes) {
            (None, _) => "not looked at yet".to_owned(),
            (copied, shared) => format!("{} copied, {} still shared", bytes(copied), bytes(shared)),
        };
        lines.push(format!("epoch of child {}: {age}, {figures}", epoch.child));
    } else if let Some(epoch) = &process.last_epoch {
        let copied = bytes(epoch.copied_bytes);
        lines.push(format!("no epoch; the last child ended with {copied} of its own"));
    }
    lines.extend(row(words(Reading::FIGURES, &process.now), ", "));
    let own = row(words(Own::FIGURES, &view.frame.own), ", ");
    lines.extend(own.map(|own| format!("watching takes {own}")));
    lines
}

/// A line of what is known; none of nothing.
fn row(parts: impl Iterator<Item = String>, between: &str) -> Option<String> {
    Some(parts.collect::<Vec<_>>().join(between)).filter(|line| !line.is_empty())
}

fn epoch_gauge(frame: &mut Frame<'_>, area: Rect, epoch: Option<&Epoch>) {
    let Some((copied, shared)) = epoch.and_then(|epoch| epoch.copied_bytes.zip(epoch.shared_bytes))
    else {
        return;
    };
    let share = copied as f64 / (copied + shared).max(1) as f64;
    let gauge = Gauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label(format!("{:.1}% copied", share * 100.0))
        .gauge_style(Style::new().fg(Color::Red).bg(Color::DarkGray));
    frame.render_widget(gauge, area);
}

fn rates(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let skip = view.rates.len().saturating_sub(usize::from(area.width));
    let newest: Vec<u64> = view.rates.iter().skip(skip).copied().collect();
    let what = match view.chosen().and_then(|process| process.writes_to_present_per_s) {
        Some(_) => "copies or re-uses/s",
        None => "minor faults/s",
    };
    let block = Block::new().borders(Borders::TOP).title(what);
    frame.render_widget(Sparkline::default().block(block).data(newest), area);
}

fn regions(process: &Process) -> &[RegionRow] {
    process.epoch.as_ref().map_or(&[], |epoch| epoch.regions.as_slice())
}

/// The map is as old as the last walk.
fn map_title(process: &Process) -> String {
    let age =
        process.epoch.as_ref().map_or_else(String::new, |epoch| format!(", {}", looked_at(epoch)));
    format!("Copied by 2 MiB{age}")
}

fn heat_map(frame: &mut Frame<'_>, area: Rect, regions: &[RegionRow], what: &str) {
    let block = Block::new().borders(Borders::TOP).title(format!("{what} ({})", regions.len()));
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let width = usize::from(inside.width);
    if width == 0 || inside.height == 0 {
        return;
    }
    let cells = heat::cells(regions, width * usize::from(inside.height));
    let colour = |share: f64| match share {
        share if share <= 0.0 => Color::DarkGray,
        share if share < 0.25 => Color::Blue,
        share if share < 0.75 => Color::Yellow,
        _ => Color::Red,
    };
    let span = |share: &f64| {
        Span::styled(heat::shade(*share).to_string(), Style::new().fg(colour(*share)))
    };
    let lines: Vec<Line<'_>> =
        cells.chunks(width).map(|row| Line::from_iter(row.iter().map(span))).collect();
    frame.render_widget(Paragraph::new(lines), inside);
}

fn histogram(frame: &mut Frame<'_>, area: Rect, stops: &Stops) {
    let title = format!("Stops of {} forks", count(stops.count));
    let block = Block::new().borders(Borders::TOP).title(title);
    let most = stops.buckets.iter().max().copied().unwrap_or(0).max(1);
    let room = u64::from(area.width.saturating_sub(20));
    let lines: Vec<Line<'_>> = stops
        .by_bound()
        .filter(|(_, count)| *count > 0)
        .map(|(bound, number)| {
            let bound =
                bound.map_or("longer".to_owned(), |ns| format!("≤ {}", quantity(ns as f64, "ns")));
            let bar = "█".repeat((number * room).div_ceil(most) as usize);
            Line::from(format!("{bound:>9} {number:>7} {bar}"))
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests;
