// SPDX-License-Identifier: Apache-2.0 OR MIT

use cowlab_observe::sharing::{Figures, Worker};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::children::SHARING_WIDTH;
use super::super::stream::tests::example;
use super::*;

fn drawn(width: u16, height: u16, view: &View) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let penalty = Penalty { copy_ns: 2100.0, flush_ns: Some(9000.0) };
    terminal.draw(|frame| draw(frame, view, Some(&penalty))).unwrap();
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
    assert!(drawn(200, 50, &shown("")).contains("9.00 µs more while another thread runs"));
}

#[test]
fn a_wide_terminal_has_the_columns_of_sharing() {
    let worker = |pid, parent| Worker {
        pid,
        parent,
        age_s: 7200.0,
        shared_bytes: Some(120 << 20),
        own_bytes: 80 << 20,
        copied_bytes: Some(40 << 20),
        erosion_bytes_per_s: Some(20_971.52),
        shared_ends_s: Some(6000.0),
        ..Worker::default()
    };
    let workers = vec![worker(4242, None), worker(4243, Some(4242))];
    let mut view = shown("");
    view.sharing = Some(Figures { pid: 4242, workers, ..Figures::default() });
    let wide = drawn(200, 50, &view);
    for expected in
        ["worker 4243", "shared", "120 MiB", "loses/min", "1.20 MiB", "none in", "1 h 40 min"]
    {
        assert!(wide.contains(expected), "{expected}:\n{wide}");
    }
    assert!(drawn(SHARING_WIDTH, 30, &view).contains("1 h 40 min"));
    assert!(!drawn(140, 30, &view).contains("none in"));
    // Of another process, or of no child.
    for pid in [1, 4242] {
        view.sharing = Some(Figures { pid, ..Figures::default() });
        assert!(!drawn(200, 50, &view).contains("none in"));
    }
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
        let text = drawn(width, height, &shown("m"));
        assert!(text.contains("70000000000") && text.contains("Mappings"), "{width}:\n{text}");
        let text = drawn(width, height, &shown("?"));
        assert!(text.contains("pause") && text.contains("task_delayacct"), "{width}:\n{text}");
        assert!(drawn(width, height, &shown("p")).contains("PAUSED"));
    }
}

#[test]
fn nothing_breaks_where_there_is_no_room_or_nothing_to_show() {
    for (width, height) in [(1, 1), (3, 2), (40, 3), (10, 60), (500, 5)] {
        for keys in ["", "m", "?"] {
            drawn(width, height, &shown(keys));
            drawn(width, height, &View::default());
        }
    }
    let mut view = shown("m");
    view.frame.processes[0].epoch = None;
    assert!(drawn(80, 24, &view).contains("No child shares memory"));
}
