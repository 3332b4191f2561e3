// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest's cowlab says, on this terminal: its progress as a bar, the rest as it is.

use std::io::{self, Write};

use crate::output;
use crate::progress::{MARK, Progress};

/// Writes of a guest, line by line.
pub struct Messages {
    progress: Progress,
    unfinished: Vec<u8>,
    last: String,
    quiet: bool,
}

impl Messages {
    /// A bar that begins with the guest's boot. Quiet: only that, where there is a terminal.
    pub fn new(quiet: bool) -> Messages {
        let mut progress = Progress::new(quiet, "guest: ");
        progress.at(0.0, "the guest boots");
        Messages { progress, unfinished: Vec::new(), last: String::new(), quiet }
    }

    /// Nothing more will come.
    pub fn finish(&mut self) {
        if !self.unfinished.is_empty() {
            let _ = self.write(b"\n");
        }
        self.progress.finish();
    }

    /// What it said last: why it failed. Without a word of its own, the status.
    pub fn last_line(&self, status: u8) -> String {
        match self.last.strip_prefix("cowlab: ").unwrap_or(&self.last) {
            "" => format!("ended with status {status}"),
            said => said.to_owned(),
        }
    }

    fn line(&mut self, line: &str) {
        match progress_of(line) {
            Some((done, name)) => self.progress.at(done, name),
            None => {
                // Where the guest keeps its run is nobody's business: it is brought home.
                if !line.trim().is_empty() && !line.contains("the run is ") {
                    self.last = line.trim().to_owned();
                    if !self.quiet {
                        self.progress.suspend(|| output::say(&format!("guest: {}", self.last)));
                    }
                }
            }
        }
    }
}

/// The share that is done, and what runs.
fn progress_of(line: &str) -> Option<(f64, &str)> {
    let (done, name) = line.strip_prefix(MARK)?.split_once(' ')?;
    Some((done.parse().ok()?, name))
}

impl Write for Messages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            if *byte == b'\n' {
                let line =
                    String::from_utf8_lossy(&std::mem::take(&mut self.unfinished)).into_owned();
                self.line(&line);
            } else {
                self.unfinished.push(*byte);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_messages_are_told_apart() {
        assert_eq!(
            progress_of("progress 0.25 cow-faults: random"),
            Some((0.25, "cow-faults: random"))
        );
        assert_eq!(progress_of("progress is slow"), None);
        let mut messages = Messages::new(true);
        messages.write_all(b"progress 0.1 a\ncowlab: no such ").unwrap();
        messages.write_all(b"policy\nprogress 1 b\n").unwrap();
        messages.finish();
        assert_eq!(messages.last_line(1), "no such policy");
        assert_eq!(Messages::new(true).last_line(3), "ended with status 3");
    }
}
