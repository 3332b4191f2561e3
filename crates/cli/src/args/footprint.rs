// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flags of `footprint`.

use std::ffi::OsString;

use clap::Args;
use cowlab_observe::footprint::Method;

use super::{RunArgs, TargetWord, seconds};

/// Whose pages, between which moments, and how they are seen.
#[derive(Debug, Args)]
pub struct FootprintArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Look at this running process; nothing stops it
    #[arg(
        value_name = "TARGET",
        conflicts_with = "command",
        value_parser = TargetWord::parse,
        allow_negative_numbers = true
    )]
    pub targets: Vec<TargetWord>,
    /// Of a running process: from each of its next N forks to the end of its child, one after the
    /// other
    #[arg(long, value_name = "N", requires = "targets", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub forks: Option<u64>,
    /// Time between the two moments of a running process (1 s); with --forks, how long to wait for a
    /// fork (60 s)
    #[arg(long, value_name = "SECONDS", requires = "targets", value_parser = seconds, allow_negative_numbers = true)]
    pub duration_s: Option<f64>,
    /// How writes are seen: faults, exclusive, snapshot; by default the cheapest that sees them here
    #[arg(long)]
    pub method: Option<Method>,
    /// With a command: it sends itself this signal, by name or number, to mark a moment; the signal
    /// is not delivered
    #[arg(long, value_name = "SIGNAL", requires = "command", value_parser = signal)]
    pub mark: Option<i32>,
    /// The command and its arguments; it and all that it starts are followed
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Signals that programs ignore or use freely; the others have meanings of their own.
const SIGNALS: [(&str, i32); 4] = [("URG", 23), ("WINCH", 28), ("USR1", 10), ("USR2", 12)];

fn signal(text: &str) -> Result<i32, String> {
    let name = text.trim_start_matches("SIG");
    let found = SIGNALS
        .iter()
        .find(|(known, number)| known.eq_ignore_ascii_case(name) || number.to_string() == text);
    found.map(|(_, number)| *number).ok_or_else(|| {
        format!("'{text}' cannot mark a moment: use URG or WINCH, which do nothing without cowlab, or USR1 or USR2")
    })
}

#[cfg(test)]
mod tests {
    use super::signal;

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(signal("SIGURG"), Ok(23));
        assert_eq!(signal("winch"), Ok(28));
        assert_eq!(signal("12"), Ok(12));
        assert!(signal("KILL").unwrap_err().contains("URG"));
    }
}
