// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The view on a terminal, and its keys.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use cowlab_observe::watch::Frame;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::draw::draw;
use super::source::Source;
use super::view::View;
use crate::fullscreen::Fullscreen;

/// A key is answered within this time.
const TICK: Duration = Duration::from_millis(50);

/// Shows frames until the user, a signal or the end of what is watched ends it.
pub fn run(source: &Source, stop: &AtomicBool, keep: &mut dyn FnMut(&Frame) -> bool) -> Result<()> {
    let mut terminal = Fullscreen::begin("try `| cat`")?;
    let mut view = View::default();
    let mut is_last = false;
    while !stop.load(Ordering::Relaxed) && !is_last {
        let mut changed = false;
        while let Some(frame) = source.next(Duration::ZERO) {
            is_last |= keep(&frame);
            view.show(&frame);
            changed = true;
        }
        // The end of what was watched stays on the screen until a key is pressed.
        while event::poll(if changed { Duration::ZERO } else { TICK })? {
            changed = true;
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
                && view.press(key)
            {
                return Ok(());
            }
        }
        if changed {
            terminal.0.draw(|frame| draw(frame, &view))?;
        }
    }
    Ok(())
}
