// SPDX-License-Identifier: Apache-2.0 OR MIT

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::stream::tests::example;
use super::*;

fn drawn(width: u16, height: u16, view: &View) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width));
    lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
}

fn shown(keys: &str) -> View {
    let mut view = View::default();
    view.show(&example());
    for key in keys.chars() {
        view.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
    }
    view
}

#[test]
fn every_width_shows_what_matters_most() {
    for (width, height) in [(40, 24), (80, 24), (200, 50)] {
        let text = drawn(width, height, &shown(""));
        for expected in
            ["redis-server (4242)", "2 forks", "27.6 ms", "51,23", "12.1% copied", "4243"]
        {
            assert!(text.contains(expected), "{expected} at {width}:\n{text}");
        }
        assert!(text.contains('█') && text.contains("Children alive (1)"), "{width}:\n{text}");
    }
}

#[test]
fn a_wide_terminal_has_the_histogram_too() {
    assert!(drawn(200, 50, &shown("")).contains("Stops of 2 forks"));
    assert!(!drawn(80, 24, &shown("")).contains("Stops of 2 forks"));
}

#[test]
fn the_heat_map_says_how_old_it_is_and_nothing_is_copied_before_the_first_look() {
    let mut view = shown("");
    assert!(drawn(80, 24, &view).contains("looked at"));
    let epoch = view.frame.processes[0].epoch.as_mut().unwrap();
    (epoch.copied_bytes, epoch.shared_bytes, epoch.walk_age_ns) = (None, None, None);
    let text = drawn(200, 50, &view);
    assert_eq!(text.matches("not looked at yet").count(), 2, "{text}");
    assert!(!text.contains("% copied"), "{text}");
}

#[test]
fn nothing_is_said_of_forks_that_cannot_be_seen() {
    let mut view = shown("");
    view.frame.sees = Default::default();
    view.frame = view.frame.only_seen();
    for (width, height) in [(40, 24), (200, 50)] {
        let text = drawn(width, height, &view);
        assert!(text.contains("redis-server (4242)") && !text.contains("forks"), "{text}");
    }
}

#[test]
fn pages_and_states_are_seen() {
    for (width, height) in [(40, 24), (80, 24), (200, 50)] {
        let text = drawn(width, height, &shown("?"));
        assert!(text.contains("pause") && text.contains("by kind"), "{width}:\n{text}");
        assert!(drawn(width, height, &shown("p")).contains("PAUSED"));
    }
}

#[test]
fn nothing_breaks_where_there_is_no_room_or_nothing_to_show() {
    for (width, height) in [(1, 1), (3, 2), (40, 3), (10, 60), (500, 5)] {
        for keys in ["", "?"] {
            drawn(width, height, &shown(keys));
            drawn(width, height, &View::default());
        }
    }
}
