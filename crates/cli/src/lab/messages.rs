// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest's cowlab says, on this terminal.

use std::io::{self, Write};

use crate::output;

/// Writes of a guest, line by line.
pub struct Messages {
    unfinished: Vec<u8>,
    last: String,
    quiet: bool,
}

impl Messages {
    pub fn new(quiet: bool) -> Messages {
        Messages { unfinished: Vec::new(), last: String::new(), quiet }
    }

    /// What it said last: why it failed. Without a word of its own, the status.
    pub fn last_line(&self, status: u8) -> String {
        match self.last.strip_prefix("cowlab: ").unwrap_or(&self.last) {
            "" => format!("ended with status {status}"),
            said => said.to_owned(),
        }
    }

    fn line(&mut self, line: &str) {
        // Where the guest keeps its run is nobody's business: it is brought home.
        if !line.is_empty() && !line.contains("the run is ") {
            line.clone_into(&mut self.last);
            if !self.quiet {
                output::say(&format!("guest: {line}"));
            }
        }
    }
}

impl Write for Messages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unfinished.extend_from_slice(bytes);
        while let Some(end) = self.unfinished.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unfinished.drain(..=end).collect();
            self.line(String::from_utf8_lossy(&line).trim());
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
    fn the_last_whole_line_says_why() {
        let mut messages = Messages::new(true);
        messages.write_all(b"10% done: a\ncowlab: no such ").unwrap();
        messages.write_all(b"policy\n\n").unwrap();
        assert_eq!(messages.last_line(1), "no such policy");
        assert_eq!(Messages::new(true).last_line(3), "ended with status 3");
    }
}
