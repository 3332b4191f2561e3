// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows a measurement's progress.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Least time between two lines without a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// As much as is said to be done before the end.
const ALL: f64 = 0.99;

/// A bar on a terminal, else a line now and then.
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
    began: Instant,
    last_line: Instant,
    /// The most that was said to be done, and the least time left.
    most: f64,
    least_left: Duration,
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
        Progress { bar, quiet, began: now, last_line: now, most: 0.0, least_left: Duration::MAX }
    }

    /// What runs, and the share that is done.
    pub fn at(&mut self, done: f64, name: &str) {
        // What is left may turn out to be more, as where a measurement is repeated.
        self.most = self.most.max(done);
        let done = self.most;
        self.bar.set_message(name.to_owned());
        self.bar.set_position((done * 1000.0) as u64);
        let now = Instant::now();
        if self.bar.is_hidden() && !self.quiet && now - self.last_line >= BETWEEN_LINES {
            self.last_line = now;
            if done > 0.0 {
                let left = (now - self.began).mul_f64((1.0 - done) / done);
                self.least_left = self.least_left.min(left);
            }
            output::say(&line(done, self.least_left, name));
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

/// What is still to be done is not all done, nor does it take no time.
fn line(done: f64, left: Duration, name: &str) -> String {
    let is_known = done > 0.0 && done < ALL;
    let left = if is_known { format!(", {} left", about(left)) } else { String::new() };
    format!("{:.0}% done{left}: {name}", (done.min(ALL) * 100.0).floor())
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
    fn progress_never_goes_back() {
        let mut progress = Progress::new(true);
        for done in [0.2, 0.5, 0.3] {
            progress.at(done, "a");
        }
        assert_eq!(progress.most, 0.5);
    }

    #[test]
    fn a_remaining_time_is_rounded() {
        let estimate = |seconds| about(Duration::from_secs_f64(seconds));
        assert_eq!(estimate(0.2), "about 1 s");
        assert_eq!(estimate(52.7), "about 52 s");
        assert_eq!(estimate(91.0), "about 2 minutes");
        assert_eq!(estimate(4000.0), "about 67 minutes");
        let said = line(0.25, Duration::from_secs(120), "cow-faults: random");
        assert_eq!(said, "25% done, about 2 minutes left: cow-faults: random");
        assert_eq!(line(0.0, Duration::MAX, "a"), "0% done: a");
        assert_eq!(line(0.999, Duration::ZERO, "a"), "99% done: a");
    }
}
