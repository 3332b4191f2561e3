// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the user looks at, and what keys do to it. Pure.

use std::collections::VecDeque;

use cowlab_observe::watch::{ChildRow, Frame, Process};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Refreshes whose rate is kept for the small curve.
const HISTORY: usize = 240;

/// The order of children, and of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// The newest first.
    #[default]
    Age,
    /// Most copies first.
    Copied,
    /// Most faults first.
    Faults,
}

impl Sort {
    pub fn name(self) -> &'static str {
        match self {
            Sort::Age => "newest",
            Sort::Copied => "copied",
            Sort::Faults => "faults",
        }
    }

    fn next(self) -> Sort {
        match self {
            Sort::Age => Sort::Copied,
            Sort::Copied => Sort::Faults,
            Sort::Faults => Sort::Age,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Page {
    #[default]
    Overview,
    Help,
}

#[derive(Debug, Default)]
pub struct View {
    pub frame: Frame,
    pub paused: bool,
    pub sort: Sort,
    pub page: Page,
    /// The place of the process among those of the frame, in order.
    pub process: usize,
    /// The rates of the chosen process, newest last.
    pub rates: VecDeque<u64>,
}

impl View {
    pub fn show(&mut self, frame: &Frame) {
        if self.paused {
            return;
        }
        self.frame = frame.clone();
        self.clamp();
        let rate = self.chosen().and_then(rate_of).unwrap_or(0.0);
        self.rates.push_back(rate.round() as u64);
        if self.rates.len() > HISTORY {
            self.rates.pop_front();
        }
    }

    /// A key was pressed; whether to end.
    pub fn press(&mut self, key: KeyEvent) -> bool {
        let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_ctrl => return true,
            KeyCode::Char('q') => return true,
            KeyCode::Esc if self.page == Page::Overview => return true,
            KeyCode::Esc => self.page = Page::Overview,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('?' | 'h') => {
                self.page = if self.page == Page::Help { Page::Overview } else { Page::Help };
            }
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            _ => {}
        }
        self.clamp();
        false
    }

    pub fn chosen(&self) -> Option<&Process> {
        self.frame.processes.get(*self.order().get(self.process)?)
    }

    /// The processes of the frame in order, by their place in it.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.frame.processes.len()).collect();
        let of = |index: &usize| &self.frame.processes[*index];
        match self.sort {
            Sort::Age => {}
            Sort::Copied => order.sort_by_key(|index| {
                let epoch = of(index).epoch.as_ref();
                std::cmp::Reverse(epoch.and_then(|epoch| epoch.copied_bytes))
            }),
            Sort::Faults => order.sort_by(|a, b| {
                let rate = |index| rate_of(of(index)).unwrap_or(0.0);
                rate(b).total_cmp(&rate(a))
            }),
        }
        order
    }

    pub fn children<'a>(&self, process: &'a Process) -> Vec<&'a ChildRow> {
        let mut children: Vec<&ChildRow> = process.children.iter().collect();
        match self.sort {
            Sort::Age => {}
            Sort::Copied => {
                children.sort_by_key(|child| std::cmp::Reverse(child.copied_bytes));
            }
            Sort::Faults => {
                children.sort_by_key(|child| std::cmp::Reverse(child.minor_faults));
            }
        }
        children
    }

    fn step(&mut self, by: isize) {
        self.process = self.process.saturating_add_signed(by);
        self.rates.clear();
    }

    fn clamp(&mut self) {
        self.process = self.process.min(self.frame.processes.len().saturating_sub(1));
    }
}

/// Copies and re-uses where they are counted, else minor faults.
fn rate_of(process: &Process) -> Option<f64> {
    process.writes_to_present_per_s.or(process.minor_faults_per_s)
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::example;
    use super::*;

    fn press(view: &mut View, code: KeyCode) -> bool {
        view.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn a_pause_keeps_what_is_shown() {
        let mut view = View::default();
        view.show(&example());
        press(&mut view, KeyCode::Char(' '));
        view.show(&Frame::default());
        assert_eq!(view.frame.processes.len(), 1);
        press(&mut view, KeyCode::Char('p'));
        view.show(&Frame::default());
        assert!(view.frame.processes.is_empty() && view.chosen().is_none());
        assert_eq!(view.rates, [50_100, 0]);
    }

    #[test]
    fn pages_come_and_go_and_choices_stay_in_bounds() {
        let mut view = View::default();
        press(&mut view, KeyCode::Down);
        press(&mut view, KeyCode::Char('?'));
        view.show(&example());
        for _ in 0..5 {
            press(&mut view, KeyCode::Down);
        }
        assert_eq!((view.page, view.process), (Page::Help, 0));
        assert!(!press(&mut view, KeyCode::Esc));
        assert_eq!(view.page, Page::Overview);
        assert!(press(&mut view, KeyCode::Char('q')));
    }

    #[test]
    fn ctrl_c_ends_and_c_does_not() {
        let mut view = View::default();
        assert!(!press(&mut view, KeyCode::Char('c')));
        assert!(view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(press(&mut view, KeyCode::Esc));
    }

    #[test]
    fn children_are_sorted_as_asked() {
        let mut process = example().processes[0].clone();
        let other = ChildRow { pid: 9, copied_bytes: Some(1 << 40), ..ChildRow::default() };
        process.children.push(other);
        let mut view = View::default();
        let first = |view: &View| view.children(&process)[0].pid;
        assert_eq!(first(&view), 4243);
        press(&mut view, KeyCode::Char('s'));
        assert_eq!((view.sort.name(), first(&view)), ("copied", 9));
        press(&mut view, KeyCode::Char('s'));
        assert_eq!(first(&view), 4243);
    }
}
