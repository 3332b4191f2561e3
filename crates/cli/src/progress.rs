// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows a measurement's progress.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Least time between two lines without a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// A bar on a terminal, else a line now and then.
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
    began: Instant,
    last_line: Instant,
}

impl Progress {
    /// Quiet: only the bar on a terminal.
    pub fn new(quiet: bool) -> Progress {
        let bar = ProgressBar::new(1000);
        bar.set_draw_target(ProgressDrawTarget::stderr());
        let style = "{elapsed_precise} {wide_bar} {percent:>3}% {eta_precise} left  {msg:50!}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        let now = Instant::now();
        Progress { bar, quiet, began: now, last_line: now }
    }

    /// What runs, and the share that is done.
    pub fn at(&mut self, done: f64, name: &str) {
        self.bar.set_message(name.to_owned());
        self.bar.set_position((done * 1000.0) as u64);
        let now = Instant::now();
        if self.bar.is_hidden() && !self.quiet && now - self.last_line >= BETWEEN_LINES {
            self.last_line = now;
            output::say(&line(done, now - self.began, name));
        }
    }

    /// Hide the bar while `what` writes lines.
    pub fn suspend(&self, what: impl FnOnce()) {
        self.bar.suspend(what);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn line(done: f64, took: Duration, name: &str) -> String {
    let left = took.mul_f64(if done > 0.0 { (1.0 - done) / done } else { 0.0 });
    let left = if done > 0.0 { format!(", {} left", about(left)) } else { String::new() };
    format!("{:.0}% done{left}: {name}", done * 100.0)
}

/// A rough estimate of a remaining time.
pub fn about(expected: Duration) -> String {
    match expected.as_secs() {
        seconds @ ..=90 => format!("about {} s", seconds.max(1)),
        seconds => format!("about {} minutes", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remaining_time_is_rounded() {
        let estimate = |seconds| about(Duration::from_secs_f64(seconds));
        assert_eq!(estimate(0.2), "about 1 s");
        assert_eq!(estimate(52.7), "about 52 s");
        assert_eq!(estimate(91.0), "about 2 minutes");
        assert_eq!(estimate(4000.0), "about 67 minutes");
        let said = line(0.25, Duration::from_secs(40), "cow-faults: random");
        assert_eq!(said, "25% done, about 2 minutes left: cow-faults: random");
        assert_eq!(line(0.0, Duration::from_secs(11), "a"), "0% done: a");
    }
}
