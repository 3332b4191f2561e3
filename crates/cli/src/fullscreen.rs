// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A view that fills the terminal, which is as it was afterwards, whatever happens.

use std::io::stdout;

use anyhow::{Context as _, Result};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, size};
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, TerminalOptions, Viewport};

/// Of a terminal that does not know its size, as `script -c` makes one.
const USUAL: Rect = Rect { x: 0, y: 0, width: 80, height: 24 };

/// Puts the terminal back when it goes.
pub struct Fullscreen(pub DefaultTerminal);

impl Drop for Fullscreen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

impl Fullscreen {
    /// Takes the terminal. `instead`: what to do where that cannot be had.
    pub fn begin(instead: &str) -> Result<Fullscreen> {
        let begun = match size() {
            Ok((1.., 1..)) => ratatui::try_init(),
            _ => {
                let options = TerminalOptions { viewport: Viewport::Fixed(USUAL) };
                ratatui::try_init_with_options(options).and_then(|terminal| {
                    execute!(stdout(), EnterAlternateScreen)?;
                    Ok(terminal)
                })
            }
        };
        begun.map(Fullscreen).with_context(|| format!("cannot use this terminal: {instead}"))
    }
}
